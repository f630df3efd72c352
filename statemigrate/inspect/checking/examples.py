"""Whether a script's own examples migrate."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, Value
from statemigrate.inspect.checking.report import Finding
from statemigrate.inspect.trial.fields.effects import changes, shown
from statemigrate.migration import BASE, ExampleValue, Migration, Step, Transform
from statemigrate.migration.signatures import takes_key


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
        # Decoded anew, as from a store, so that a transform may change what it is given.
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
            problem = f"`{name}` makes of {value} what `{side}` cannot hold: {_said(error)}"
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
        problem = f"{what} is no value of `{side}`: {_said(error)}"
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


def _said(error: ValueMismatchError) -> str:
    return error.summary[0].lower() + error.summary[1:].removesuffix(".")
