"""Taking one family's values through the transforms, writing nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, Value
from statemigrate.inspect import laws
from statemigrate.inspect.causes import cause_of
from statemigrate.inspect.dry_run_report import (
    Failure,
    FamilyTrial,
    FieldEffect,
    RoundTripDifference,
    ValueExample,
)
from statemigrate.inspect.emptied_fields import CommonField, Emptied
from statemigrate.inspect.field_effects import (
    KEYS,
    FieldOutcome,
    Flows,
    Group,
    Observation,
    Watch,
    changes,
    constants,
    losses,
    shown,
    shown_key,
    shown_whole,
)
from statemigrate.inspect.laws import Inverses, Laws
from statemigrate.inspect.renames import Renames, add_renames, with_renames
from statemigrate.inspect.trial_columns import TrialColumns, TriedColumns
from statemigrate.migration import MigrationPath, Step
from statemigrate.state import Block

# What trying values found, in a form that partitions can send and the driver can add up.


_GROUPS = 50
_WHOLE = 3
_OTHERS = "other causes"


@dataclass
class Findings:
    """Of one family: the counts of `FamilyTrial`, and its groups by name.

    ``seconds`` is how long reading and trying took, added up over the partitions.
    ``lawless`` values break a law that a script claims; the names of ``laws`` are those of `Laws`.
    The names of ``fields`` are an effect and a path, as in ``changed price``; those of ``outcomes``
    the number of a step and a path. ``parts`` has the fields of structs that come or go whole, by
    the name of that effect. ``values`` are a few whole ones: a key, before and after.
    """

    stored: int = 0
    tried: int = 0
    failed: int = 0
    differing: int = 0
    lawless: int = 0
    looked_at: int = 0
    entries: int = 0
    dropped: int = 0
    several: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    seconds: float = 0.0
    sizes_before: dict[int, int] = field(default_factory=dict)
    sizes_after: dict[int, int] = field(default_factory=dict)
    failures: dict[str, Group] = field(default_factory=dict)
    differences: dict[str, Group] = field(default_factory=dict)
    fields: dict[str, Group] = field(default_factory=dict)
    renames: dict[str, Group] = field(default_factory=dict)
    laws: dict[str, Group] = field(default_factory=dict)
    parts: dict[str, list[str]] = field(default_factory=dict)
    values: list[tuple[str, str, str]] = field(default_factory=list)
    outcomes: dict[str, FieldOutcome] = field(default_factory=dict)

    def group(self, groups: dict[str, Group], name: str) -> Group:
        """The group of that name; past a number of groups, one for all others."""
        if name not in groups and len(groups) >= _GROUPS:
            name = _OTHERS
        return groups.setdefault(name, Group())

    def add(self, other: Findings) -> None:
        """Add what another partition found."""
        for name, value in vars(other).items():
            if isinstance(value, int | float):
                setattr(self, name, getattr(self, name) + value)
        for name in ("sizes_before", "sizes_after"):
            own, theirs = getattr(self, name), getattr(other, name)
            for size, values in theirs.items():
                own[size] = own.get(size, 0) + values
        for name in ("failures", "differences", "fields", "laws"):
            own, theirs = getattr(self, name), getattr(other, name)
            for each, group in theirs.items():
                self.group(own, each).add(group)
        add_renames(self.renames, other.renames)
        self.parts |= other.parts
        self.values = [*self.values, *other.values][:_WHOLE]
        for name, outcome in other.outcomes.items():
            self.outcomes.setdefault(name, FieldOutcome()).add(outcome)

    @property
    def wants_values(self) -> bool:
        """Whether it has too few whole values yet."""
        return len(self.values) < _WHOLE

    def to_json(self) -> dict[str, Any]:
        """The form that travels."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Findings:
        """Read what `to_json` gave, after a way through JSON."""
        named = dict(document)
        for name in ("failures", "differences", "fields", "renames", "laws"):
            named[name] = {each: Group(**group) for each, group in document[name].items()}
        for name in ("sizes_before", "sizes_after"):
            named[name] = {int(size): values for size, values in document[name].items()}
        named["outcomes"] = {
            each: FieldOutcome.from_json(outcome) for each, outcome in document["outcomes"].items()
        }
        return cls(**named)

    def described(
        self, family: str, revision: str, *, reversible: bool, steps: Sequence[Step] = ()
    ) -> FamilyTrial:
        """The family's part of a report, the most frequent things first.

        ``steps`` are those that its values took.
        """
        outcomes = {_step_and_path(name): outcome for name, outcome in self.outcomes.items()}
        return FamilyTrial(
            family=family,
            revision=revision,
            reversible=reversible,
            stored=self.stored,
            tried=self.tried,
            failed=self.failed,
            failures=tuple(
                Failure(_noted(cause, group), group.values, tuple(group.keys))
                for cause, group in _ordered(self.failures.items())
            ),
            differing=self.differing,
            differences=tuple(
                RoundTripDifference(name, group.values, group.shown())
                for name, group in _ordered(self.differences.items())
            ),
            looked_at=self.looked_at,
            fields=with_renames(
                tuple(_effect(name, group) for name, group in self.fields.items()),
                self.renames,
                self.looked_at,
                self.parts,
            ),
            examples=tuple(ValueExample(*each) for each in self.values),
            bytes_before=self.bytes_before,
            bytes_after=self.bytes_after,
            sizes_before=dict(sorted(self.sizes_before.items())),
            sizes_after=dict(sorted(self.sizes_after.items())),
            direction=steps[0].direction if steps else "upgrade",
            losses=losses(steps, outcomes),
            constants=constants(steps, outcomes),
            dropped=self.dropped,
            several=self.several,
            lawless=self.lawless,
            broken_laws=laws.described(self.laws, steps),
        )


def added(documents: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Findings]:
    """What was found by family, added up from what is found in each part of one."""
    total: dict[str, Findings] = {}
    for family, found in documents:
        total.setdefault(family, Findings()).add(Findings.from_json(found))
    return total


def _step_and_path(name: str) -> tuple[int, str]:
    number, _, path = name.partition(" ")
    return int(number), path


def _ordered(groups: Iterable[tuple[str, Group]]) -> list[tuple[str, Group]]:
    return sorted(groups, key=lambda item: (-item[1].values, item[0]))


def _noted(name: str, group: Group) -> str:
    return f"{name}; for example: {group.note}" if group.note else name


def _effect(name: str, group: Group) -> FieldEffect:
    effect, _, path = name.partition(" ")
    return FieldEffect(path, effect, group.values, group.shown())  # type: ignore[arg-type]


# Counting how large values are, at next to no cost a value.


_MANY = 4_096


class Sizes:
    """Sizes in bytes: their sum, and how many there are by the power of two that holds them."""

    def __init__(self) -> None:
        self._total = 0
        self._powers: Counter[int] = Counter()
        self._noted: list[int] = []
        self._note = self._noted.append

    def note(self, size: int) -> None:
        """Count one value of ``size`` bytes."""
        self._note(size)
        # Working each size out by itself costs several times as much as a thousand at once.
        if len(self._noted) == _MANY:
            self._add()

    def counted(self) -> tuple[int, dict[int, int]]:
        """The sum, and the number of values that fit into each power of two of bytes."""
        self._add()
        return self._total, {1 << power: count for power, count in sorted(self._powers.items())}

    def _add(self) -> None:
        self._total += sum(self._noted)
        for size, count in Counter(self._noted).items():
            self._powers[(size - 1).bit_length() if size else 0] += count
        self._noted.clear()


# The steps of a path one by one, with an eye on what each makes of the fields.


@dataclass
class StepValues:
    """What one value has before and after a step."""

    before: list[Observation]
    had: Any
    after: list[Observation] = field(default_factory=list)
    emptied: Sequence[CommonField] = ()


class Stages:
    """Takes values along a path as `MigrationPath.apply` does; notes each field at each step.

    ``old`` is the format of the values at the start; without ``examples`` no value is kept.
    """

    def __init__(self, old: Format, path: MigrationPath, *, examples: bool = True) -> None:
        formats = [old, *(step.format for step in path.steps)]
        self._old = old
        self._examples = examples
        self._stages = [
            _Stage(before, step, partial(self._given, number), examples=examples)
            for number, (before, step) in enumerate(zip(formats, path.steps, strict=False))
        ]
        self._single = self._stages[0] if len(self._stages) == 1 else None
        self._is_watching = True

    def apply(self, value: Value, data: bytes) -> tuple[Value, Any]:
        """Return the value at the path's end, and what to tell `arrived` once it is known to fit.

        ``data`` is the value as its format writes it. Raises TransformError as the path would.
        """
        single = self._single
        if single is not None and not self._is_watching:
            had = single.emptied.before(value)
            return single.step.run(value), had
        noted: list[StepValues] = []
        for stage in self._stages:
            found = StepValues(stage.watch.observe(value, 0), stage.emptied.before(value))
            noted.append(found)
            value = stage.step.run(value)
            if stage is not self._stages[-1]:
                stage.note_after(found, stage.step.conformed(value), data)
        return value, noted

    def arrived(
        self,
        noted: Any,
        migrated: Value,
        data: bytes,
        key: Callable[[], str],
        *,
        is_whole: bool = True,
    ) -> None:
        """Count a value that got through, ``migrated`` as a reader finds it.

        ``noted`` is what `apply` returned; ``key`` shows its key. What is not ``is_whole``, one of
        several things that became of it, lost nothing that the others may have.
        """
        single = self._single
        if single is not None and not self._is_watching:
            found = single.emptied.after(noted, migrated, data)
            if found and is_whole:
                single.count(found, key if self._examples else None)
            return
        for stage, each in zip(self._stages, noted, strict=True):
            if stage is self._stages[-1]:
                stage.note_after(each, migrated, data)
            stage.watch.add(each.before, each.after)
            if is_whole:
                stage.count(each.emptied, key if self._examples else None)
        self._is_watching = any(stage.watch.is_open for stage in self._stages)

    def _given(self, number: int, data: bytes) -> Value:
        """What a step is given of a value, made again."""
        value = self._old.decode(data)
        for stage in self._stages[:number]:
            value = stage.step.conformed(stage.step.run(value))
        return value

    def notable_in(self, columns: Sequence[Any]) -> set[int]:
        """The places of values, as columns at each step, that have to be looked at one by one."""
        # A field that no value had when it was looked at is news too.
        found: set[int] = set()
        for stage, before, after in zip(self._stages, columns, columns[1:], strict=False):
            found.update(stage.watch.news_in(before, after))
            found.update(stage.emptied.suspects_in(before, after).nonzero()[0].tolist())
        return found

    def wants(self, value: Value) -> bool:
        """Whether a value has a field that no other one had when it was looked at."""
        return any(stage.flows.wants(value) for stage in self._stages[:1])

    def look(self, data: bytes) -> None:
        """Try which fields of a value have an effect; of one that got through."""
        if all(stage.flows.is_settled for stage in self._stages):
            return
        for stage in self._stages:
            stage.flows.look(data)
            if stage is self._stages[-1]:
                return
            try:
                data = stage.step.format.encode(stage.step.run(stage.old.decode(data)))
            except (TransformError, ValueMismatchError):
                # It got through a moment ago: a transform that depends on more than its value.
                return

    def outcomes(self) -> Iterator[tuple[int, str, FieldOutcome]]:
        """The number of the step, a field's path, and what became of it."""
        for number, stage in enumerate(self._stages):
            outcomes = dict(stage.watch.outcomes())
            for path, flows, attempts in stage.flows.results():
                outcomes[path].flows, outcomes[path].attempts = flows, attempts
                outcomes[path].emptied = stage.counts[path]
                outcomes[path].keys = stage.keys.get(path, [])
            yield from ((number, path, outcome) for path, outcome in outcomes.items())


class _Stage:
    def __init__(
        self, old: Format, step: Step, given: Callable[[bytes], Value], *, examples: bool
    ) -> None:
        self.old, self.step = old, step
        self.watch = Watch(old, step.format, examples=examples)
        self.flows = Flows(old, step)
        self.emptied = Emptied(old, step, given)
        self.counts: Counter[str] = Counter()
        self.keys: dict[str, list[str]] = {}

    def note_after(self, found: StepValues, value: Value, data: bytes) -> None:
        """Note what a value has after the step, as a reader finds it."""
        found.after = self.watch.observe(value, 1)
        found.emptied = self.emptied.after(found.had, value, data)

    def count(self, emptied: Sequence[CommonField], key: Callable[[], str] | None) -> None:
        """Count a value that has less in these fields than it had."""
        for each in emptied:
            self.counts[each.path] += 1
            if key is not None and self.counts[each.path] <= KEYS:
                self.keys.setdefault(each.path, []).append(key())


WAY_BACK = "the way back fails: "
"""How a difference is named where there is no value to compare."""
_NOTE = 200
_FIRST = 64
"""So many values go one by one before columns of others are compared with them."""
_LOOK_AT = 16
"""Of so many values one has its fields compared, which costs as much as trying it."""


class ValueTrial:
    """Values of one family, each migrated to the target and, where there is a way, back again.

    ``old`` and ``new`` are the formats at the path's ends; ``back`` is None where there is no way
    back, and ``inverses`` are the single steps back whose scripts claim to undo each other.
    ``show`` turns a key as the caller has it into what a user knows. Without ``examples`` no
    key and no value is noted.
    """

    def __init__(
        self,
        old: Format,
        new: Format,
        path: MigrationPath,
        back: MigrationPath | None,
        show: Callable[[Any], Any],
        *,
        inverses: Inverses = (),
        examples: bool = True,
    ) -> None:
        self.findings = Findings()
        self._examples = examples
        self._old, self._new = old, new
        self._back = back
        self._stages = Stages(old, path, examples=examples)
        self._columns = TrialColumns.of(old, path, back, inverses)
        self._laws = Laws(old, path, inverses, examples=examples)
        self._renames = Renames(old.schema, new.schema, examples=examples)
        self._show = show
        self._key: Any = None
        self._is_whole = True
        self._began = time.monotonic()
        self._before, self._after = Sizes(), Sizes()

    def run_block(self, block: Block) -> None:
        """Try the values of a block: by columns those that are like others, else one by one.

        What is found is what `run` finds of each of them.
        """
        found = None if self._columns is None else self._columns.run(block.stored)
        if found is None:
            for key, data, value in block.values(self._old):
                self.run(key, data, value)
            return
        place = 0
        while place < len(block.stored):
            # The first ones show what is usual; after them most are like others.
            is_first = self.findings.tried < _FIRST
            end = min(place + _FIRST, len(block.stored)) if is_first else len(block.stored)
            alone = range(place, end) if is_first else self._unlike(found, place)
            for each in alone:
                self._count(block.stored[place:each], found.written[place:each])
                data = block.stored[each]
                self.run(block.keys[each], data, self._old.decode(data))
                place = each + 1
            self._count(block.stored[place:end], found.written[place:end])
            place = end

    def _unlike(self, found: TriedColumns, start: int) -> list[int]:
        """The places, from ``start``, of values that have to be looked at one by one."""
        columns = [each.slice(start) for each in found.columns]
        notable = (start + each for each in self._stages.notable_in(columns))
        first = -self.findings.tried % _LOOK_AT
        looked_at = range(start + first, len(found.written), _LOOK_AT)
        differing = (each for each in found.differing if each >= start)
        return sorted({*differing, *notable, *looked_at})

    def _count(self, stored: Sequence[bytes], written: Sequence[bytes]) -> None:
        """Count values with which nothing is new."""
        self.findings.tried += len(stored)
        for before, after in zip(stored, written, strict=True):
            self._before.note(len(before))
            self._after.note(len(after))

    def run(self, key: Any, data: bytes, value: Value) -> None:
        """Try one value, given as the bytes that the old format writes and what they say.

        ``value`` may be changed.
        """
        found = self.findings
        found.tried += 1
        self._key = key
        looked_at = found.tried % _LOOK_AT == 1
        wanted = looked_at or self._stages.wants(value)
        try:
            # What the target's family stores is what its format writes; that also validates.
            # What comes back is as the next reader finds it: defaults filled in, numbers converted.
            reached, noted = self._stages.apply(value, data)
            written, migrated = self._new.encode_conformed(reached)
        except (TransformError, ValueMismatchError) as error:
            self._fail(error)
            return
        self._stages.arrived(noted, migrated, data, self._shown_key, is_whole=self._is_whole)
        self._before.note(len(data))
        self._after.note(len(written))
        if looked_at:
            self._look(data, migrated)
        if wanted:
            self._stages.look(data)
        if self._back is not None:
            self._return(self._back, data, migrated)
        if self._laws:
            found.lawless += self._laws.look(data, written, self._shown_key, found.laws)

    def finished(self, stored: int) -> Findings:
        """The findings, of a family that holds ``stored`` values in this partition."""
        found = self.findings
        found.stored = stored
        found.seconds = time.monotonic() - self._began
        found.bytes_before, found.sizes_before = self._before.counted()
        found.bytes_after, found.sizes_after = self._after.counted()
        found.renames, found.parts = self._renames.confirmed(), self._renames.parts()
        found.outcomes = {
            f"{number} {path}": outcome for number, path, outcome in self._stages.outcomes()
        }
        return found

    def _return(self, back: MigrationPath, data: bytes, migrated: Value) -> None:
        try:
            again = self._old.encode(back.apply(migrated))
        except (TransformError, ValueMismatchError) as error:
            self.findings.differing += 1
            self._note(self.findings.differences, f"{WAY_BACK}{cause_of(error)}")
            return
        # The entries of a map may be written in another order.
        if again != data and (found := self._old.decode(again)) != self._old.decode(data):
            self._differ(data, found)

    def _differ(self, data: bytes, again: Value) -> None:
        self.findings.differing += 1
        before, schema = self._old.decode(data), self._old.schema
        for effect, path, old, new in changes(before, again, schema, schema):
            if effect != "kept":
                self._note(self.findings.differences, path, old, new)

    def _look(self, data: bytes, migrated: Value) -> None:
        self.findings.looked_at += 1
        before = self._old.decode(data)
        for effect, path, old, new in changes(before, migrated, self._old.schema, self._new.schema):
            group = self.findings.group(self.findings.fields, f"{effect} {path}")
            group.values += 1
            if effect != "kept" and self._wants_example(group):
                group.examples.append(self._example(effect, old, new))
        key = shown_key(self._show(self._key)) if self._examples else ""
        self._renames.look(key, before, migrated)
        if self._examples and self.findings.wants_values:
            self.findings.values.append((key, shown_whole(before), shown_whole(migrated)))

    def _shown_key(self) -> str:
        return shown_key(self._show(self._key))

    def _example(self, effect: str, old: Any, new: Any) -> tuple[str, str | None, str | None]:
        before = None if effect == "added" else shown(old)
        after = None if effect == "removed" else shown(new)
        return shown_key(self._show(self._key)), before, after

    def _fail(self, error: TransformError | ValueMismatchError) -> None:
        self.findings.failed += 1
        group = self._note(self.findings.failures, cause_of(error))
        if not self._examples:
            return
        if group.wants_key:
            group.keys.append(shown_key(self._show(self._key)))
        group.note = group.note or f"{error.found}"[:_NOTE]

    def _wants_example(self, group: Group) -> bool:
        return self._examples and group.wants_example

    def _note(self, groups: dict[str, Group], name: str, *sides: Any) -> Group:
        group = self.findings.group(groups, name)
        group.values += 1
        if sides and self._wants_example(group):
            group.examples.append(self._example("changed", *sides))
        return group
