"""Whether lenses make the same of a value as the functions that they take the place of.

A value that they change differently is found, and made as small as still shows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from statemigrate.errors import ValueMismatchError, values_hidden
from statemigrate.formats import Format, Value
from statemigrate.inspect.field_effects import changes, shown
from statemigrate.inspect.laws import shrunk
from statemigrate.lenses import Change
from statemigrate.migration import Direction, Migration, MigrationPath, Transform
from statemigrate.state import Document, Part

_GROUPS = 20


@dataclass(frozen=True)
class Unequal:
    """A field that lenses change otherwise than the functions, in so many ``values``.

    ``way`` is the function that differs. ``field`` is None where the lenses take no such value.
    ``value`` is the smallest that was found; ``by_hand`` and ``by_lenses`` are what is made of it.
    All three are JSON, and None where values are not to be shown.
    """

    way: Direction
    field: str | None
    values: int
    value: str | None
    by_hand: str | None
    by_lenses: str | None

    def more(self, values: int) -> Unequal:
        """The same field with so many more ``values``."""
        return replace(self, values=self.values + values)

    def to_json(self) -> dict[str, Any]:
        """Its parts, for machines."""
        return asdict(self)


@dataclass
class Equality:
    """What a trial of both found: ``tried`` values of each way, and those that are not equal.

    The functions have ``refused`` some of them. For these the lenses may have a result: a query
    with the functions has stopped there. ``taken`` are those, with the smallest one.
    """

    tried: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    groups: dict[str, Unequal] = field(default_factory=dict)

    @property
    def is_equal(self) -> bool:
        """Whether all that the functions make is made by the lenses too."""
        return not self.groups

    def add(self, other: Equality) -> None:
        """Add what other values showed."""
        for name in ("tried", "refused", "taken"):
            own = getattr(self, name)
            for way, number in getattr(other, name).items():
                own[way] = own.get(way, 0) + number
        for name, group in other.groups.items():
            own_group = self.groups.get(name)
            self.groups[name] = group if own_group is None else own_group.more(group.values)

    def to_json(self) -> dict[str, Any]:
        """The form that travels."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Equality:
        """Read what `to_json` gave."""
        groups = {name: Unequal(**each) for name, each in document["groups"].items()}
        return cls(document["tried"], document["refused"], document["taken"], groups)


@dataclass(frozen=True)
class LensComparison:
    """Two functions by hand, and the lenses that are to take their place.

    It holds everything it needs, and can travel to workers.
    """

    old: Format
    new: Format
    upgrade: Transform
    downgrade: Transform | None
    change: Change | Migration

    def compare(self, values: Iterable[Value], way: Direction, found: Equality) -> None:
        """Take values of the format before ``way`` through both, and note what differs."""
        if not self._has(way):
            return
        for value in values:
            found.tried[way] = found.tried.get(way, 0) + 1
            self._compare(value, way, found)

    def _has(self, way: Direction) -> bool:
        return way == "upgrade" or self.downgrade is not None

    def _compare(self, value: Value, way: Direction, found: Equality) -> None:
        before, _ = self._formats(way)
        by_hand, by_lenses = self._made(before.encode(value), way)
        if by_hand is None:
            found.refused[way] = found.refused.get(way, 0) + 1
            if by_lenses is not None:
                found.taken[way] = found.taken.get(way, 0) + 1
            return
        if by_hand == by_lenses:
            return
        for name, sides in self._differing(by_hand, by_lenses, way):
            group = f"{way} {name or ''}"
            if group in found.groups:
                found.groups[group] = found.groups[group].more(1)
            elif len(found.groups) < _GROUPS:
                found.groups[group] = self._shown(value, way, name, sides)

    def _formats(self, way: Direction) -> tuple[Format, Format]:
        return (self.old, self.new) if way == "upgrade" else (self.new, self.old)

    def _made(self, data: bytes, way: Direction) -> tuple[bytes | None, bytes | None]:
        before, after = self._formats(way)
        hand = self.upgrade if way == "upgrade" else self.downgrade
        lenses = self.change.upgrade if way == "upgrade" else self.change.downgrade

        def made(function: Transform | None) -> bytes | None:
            try:
                return None if function is None else after.encode(function(before.decode(data)))
            except Exception:  # whatever a script's function raises
                return None

        return made(hand), made(lenses)

    def _differing(
        self, by_hand: bytes, by_lenses: bytes | None, way: Direction
    ) -> Iterator[tuple[str | None, tuple[Any, Any]]]:
        _, after = self._formats(way)
        one = after.decode(by_hand)
        if by_lenses is None:
            yield None, (one, None)
            return
        other = after.decode(by_lenses)
        found = [
            (path, (a, b))
            for effect, path, a, b in changes(one, other, after.schema, after.schema)
            if effect != "kept" and repr(a) != repr(b)
        ]
        yield from found

    def _shown(
        self, value: Value, way: Direction, name: str | None, sides: tuple[Any, Any]
    ) -> Unequal:
        if values_hidden():
            return Unequal(way, name, 1, None, None, None)
        before, _ = self._formats(way)

        def differs(tried: Value) -> tuple[Any, Any] | None:
            try:
                one, other = self._made(before.encode(tried), way)
            except ValueMismatchError:
                return None
            if one is None or one == other:
                return None
            return dict(self._differing(one, other, way)).get(name)

        smallest = shrunk(value, before.schema, lambda each: differs(each) is not None)
        one, other = differs(smallest) or sides
        made = None if name is None else shown(other)
        return Unequal(way, name, 1, shown(smallest), shown(one), made)


@dataclass(frozen=True)
class Comparing:
    """A task of `statemigrate.state.protocol.Values.map`: compares a part's values.

    ``ways`` has, by family, the paths that lead from it to the format before each way.
    """

    comparison: LensComparison
    ways: Mapping[str, Mapping[Direction, MigrationPath]]

    def __call__(self, part: Part) -> Document:
        """What was found, as JSON holds it."""
        found = Equality()
        for _, _, value in part.values:
            for way, path in self.ways[part.family].items():
                self.comparison.compare(_through(path, value), way, found)
        return json.loads(json.dumps(found.to_json()))  # type: ignore[no-any-return]


def _through(path: MigrationPath, value: Value) -> Iterator[Value]:
    from copy import deepcopy

    try:
        made = path.apply(deepcopy(value))
        yield path.steps[-1].format.conform(made) if path.steps else made
    except Exception:  # another script's business, and that of a dry run
        return
