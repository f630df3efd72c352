"""What becomes of each field over all values: whether it had any, keeps any, and still differs."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from statemigrate.errors import HIDDEN
from statemigrate.formats import Format, Value
from statemigrate.formats.schema.places import Place, places, values_at
from statemigrate.inspect.trial.fields.effects import shown

KEYS = 5
"""So many keys are named of the values that lose a field."""


@dataclass
class Side:
    """What a field held on one side of a step.

    ``holds`` says that one value was more than None, ``varies`` that they were not all the same.
    ``first`` is a digest of the first one, ``text`` shows one.
    """

    holds: bool = False
    varies: bool = False
    first: str = ""
    text: str = ""

    def add(self, other: Side) -> None:
        """Add what another partition saw."""
        differ = bool(self.first and other.first and self.first != other.first)
        self.varies = self.varies or other.varies or differ
        self.holds = self.holds or other.holds
        self.first = self.first or other.first
        self.text = self.text or other.text


@dataclass
class Fate:
    """One field before and after a step.

    ``flows`` says that something of what the step returns was seen to depend on the field, which
    was tried ``attempts`` times. In ``emptied`` values, a few of whose keys are ``keys``, there was
    something before, and less or nothing after.
    """

    before: Side = field(default_factory=Side)
    after: Side = field(default_factory=Side)
    flows: bool = False
    attempts: int = 0
    emptied: int = 0
    keys: list[str] = field(default_factory=list)

    def add(self, other: Fate) -> None:
        """Add what another partition saw."""
        self.before.add(other.before)
        self.after.add(other.after)
        self.flows = self.flows or other.flows
        self.attempts += other.attempts
        self.emptied += other.emptied
        self.keys = (self.keys + other.keys)[:KEYS]

    def to_json(self) -> dict[str, Any]:
        """The form that travels."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Fate:
        """Read what `to_json` gave."""
        sides = {name: Side(**document[name]) for name in ("before", "after")}
        return cls(**{**document, **sides})


class Seen(NamedTuple):
    """What one value has at a place: ``first`` and ``text`` are kept if there was none before."""

    holds: bool
    differs: bool
    first: Any
    text: str


class Watch:
    """Looks at the fields of every value, before and after one step.

    A field that is settled is not looked at again: once its new values are seen to differ, neither
    None nor a single value can be all that is left of it; and of one that has no new values it is
    enough to know that it had any.
    """

    def __init__(self, old: Format, new: Format, *, examples: bool = True) -> None:
        kept = {each.path for each in places(new.schema)}
        leaves = [each for each in places(old.schema) if each.is_leaf]
        self._fields = {each.path: _Field(each, is_kept=each.path in kept) for each in leaves}
        self._open = list(self._fields.values())
        self._examples = examples

    @property
    def is_open(self) -> bool:
        """Whether any field is not settled."""
        return bool(self._open)

    def seen(self, value: Value, side: int) -> list[Seen]:
        """Note what a value has, 0 before the step or 1 after it: the next step may change it."""
        return [each.seen[side](value) for each in self._open]

    def add(self, before: list[Seen], after: list[Seen]) -> None:
        """Count a value that got through; both were noted since the last one was counted."""
        settled = False
        for each, *seen in zip(self._open, before, after, strict=True):
            if seen != _AS_BEFORE:
                each.add(*seen)
                settled = settled or each.is_settled
        if settled:
            self._open = [each for each in self._open if not each.is_settled]

    def fates(self) -> Iterator[tuple[str, Fate]]:
        """Every field's, by path; without ``flows``."""
        for path, each in self._fields.items():
            fate = each.fate()
            if not self._examples:
                fate.before.text, fate.after.text = "", HIDDEN
            yield path, fate


class _Field:
    def __init__(self, place: Place, *, is_kept: bool) -> None:
        self._before, self._after = _Values(place.parts), _Values(place.parts)
        self._is_kept = is_kept
        self.seen = (self._before.seen, self._after.seen)

    @property
    def is_settled(self) -> bool:
        if not self._is_kept:
            return self._before.holds
        return self._after.holds and self._after.varies

    def add(self, before: Seen, after: Seen) -> None:
        self._before.add(before)
        self._after.add(after)

    def fate(self) -> Fate:
        return Fate(self._before.told(), self._after.told())


_NOTHING = object()
_NO_NEWS = Seen(holds=False, differs=False, first=_NOTHING, text="")
_AS_BEFORE = [_NO_NEWS, _NO_NEWS]


class _Values:
    """The values at one place, on one side."""

    def __init__(self, parts: tuple[str, ...]) -> None:
        self.holds = False
        self.varies = False
        self._parts = parts
        self._is_single = not {"[]", "{}"} & set(parts)
        self._first: Any = _NOTHING
        self._text = ""

    def seen(self, value: Value) -> Seen:
        first = self._first
        if self._is_single:  # most fields, and this is done for every value
            one: Any = value
            for name in self._parts:
                one = one.get(name) if isinstance(one, dict) else None
            if one is first or one == first:
                return _NO_NEWS
            found: tuple[Any, ...] = (one,)
        else:
            found = tuple(values_at(value, self._parts))
        if first is _NOTHING and found:
            first = deepcopy(found[0])
        held = [each for each in found if holds_something(each)]
        text = shown(held[0]) if held and not self._text else ""
        return Seen(bool(held), any(each != first for each in found), first, text)

    def add(self, seen: Seen) -> None:
        self.holds = self.holds or seen.holds
        self.varies = self.varies or seen.differs
        self._text = self._text or seen.text
        if self._first is _NOTHING:
            self._first = seen.first

    def told(self) -> Side:
        digest = "" if self._first is _NOTHING else sha256(repr(self._first).encode()).hexdigest()
        return Side(self.holds, self.varies, digest[:16], self._text)


def holds_something(value: Any) -> bool:
    """Whether a value, or anything in it, is more than None."""
    if isinstance(value, dict):
        return any(map(holds_something, value.values()))
    if isinstance(value, list):
        return any(map(holds_something, value))
    return value is not None
