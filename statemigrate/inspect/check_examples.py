"""`check` of a script's functions on its own examples and on generated ones.

Whether the functions that only a rewrite runs take a script's examples, and made-up entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from itertools import chain, cycle, islice, pairwise
from typing import Any

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import MOST, Format, Value, made_up_values
from statemigrate.inspect.causes import cause_of
from statemigrate.inspect.check_code import EntryFunctions, Outcomes, culprit, entry_functions
from statemigrate.inspect.check_report import Finding
from statemigrate.inspect.dry_run_report import BrokenLaw, Loss
from statemigrate.inspect.field_effects import Group, changes, losses, shown
from statemigrate.inspect.laws import described
from statemigrate.inspect.report_text import correct
from statemigrate.inspect.trial import WAY_BACK, Findings, ValueTrial
from statemigrate.migration import (
    BASE,
    Direction,
    ExampleValue,
    Migration,
    MigrationPath,
    Step,
    Transform,
    takes_key,
)

_PAIRS = 50
"""So many pairs of values are merged."""


def entry_findings(migration: Migration, key: Format | None, *, made_up: bool) -> Iterator[Finding]:
    """What is found by running ``rekey``, ``merge`` and ``upgrade_table`` on entries.

    ``key`` is the format of the keys before the script, None where no script says it. Each example
    with a key must be taken; with ``made_up``, what fails on every made-up entry is wrong, and what
    fails on some is a note where there are no examples.
    """
    if migration.old is None or not (entry_functions(migration) or migration.merge):
        return
    tried = _Tried(migration, migration.old, key)
    yield from tried.examples()
    if made_up:
        found = tried.made_up()
        # A question that is open may be about the very thing.
        yield from (each for each in found if each.severity == "error" or not migration.questions)


class _Tried:
    def __init__(self, migration: Migration, old: Format, key: Format | None) -> None:
        self._migration, self._old, self._key = migration, old, key
        self._functions = EntryFunctions(migration, old, key)
        self._names = entry_functions(migration)

    def examples(self) -> Iterator[Finding]:
        """What fails on them, and on what they become."""
        values: list[Value] = []
        for number, example in enumerate(self._migration.examples, 1):
            name = f"example {number}"
            if self._names and (example.key is None or self._key is None):
                yield from self._keyless(name)
                continue
            try:
                key = {} if self._key is None else self._key.conform(example.key or {})
                values += [value for _, value in self._functions.run(key, example.value)]
                differ = self._functions.forms_differ(key, example.value)
            except (TransformError, ValueMismatchError) as error:
                yield from self._failed(name, error)
                continue
            if differ:
                yield self._disagreeing(name)
        if self._migration.merge is not None and values:
            yield from self._merging(values, "what examples become", is_made_up=False)

    def made_up(self) -> Iterator[Finding]:
        """What fails on entries made up from the formats."""
        if self._names and self._key is None:
            yield self._unknown_keys()
        elif self._names and self._key is not None:
            yield from self._on_entries(self._key)
        if self._migration.merge is not None and not self._migration.examples:
            values = made_up_values(self._migration.new)
            yield from self._merging(values, "pairs of values made up from `new`", is_made_up=True)

    def _on_entries(self, key: Format) -> Iterator[Finding]:
        outcomes = Outcomes()
        for each, value in _entries(key, self._old):
            outcomes.add(partial(self._runs, each, value), {"key": each, "value": value})
        what = f"made-up entries, such as {outcomes.example}"
        yield from self._failures(outcomes, what, is_made_up=True)
        if outcomes.yes:
            yield self._disagreeing(f"{outcomes.yes:,} of {outcomes.tried:,} made-up entries")

    def _runs(self, key: Value, value: Value) -> bool:
        self._functions.run(key, value)
        return self._functions.forms_differ(key, value)

    def _merging(self, values: list[Value], of: str, *, is_made_up: bool) -> Iterator[Finding]:
        outcomes = Outcomes()
        same = ((each, each) for each in values[:1])
        for first, second in islice(chain(same, pairwise(values)), _PAIRS):
            question = partial(self._functions.order_matters, first, second)
            outcomes.add(question, [first, second])
        what = f"{of}, such as {outcomes.example}"
        yield from self._failures(outcomes, what, is_made_up=is_made_up)
        if outcomes.yes:
            yield self._finding(
                f"`merge` makes something else with its arguments changed about, for "
                f"{outcomes.yes:,} of {outcomes.tried:,} {of}",
                "let it make the same either way, as rows are read in any order; or leave it if "
                "such values do not meet",
                is_note=True,
            )

    def _failures(self, outcomes: Outcomes, of: str, *, is_made_up: bool) -> Iterator[Finding]:
        every = outcomes.failed == outcomes.tried
        is_note = is_made_up and (not every or bool(self._migration.examples))
        if not outcomes.failed or (is_made_up and self._migration.examples and not every):
            return
        (name, cause), count = outcomes.failures.most_common(1)[0]
        if name not in (*self._names, "merge"):
            return  # `upgrade` alone is tried elsewhere
        yield self._finding(
            f"`{name}` fails on {count:,} of {outcomes.tried:,} {of}",
            f"correct `{name}`, or give `examples` of entries that it takes",
            found=f"{cause}; {outcomes.note}",
            is_note=is_note,
            kind="made-up" if is_made_up else "example",
        )

    def _failed(self, name: str, error: TransformError | ValueMismatchError) -> Iterator[Finding]:
        if isinstance(error, ValueMismatchError):
            problem = f"the key of {name} is no key: {error.summary}"
            yield self._finding(problem, "correct the example", f"{error.found}", kind="example")
        elif culprit(error) in self._names and culprit(error) != "upgrade":
            yield self._finding(
                f"`{culprit(error)}` fails on {name}",
                f"correct `{culprit(error)}`, or the example",
                found=f"{cause_of(error)}; {error.found}",
                kind="example",
            )

    def _disagreeing(self, where: str) -> Finding:
        return self._finding(
            f"`upgrade_table` makes something else than the functions for plain values of {where}",
            "let both do the same: a rewrite runs `upgrade_table`, others run `upgrade`",
        )

    def _keyless(self, name: str) -> Iterator[Finding]:
        if self._names != ["upgrade"] and self._key is not None:
            yield self._finding(
                f"{name} has no key, so `{self._names[0]}` was not tried on it",
                "give the example as (old value, expected new value or None, key)",
                is_note=True,
            )

    def _unknown_keys(self) -> Finding:
        return self._finding(
            f"`{self._names[0]}` was not tried, as no script says what the keys are before it",
            "write a baseline with `new_key` first, as `statemigrate new STORE --from-checkpoint "
            "PATH` does; or try it on state with `statemigrate dry-run`",
            is_note=True,
        )

    def _finding(
        self,
        problem: str,
        next_action: str,
        found: str | None = None,
        *,
        is_note: bool = False,
        kind: Any = "made-up",
    ) -> Finding:
        migration = self._migration
        return Finding(
            kind,
            problem,
            next_action,
            found=found,
            store=migration.store,
            revision=migration.revision,
            path=migration.path,
            severity="note" if is_note else "error",
        )


def _entries(key: Format, old: Format) -> Iterator[tuple[Value, Value]]:
    keys, values = made_up_values(key), made_up_values(old)
    count = min(max(len(keys), len(values)), MOST)
    yield from islice(zip(cycle(keys), cycle(values), strict=False), count)


# Whether a script's own examples migrate.


def example_findings(migration: Migration) -> Iterator[Finding]:
    """A finding for each example that its format cannot hold, or that does not migrate.

    Where there is a way back, it must lead to the example again.
    """
    for number, example in enumerate(migration.examples, 1):
        yield from _Attempt(migration, f"example {number}").findings(example)


class _Attempt:
    def __init__(self, migration: Migration, name: str) -> None:
        self._migration = migration
        self._name = name
        self._key: Value | None = None

    def findings(self, example: ExampleValue) -> Iterator[Finding]:
        migration = self._migration
        old = migration.old or migration.new
        try:
            data = old.encode(example.value)
        except ValueMismatchError as error:
            yield self._misfit(error, self._name, "new" if migration.is_baseline else "old")
            return
        if migration.upgrade is None:
            return
        self._key = example.key
        if example.key is None and takes_key(migration.upgrade):
            yield self._keyless()
            return
        try:
            upgraded = self._through("upgrade", migration.upgrade, old, data, migration.new)
        except (TransformError, ValueMismatchError) as error:
            yield self._failed("upgrade", "new", error)
            return
        if example.expected is not None:
            yield from self._compared(example.expected, upgraded)
        if migration.downgrade is not None:
            yield from self._returned(migration.downgrade, old, data, upgraded)

    def _compared(self, expected: Value, upgraded: bytes) -> Iterator[Finding]:
        new = self._migration.new
        try:
            wanted = new.encode(expected)
        except ValueMismatchError as error:
            yield self._misfit(error, f"the expected value of {self._name}", "new")
            return
        problem = f"`upgrade` does not turn {self._name} into what is expected of it"
        yield from self._differing(new, wanted, upgraded, problem, "upgrade")

    def _returned(
        self, downgrade: Transform, old: Format, data: bytes, upgraded: bytes
    ) -> Iterator[Finding]:
        try:
            again = self._through("downgrade", downgrade, self._migration.new, upgraded, old)
        except (TransformError, ValueMismatchError) as error:
            yield self._failed("downgrade", "old", error)
            return
        problem = f"`downgrade` does not take {self._name} back to what it was"
        yield from self._differing(old, data, again, problem, "downgrade")

    def _through(
        self, name: str, transform: Transform, source: Format, data: bytes, target: Format
    ) -> bytes:
        # Decoded again, as from a store, so that a transform may change what it is given.
        migration = self._migration
        ends = (migration.down_revision or BASE, migration.revision)
        start, end = ends if name == "upgrade" else reversed(ends)
        step = Step(migration.store, start, end, transform, target, migration.path)
        return target.encode(step.run(source.decode(data), deepcopy(self._key)))

    def _differing(
        self, format: Format, wanted: bytes, found: bytes, problem: str, name: str
    ) -> Iterator[Finding]:
        # The entries of a map may be written in another order, and a NaN does not equal itself.
        if wanted == found:
            return
        schema = format.schema
        sides = changes(format.decode(wanted), format.decode(found), schema, schema)
        differing = [(path, one, other) for kind, path, one, other in sides if kind != "kept"]
        if differing:
            yield self._finding(
                problem,
                f"correct `{name}`, or the example",
                ", ".join(f"{path} = {shown(one)}" for path, one, _ in differing),
                ", ".join(f"{path} = {shown(other)}" for path, _, other in differing),
            )

    def _failed(self, name: str, side: str, error: TransformError | ValueMismatchError) -> Finding:
        value = self._name if name == "upgrade" else f"{self._name} upgraded"
        problem = f"`{name}` fails on {value}"
        if isinstance(error, ValueMismatchError):
            problem = f"`{name}` makes of {value} what `{side}` cannot hold: {_summary_text(error)}"
        next_action = f"correct `{name}`, or the example"
        return self._finding(problem, next_action, error.expected, error.found)

    def _keyless(self) -> Finding:
        return self._finding(
            f"{self._name} has no key, and `upgrade` takes one",
            "give the example as (old value, expected new value or None, key)",
            "a triple",
            "a value",
        )

    def _misfit(self, error: ValueMismatchError, what: str, side: str) -> Finding:
        problem = f"{what} is no value of `{side}`: {_summary_text(error)}"
        return self._finding(problem, "correct the example", error.expected, error.found)

    def _finding(self, problem: str, next_action: str, expected: Any, found: Any) -> Finding:
        migration = self._migration
        return Finding(
            "example",
            problem,
            next_action,
            None if expected is None else str(expected),
            None if found is None else str(found),
            migration.store,
            migration.revision,
            migration.path,
        )


def _summary_text(error: ValueMismatchError) -> str:
    return error.summary[0].lower() + error.summary[1:].removesuffix(".")


# Whether a script takes values that were made up from its own formats.


_CAUSES = 3


def made_up_findings(migration: Migration) -> Iterator[Finding]:
    """What is found by taking values made up from `old` through ``upgrade``, and back.

    A function that fails on every one of them is wrong, unless the script's ``examples`` show
    values that it takes. One that fails on some is worth a note where there are no examples: made
    up values need not be ones that the state can have. So is a field that the script loses and does
    not name in ``drops``.
    """
    found = _found(migration)
    # A question that is open may be about the very thing.
    yield from (each for each in found if each.severity == "error" or not migration.questions)


def _found(migration: Migration) -> Iterator[Finding]:
    if migration.old is None or migration.upgrade is None or takes_key(migration.upgrade):
        # No key can be made up: nothing describes its columns.
        return
    there = _step(migration, "upgrade", migration.upgrade, migration.new)
    back = migration.downgrade and _step(migration, "downgrade", migration.downgrade, migration.old)
    found = _tried(migration.old, there, back)
    yield from _failing(migration, "upgrade", found.failures, found.failed, found.tried)
    ways_back = {
        name.removeprefix(WAY_BACK): group
        for name, group in found.differences.items()
        if name.startswith(WAY_BACK)
    }
    failed = sum(group.values for group in ways_back.values())
    yield from _failing(migration, "downgrade", ways_back, failed, found.tried - found.failed)
    yield from (_breaking(migration, law) for law in described(found.laws, [there]))
    yield from (_losing(migration, loss) for loss in _lost(there, found))
    if back is not None:
        yield from (_losing(migration, loss) for loss in _lost(back, _tried(migration.new, back)))


def _step(migration: Migration, direction: Direction, transform: Transform, to: Format) -> Step:
    ends = (migration.down_revision or BASE, migration.revision)
    start, end = ends if direction == "upgrade" else reversed(ends)
    return Step(
        migration.store,
        start,
        end,
        transform,
        to,
        migration.path,
        direction=direction,
        drops=migration.drops,
        comes_back=migration.comes_back(direction),
    )


def _tried(old: Format, there: Step, back: Step | None = None) -> Findings:
    way_back = None if back is None else MigrationPath(back.source, back.target, (back,))
    path = MigrationPath(there.source, there.target, (there,))
    inverses = (back if there.comes_back else None,)
    trial = ValueTrial(old, there.format, path, way_back, lambda value: value, inverses=inverses)
    written = [old.encode(value) for value in made_up_values(old)]
    for data in written:
        # The value is its own key, to be shown; a transform may change what it is given.
        trial.run(old.decode(data), data, old.decode(data))
    return trial.finished(len(written))


def _lost(step: Step, found: Findings) -> tuple[Loss, ...]:
    outcomes = {(0, name.partition(" ")[2]): outcome for name, outcome in found.outcomes.items()}
    # Made up values are beyond what a state has: that some of them lose a field says little.
    lost = losses([step], outcomes)
    return tuple(loss for loss in lost if not loss.meant and loss.values is None)


def _failing(
    migration: Migration, name: str, groups: dict[str, Group], failed: int, tried: int
) -> Iterator[Finding]:
    every = failed == tried
    if not failed or (migration.examples and not every):
        return
    ordered = sorted(groups.items(), key=lambda item: -item[1].values)
    written = name if migration.change is None else "change"
    for cause, group in ordered[: 1 if every else _CAUSES]:
        values = f"every one of {tried:,}" if every else f"{group.values:,} of {tried:,}"
        such = f", such as {min(group.keys, key=len)}" if group.keys else ""
        yield Finding(
            "made-up",
            f"`{name}` fails on {values} values made up from `old`{such}",
            f"correct `{written}`, or give `examples` of values that it takes",
            found=f"{cause}; {group.note}" if group.note else cause,
            store=migration.store,
            revision=migration.revision,
            path=migration.path,
            severity="error" if every and not migration.examples else "note",
        )


def _breaking(migration: Migration, law: BrokenLaw) -> Finding:
    smallest = law.smallest
    return Finding(
        "made-up",
        f"{law.law} does not hold for {law.field or 'some values'}, as the script claims",
        f"{correct(law).removesuffix('.')}",
        found=None if smallest is None else f"{smallest.before} came back as {smallest.after}",
        store=migration.store,
        revision=migration.revision,
        path=migration.path,
        severity="note",
    )


def _losing(migration: Migration, loss: Loss) -> Finding:
    return Finding(
        "made-up",
        f"`{loss.direction}` keeps nothing of {loss.field}",
        f"correct `{loss.direction}`, or, if that is meant, add {loss.field!r} to `drops`",
        store=migration.store,
        revision=migration.revision,
        path=migration.path,
        severity="note",
    )
