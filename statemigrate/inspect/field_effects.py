"""What a migration does to each field, over all values.

What becomes of each field over all values: whether it had any, keeps any, and still differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from dataclasses import field as dataclass_field
from hashlib import sha256
from typing import Any, NamedTuple

from statemigrate.errors import HIDDEN, TransformError, ValueMismatchError
from statemigrate.formats import Format, Value, json_text, samples
from statemigrate.formats.schema import (
    FieldAddress,
    Node,
    Record,
    Union,
    field_addresses,
    field_paths,
    is_within,
    replaced,
    values_at,
)
from statemigrate.inspect.dry_run_report import ConstantField, Effect, Loss, ValueExample
from statemigrate.inspect.emptied_fields import equal_to, first_of, validity
from statemigrate.migration import Step

# How a value differs from another, field by field.


_WIDTH = 160
_MOST = 2000
Change = tuple[Effect, str, Any, Any]


def changes(before: Value, after: Value, old: Record, new: Record) -> Iterator[Change]:
    """Each field's effect, its path, and its value before and after.

    ``old`` and ``new`` are the schemas. Records within are compared field by field where both sides
    have one; lists and maps as a whole.
    """
    return _changes(before, after, old, new, "")


def _changes(before: Value, after: Value, old: Record, new: Record, at: str) -> Iterator[Change]:
    types = {each.name: each.type for each in new.fields}
    for field in old.fields:
        path, value = f"{at}{field.name}", before[field.name]
        if field.name not in types:
            yield "removed", path, value, None
            continue
        yield from _common(value, after[field.name], field.type, types[field.name], path)
    kept = {field.name for field in old.fields}
    for name in types:
        if name not in kept:
            yield "added", f"{at}{name}", None, after[name]


def _common(before: Any, after: Any, old: Node, new: Node, path: str) -> Iterator[Change]:
    one, other = record_in(old), record_in(new)
    if one and other and isinstance(before, dict) and isinstance(after, dict):
        yield from _changes(before, after, one, other, f"{path}.")
    else:
        # 1 == 1.0 == True, yet a field that changed its type has changed.
        same = before == after and type(before) is type(after)
        emptied = after is None and before is not None
        yield ("kept" if same else "emptied" if emptied else "changed"), path, before, after


def record_in(node: Node) -> Record | None:
    """The record that a type is, possibly nullable; None where it is none."""
    if isinstance(node, Union):
        records = [branch for branch in node.branches if isinstance(branch, Record)]
        return records[0] if len(records) == 1 else None
    return node if isinstance(node, Record) else None


def shown(value: Any) -> str:
    """A value as text of at most 160 characters."""
    text = json.dumps(value, default=_text, ensure_ascii=False)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 4]} ..."


def shown_key(key: Any) -> str:
    """A key as `statemigrate get` takes it: JSON, a list of its columns; a giant one is cut."""
    text = json_text(key)
    return text if len(text) <= _MOST else f"{text[:_MOST]} ..."


def shown_whole(value: Value) -> str:
    """A whole value as lines of text, some 2,000 characters at the most."""
    text = json.dumps(value, default=_text, ensure_ascii=False, indent=2)
    return text if len(text) <= _MOST else f"{text[:_MOST]}\n..."


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


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
class FieldOutcome:
    """One field before and after a step.

    ``flows`` says that something of what the step returns depends on the field, which
    was tried ``attempts`` times. In ``emptied`` values, a few of whose keys are ``keys``, there was
    something before, and less or nothing after.
    """

    before: Side = dataclass_field(default_factory=Side)
    after: Side = dataclass_field(default_factory=Side)
    flows: bool = False
    attempts: int = 0
    emptied: int = 0
    keys: list[str] = dataclass_field(default_factory=list)

    def add(self, other: FieldOutcome) -> None:
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
    def from_json(cls, document: dict[str, Any]) -> FieldOutcome:
        """Read what `to_json` gave."""
        sides = {name: Side(**document[name]) for name in ("before", "after")}
        return cls(**{**document, **sides})


class Observation(NamedTuple):
    """What one value has in a field: ``first`` and ``text`` stay if there was none before."""

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
        kept = field_paths(new.schema)
        leaves = [each for each in field_addresses(old.schema) if each.is_leaf]
        self._fields = {each.path: _Field(each, is_retained=each.path in kept) for each in leaves}
        self._open = list(self._fields.values())
        self._examples = examples

    @property
    def is_open(self) -> bool:
        """Whether any field is not settled."""
        return bool(self._open)

    def observe(self, value: Value, side: int) -> list[Observation]:
        """Note what a value has, 0 before the step or 1 after it: the next step may change it."""
        return [each.observe[side](value) for each in self._open]

    def add(self, before: list[Observation], after: list[Observation]) -> None:
        """Count a value that got through; both were noted since the last one was counted."""
        settled = False
        for each, *observation in zip(self._open, before, after, strict=True):
            if observation != _AS_BEFORE:
                each.add(*observation)
                settled = settled or each.is_settled
        if settled:
            self._open = [each for each in self._open if not each.is_settled]

    def news_in(self, before: Any, after: Any) -> Iterator[int]:
        """The places in columns of values of those with which more is known of a field."""
        for each in self._open:
            yield from each.news_in(before, after)

    def outcomes(self) -> Iterator[tuple[str, FieldOutcome]]:
        """Every field's, by path; without ``flows``."""
        for path, each in self._fields.items():
            outcome = each.outcome()
            if not self._examples:
                outcome.before.text, outcome.after.text = "", HIDDEN
            yield path, outcome


class _Field:
    def __init__(self, address: FieldAddress, *, is_retained: bool) -> None:
        self._before, self._after = _Values(address.parts), _Values(address.parts)
        self._is_retained = is_retained
        self.observe = (self._before.observe, self._after.observe)

    @property
    def is_settled(self) -> bool:
        if not self._is_retained:
            return self._before.holds
        return self._after.holds and self._after.varies

    def add(self, before: Observation, after: Observation) -> None:
        self._before.add(before)
        self._after.add(after)

    def news_in(self, before: Any, after: Any) -> Iterator[int]:
        yield from self._before.news_in(before)
        yield from self._after.news_in(after)

    def outcome(self) -> FieldOutcome:
        return FieldOutcome(self._before.to_side(), self._after.to_side())


_NOTHING = object()
_NO_NEWS = Observation(holds=False, differs=False, first=_NOTHING, text="")
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

    def observe(self, value: Value) -> Observation:
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
        held = [each for each in found if has_content(each)]
        text = shown(held[0]) if held and not self._text else ""
        return Observation(bool(held), any(each != first for each in found), first, text)

    def news_in(self, array: Any) -> Iterator[int]:
        has = validity(array, self._parts)
        if not self.holds:
            yield from first_of(has)
        if self._first is _NOTHING:
            yield 0
        elif not self.varies:
            yield from first_of(~equal_to(array, self._parts, self._first))

    def add(self, observation: Observation) -> None:
        self.holds = self.holds or observation.holds
        self.varies = self.varies or observation.differs
        self._text = self._text or observation.text
        if self._first is _NOTHING:
            self._first = observation.first

    def to_side(self) -> Side:
        digest = "" if self._first is _NOTHING else sha256(repr(self._first).encode()).hexdigest()
        return Side(self.holds, self.varies, digest[:16], self._text)


def has_content(value: Any) -> bool:
    """Whether a value, or anything in it, is more than None."""
    if isinstance(value, dict):
        return any(map(has_content, value.values()))
    if isinstance(value, list):
        return any(map(has_content, value))
    return value is not None


# Whether anything that a transform returns depends on a field: tried by changing the field.


_MOST_FLOWS = 24
"""After so many values without an effect a field is taken to have none."""
_A_VALUE = 8
"""How many changes are tried of one value."""


class Flows:
    """Runs one step on values in which a field was changed, until something comes out otherwise.

    A transform that fails on the changed value has looked at it too. What comes out otherwise
    without any change, such as the present time, counts for nothing.
    """

    def __init__(self, old: Format, step: Step) -> None:
        self._format, self._step = old, step
        self._fields = [
            _FlowField(address) for address in field_addresses(old.schema) if address.is_leaf
        ]
        self._untried = self._fields

    @property
    def is_settled(self) -> bool:
        """Whether no further value needs to be looked at."""
        return not any(each.is_open for each in self._fields)

    def wants(self, value: Value) -> bool:
        """Whether a value has a field that was never tried."""
        if not self._untried:
            return False
        self._untried = [each for each in self._untried if not each.attempts]
        return any(each.has_value_in(value) for each in self._untried)

    def look(self, data: bytes) -> None:
        """Try the fields of one value, given as its format writes it."""
        value = self._format.decode(data)
        wanted = [each for each in self._fields if each.is_open and each.has_value_in(value)]
        known = (self._result(data), self._result(data)) if wanted else (None, None)
        for each in wanted:
            each.attempts += 1
            each.flows = self._shows(each, value, known)
            each.note(value)

    def results(self) -> Iterator[tuple[str, bool, int]]:
        """Each field's path, whether anything depends on it, and how many values were tried."""
        for each in self._fields:
            yield each.address.path, each.flows, each.attempts

    def _shows(self, field: _FlowField, value: Value, known: tuple[Any, Any]) -> bool:
        for data in self._written(field.changes(value)):
            found = self._result(data)
            if found is None or any(_differ(found, *known)):
                return True
        return False

    def _written(self, values: Iterator[Value]) -> Iterator[bytes]:
        for value in values:
            try:
                yield self._format.encode(value)
            except ValueMismatchError:
                # What is made up of a type may be more than the type holds.
                continue

    def _result(self, data: bytes) -> dict[str, str] | None:
        whole_result = getattr(self._step.transform, "whole_result", None)
        try:
            if whole_result is not None:
                return {"": repr(whole_result(self._format.decode(data)))}
            result = self._step.run(self._format.decode(data))
        except TransformError:
            return None
        return {name: repr(each) for name, each in result.items()}


class _FlowField:
    def __init__(self, address: FieldAddress) -> None:
        self.address = address
        self.flows = False
        self.attempts = 0
        self._seen: list[Any] = []
        self._samples = samples(address.type)

    @property
    def is_open(self) -> bool:
        return not self.flows and self.attempts < _MOST_FLOWS

    def has_value_in(self, value: Value) -> bool:
        if len(self.address.parts) == 1:  # most fields
            return has_content(value.get(self.address.parts[0]))
        return any(map(has_content, values_at(value, self.address.parts)))

    def changes(self, value: Value) -> Iterator[Value]:
        """The value with the field as another value had it, and as values were made up."""
        turn = self.attempts % max(len(self._samples), 1)
        others = [*self._seen, *self._samples[turn:], *self._samples[:turn]]
        present = list(values_at(value, self.address.parts))
        differing = [each for each in others if each not in present]
        for other in differing[:_A_VALUE]:
            yield replaced(value, self.address.parts, other)

    def note(self, value: Value) -> None:
        """Keep what real values have: code may know of these alone."""
        for each in values_at(value, self.address.parts):
            if each not in self._seen:
                self._seen = [each, *self._seen][:2]


def _differ(found: dict[str, str], one: Any, other: Any) -> Iterator[bool]:
    if one is None or other is None:
        return
    for name in {*found, *one}:
        if one.get(name) == other.get(name):
            yield found.get(name) != one.get(name)


# Which fields a migration empties, by their outcomes.


FieldOutcomes = Mapping[tuple[int, str], FieldOutcome]
"""By the number of a step on the path and a field's path."""


def losses(steps: Sequence[Step], outcomes: FieldOutcomes) -> tuple[Loss, ...]:
    """The fields that had values and keep none, and those that keep none in some values.

    Of the first either the field is there and None in every value, or it is gone, and nothing that
    the step returns depends on it.
    """
    return (*_whole(steps, outcomes), *_partial(steps, outcomes))


def _whole(steps: Sequence[Step], outcomes: FieldOutcomes) -> Iterator[Loss]:
    yield from (
        Loss(
            path,
            step.direction,
            step.revision,
            step.script,
            meant,
            _losses_text(path, step_outcomes),
        )
        for step, step_outcomes in _by_step(steps, outcomes)
        for meant, lost in _lost(step, step_outcomes).items()
        for path in _outermost(
            lost, [path for path, outcome in step_outcomes.items() if outcome.before.holds]
        )
    )


def _partial(steps: Sequence[Step], outcomes: FieldOutcomes) -> Iterator[Loss]:
    for step, step_outcomes in _by_step(steps, outcomes):
        whole = [path for lost in _lost(step, step_outcomes).values() for path in lost]
        had = [path for path, outcome in step_outcomes.items() if outcome.before.holds]
        emptied = [
            path for path, outcome in step_outcomes.items() if outcome.emptied and path not in whole
        ]
        for meant in (False, True):
            lost = [path for path in emptied if _meant(step, path) is meant]
            for path in _outermost(lost, had):
                most = max(
                    (step_outcomes[each] for each in lost if is_within(each, path)),
                    key=lambda outcome: outcome.emptied,
                )
                values, keys = most.emptied, tuple(most.keys)
                text = _losses_text(path, step_outcomes)
                yield Loss(
                    path, step.direction, step.revision, step.script, meant, text, values, keys
                )


def constants(steps: Sequence[Step], outcomes: FieldOutcomes) -> tuple[ConstantField, ...]:
    """The fields whose values differed, and are one and the same after a step."""
    return tuple(
        ConstantField(
            path, step.direction, step.revision, step.script, _meant(step, path), outcome.after.text
        )
        for step, step_outcomes in _by_step(steps, outcomes)
        for path, outcome in step_outcomes.items()
        if outcome.before.varies and outcome.after.holds and not outcome.after.varies
    )


def _by_step(
    steps: Sequence[Step], outcomes: FieldOutcomes
) -> Iterator[tuple[Step, dict[str, FieldOutcome]]]:
    for number, step in enumerate(steps):
        yield step, {path: outcome for (of, path), outcome in outcomes.items() if of == number}


def _lost(step: Step, outcomes: Mapping[str, FieldOutcome]) -> dict[bool, list[str]]:
    """The lost fields, apart by whether that is meant."""
    there = field_paths(step.format.schema)
    lost = [
        path
        for path, outcome in outcomes.items()
        if outcome.before.holds
        and not outcome.after.holds
        and (path in there or _goes_nowhere(outcome))
    ]
    return {meant: [p for p in lost if _meant(step, p) is meant] for meant in (False, True)}


def _goes_nowhere(outcome: FieldOutcome) -> bool:
    return outcome.attempts > 0 and not outcome.flows


def _meant(step: Step, path: str) -> bool:
    return any(is_within(path, drop) for drop in step.drops)


def _outermost(lost: list[str], had: list[str]) -> Iterable[str]:
    """The lost fields; a struct in place of its fields where all that had values are lost."""
    return dict.fromkeys(_widest(path, lost, had) for path in lost)


def _widest(path: str, lost: list[str], had: list[str]) -> str:
    for end in (address for address, sign in enumerate(path) if sign in ".[{"):
        outer = path[:end]
        if all(each in lost for each in had if is_within(each, outer)):
            return outer
    return path


def _losses_text(path: str, outcomes: Mapping[str, FieldOutcome]) -> str:
    return outcomes[path].before.text if path in outcomes else ""


# Values of a dry run that have something in common.


_KEYS = 5
_EXAMPLES = 3


@dataclass
class Group:
    """Values with something in common: how many, a few keys and examples, one error's own text."""

    values: int = 0
    note: str = ""
    keys: list[str] = dataclass_field(default_factory=list)
    examples: list[tuple[str, str | None, str | None]] = dataclass_field(default_factory=list)

    def add(self, other: Group) -> None:
        """Add another partition's."""
        self.values += other.values
        self.note = self.note or other.note
        self.keys = (self.keys + other.keys)[:_KEYS]
        self.examples = (self.examples + other.examples)[:_EXAMPLES]

    @property
    def wants_key(self) -> bool:
        """Whether it has too few keys yet."""
        return len(self.keys) < _KEYS

    @property
    def wants_example(self) -> bool:
        """Whether it has too few examples yet."""
        return len(self.examples) < _EXAMPLES

    def shown(self) -> tuple[ValueExample, ...]:
        """The examples as a report has them."""
        return tuple(ValueExample(*each) for each in self.examples)
