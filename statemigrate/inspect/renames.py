"""Fields that have another name afterwards, found by values that are the same under both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from statemigrate.formats import Value
from statemigrate.formats.schema import Record
from statemigrate.inspect.dry_run_report import FieldEffect, ValueExample
from statemigrate.inspect.field_effects import Group, record_in, shown

_BETWEEN = " \N{RIGHTWARDS ARROW} "
_VARIES = "varies"
_DOT = "."
Pair = tuple[str, str]
Path = tuple[str, ...]


class Renames:
    """Which removed field went to which added one, in the values that it is shown.

    Both are identified by their paths, so that a field that enters a struct is found as one that
    leaves it. A pair is a rename if both sides were the same in every value, and two values
    differed: a field that is always 0 could have gone to any other.
    """

    def __init__(self, old: Record, new: Record, *, examples: bool) -> None:
        self._wholes = {"removed": dict(_only_in(old, new)), "added": dict(_only_in(new, old))}
        self._gone, self._came = (
            {_DOT.join(path): path for paths in wholes.values() for path in paths}
            for wholes in self._wholes.values()
        )
        self._examples = examples
        self._pairs: dict[Pair, Group] | None = None

    def look(self, key: str, before: Value, after: Value) -> None:
        """Compare what a value was with what it became."""
        here = {name: _at(before, path) for name, path in self._gone.items()}
        there = {name: _at(after, path) for name, path in self._came.items()}
        if self._pairs is None:
            pairs = ((one, other) for one in here for other in there)
            self._pairs = {(a, b): Group() for a, b in pairs if _same(here[a], there[b])}
        for (one, other), group in list(self._pairs.items()):
            if not _same(here[one], there[other]):
                del self._pairs[one, other]
                continue
            self._note(group, key, here[one])

    def confirmed(self) -> dict[str, Group]:
        """The pairs that were the same in every value, by both names."""
        return {_BETWEEN.join(pair): group for pair, group in (self._pairs or {}).items()}

    def parts(self) -> dict[str, list[str]]:
        """By their effect, as ``removed item``, the fields of structs that came or went whole."""
        return {
            f"{effect} {_DOT.join(whole)}": [_DOT.join(path) for path in paths]
            for effect, wholes in self._wholes.items()
            for whole, paths in wholes.items()
            if paths and paths != [whole]
        }

    def _note(self, group: Group, key: str, value: Any) -> None:
        group.values += 1
        if value is not None:
            _add_note(group, sha256(repr(value).encode("utf-8", "surrogatepass")).hexdigest())
        if self._examples and group.wants_example:
            group.examples.append((key, shown(value), shown(value)))


def add_renames(own: dict[str, Group], theirs: Mapping[str, Group]) -> None:
    """Add what another partition found."""
    for name, group in theirs.items():
        into = own.setdefault(name, Group())
        note = into.note
        into.add(group)
        into.note = note
        _add_note(into, group.note)


def _add_note(group: Group, digest: str) -> None:
    """Note a value by its digest, and that there are several once there is another."""
    if digest:
        group.note = digest if group.note in ("", digest) else _VARIES


def with_renames(
    effects: tuple[FieldEffect, ...],
    pairs: Mapping[str, Group],
    looked_at: int,
    parts: Mapping[str, Sequence[str]],
) -> tuple[FieldEffect, ...]:
    """The effects, with a rename in place of what was removed and what came in its place.

    Only where one field went to one other: what two fields could have become is left as it is. Of a
    struct that came or went whole, whose ``parts`` these are, nothing is left if all were renamed.
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
    renamed = [
        FieldEffect(
            one,
            "renamed",
            looked_at,
            tuple(ValueExample(*each) for each in pairs[_BETWEEN.join((one, other))].examples),
            other,
        )
        for one, other in sure
    ]
    confirmed = {"removed": {one for one, _ in sure}, "added": {other for _, other in sure}}
    rest = [
        each
        for each in effects
        if not confirmed.get(each.effect, set()).issuperset(
            parts.get(f"{each.effect} {each.field}", (each.field,))
        )
    ]
    return (*renamed, *rest)


def _only_in(record: Record, other: Record, at: Path = ()) -> Iterator[tuple[Path, list[Path]]]:
    """The paths of the fields that ``other`` has not, each with those of what it consists of."""
    types = {field.name: field.type for field in other.fields}
    for field in record.fields:
        path, own = (*at, field.name), record_in(field.type)
        theirs = record_in(types[field.name]) if field.name in types else None
        if field.name not in types:
            yield path, list(_leaves(own, path))
        elif own is not None and theirs is not None:
            yield from _only_in(own, theirs, path)


def _leaves(record: Record | None, at: Path) -> Iterator[Path]:
    """The fields of a struct one by one. What is in a map or a list has no name."""
    if record is None:
        yield at
        return
    for field in record.fields:
        yield from _leaves(record_in(field.type), (*at, field.name))


def _at(value: Any, path: Path) -> Any:
    for name in path:
        value = None if value is None else value[name]
    return value


def _same(one: Any, other: Any) -> bool:
    # 1 == 1.0 == True, and none of them is another's new name.
    return type(one) is type(other) and bool(one == other)
