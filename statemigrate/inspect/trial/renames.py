"""Fields that have another name afterwards: told from values that are the same in both places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from statemigrate.formats import Value
from statemigrate.formats.schema.nodes import Record
from statemigrate.inspect.report.dry_run import Example, FieldEffect
from statemigrate.inspect.trial.effects import record_in, shown
from statemigrate.inspect.trial.group import Group

_BETWEEN = " \N{RIGHTWARDS ARROW} "
_VARIES = "varies"
Pair = tuple[str, str]


class Renames:
    """Which removed field went to which added one, in the values that it is shown.

    A pair is a rename if both sides were the same in every value, and two values differed: a field
    that is always 0 could have gone to any other.
    """

    def __init__(self, old: Record, new: Record, *, examples: bool) -> None:
        gone = {field.name for field in old.fields} - {field.name for field in new.fields}
        came = {field.name for field in new.fields} - {field.name for field in old.fields}
        self._gone = sorted(gone)
        self._came = {".".join(path): path for path in _leaves(new, came)}
        self._examples = examples
        self._pairs: dict[Pair, Group] | None = None

    def look(self, key: str, before: Value, after: Value) -> None:
        """Compare what a value was with what it became."""
        there = {name: _at(after, path) for name, path in self._came.items()}
        if self._pairs is None:
            pairs = ((one, other) for one in self._gone for other in there)
            self._pairs = {pair: Group() for pair in pairs}
        for (one, other), group in list(self._pairs.items()):
            if not _same(before[one], there[other]):
                del self._pairs[one, other]
                continue
            self._note(group, key, before[one])

    def told(self) -> dict[str, Group]:
        """The pairs that were the same in every value, by both names."""
        return {_BETWEEN.join(pair): group for pair, group in (self._pairs or {}).items()}

    def _note(self, group: Group, key: str, value: Any) -> None:
        group.values += 1
        if value is not None:
            _add_note(group, sha256(repr(value).encode("utf-8", "surrogatepass")).hexdigest())
        if self._examples and group.wants_example:
            group.examples.append((key, shown(value), shown(value)))


def add_renames(mine: dict[str, Group], theirs: Mapping[str, Group]) -> None:
    """Add what another partition found."""
    for name, group in theirs.items():
        into = mine.setdefault(name, Group())
        note = into.note
        into.add(group)
        into.note = note
        _add_note(into, group.note)


def _add_note(group: Group, digest: str) -> None:
    """Note a value by its digest, and that there are several once there is another."""
    if digest:
        group.note = digest if group.note in ("", digest) else _VARIES


def with_renames(
    effects: tuple[FieldEffect, ...], pairs: Mapping[str, Group], looked_at: int
) -> tuple[FieldEffect, ...]:
    """The effects, with a rename in place of what was removed and what came in its place.

    Only where one field went to one other: what two fields could have become is left as it is.
    """
    always = [
        tuple(name.split(_BETWEEN))
        for name, group in pairs.items()
        if group.values == looked_at and group.note == _VARIES
    ]
    sure = [
        (one, other)
        for one, other in always
        if sum(one == pair[0] for pair in always) == sum(other == pair[1] for pair in always) == 1
    ]
    removed = {one for one, _ in sure}
    renamed = [
        FieldEffect(
            one,
            "renamed",
            looked_at,
            tuple(Example(*each) for each in pairs[_BETWEEN.join((one, other))].examples),
            other,
        )
        for one, other in sure
    ]
    whole = {other for _, other in sure}
    rest = [
        each
        for each in effects
        if not (each.effect == "removed" and each.field in removed)
        and not (each.effect == "added" and each.field in whole)
    ]
    return (*renamed, *rest)


def _leaves(record: Record, names: set[str], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of these fields; those of a struct one by one. What is in a map has no name."""
    for field in record.fields:
        if field.name in names:
            within, path = record_in(field.type), (*at, field.name)
            if within is None:
                yield path
            else:
                yield from _leaves(within, {each.name for each in within.fields}, path)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = None if value is None else value[name]
    return value


def _same(one: Any, other: Any) -> bool:
    # 1 == 1.0 == True, and none of them is another's new name.
    return type(one) is type(other) and bool(one == other)
