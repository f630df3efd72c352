"""One script on the way from one revision to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from statemigrate.errors import TransformError, ValueMismatchError, values_hidden
from statemigrate.formats import Format, Value
from statemigrate.migration.migration import (
    BASE,
    Direction,
    Merge,
    Migration,
    Rekey,
    TableTransform,
    TimeToLive,
    Transform,
)
from statemigrate.migration.signatures import takes_key


@dataclass(frozen=True)
class Step:
    """One transform: from ``source`` to ``target``, whose values have ``format``.

    ``direction`` names the function in ``script``, ``drops`` what it loses on purpose.
    ``transform`` is None where the script has only its form for tables. ``key`` is the format of
    keys after it, None where they stay as they are; ``rekey``, ``merge`` and ``table`` are for a
    rewrite.
    """

    store: str
    source: str
    target: str
    transform: Transform | None
    format: Format
    script: str = ""
    time_to_live: TimeToLive = "keep"
    direction: Direction = "upgrade"
    drops: tuple[str, ...] = ()
    key: Format | None = None
    rekey: Rekey | None = None
    merge: Merge | None = None
    table: TableTransform | None = None

    @property
    def revision(self) -> str:
        """The revision of the script that the transform is of."""
        return self.target if self.direction == "upgrade" else self.source

    @cached_property
    def takes_key(self) -> bool:
        """Whether the transform is given the key too."""
        return self.transform is not None and takes_key(self.transform)

    @cached_property
    def only_by_rewriting(self) -> tuple[str, ...]:
        """What of the script a running query cannot do, by the names it has in the script."""
        found = {
            "new_key": self.key is not None,
            "rekey": self.rekey is not None,
            "merge": self.merge is not None,
            f"{self.direction}(value, key)": self.takes_key,
            "upgrade_table": self.transform is None,
        }
        return tuple(name for name, has in found.items() if has)

    def run(self, value: Value, key: Value | None = None) -> Value:
        """Transform ``value``, which has a ``key`` where the transform asks for it.

        Raises TransformError if the transform raises or returns no dict.
        """
        assert self.transform is not None, "whoever has no tables refuses the step"  # noqa: S101
        try:
            result = self.transform(value, key) if self.takes_key else self.transform(value)
        except Exception as cause:
            raise self.failure("SM-TRANSFORM-007", "raised", cause) from cause
        if not isinstance(result, dict):
            raise self.no_dict(result)
        return result

    def run_many(self, values: Sequence[Value]) -> list[Value]:
        """Transform values one after the other.

        Raises TransformError as soon as one of them does not go as usual; `run` says which and why.
        """
        transform = self.transform
        assert transform is not None, "whoever has no tables refuses the step"  # noqa: S101
        if self.takes_key:
            return [self.run(value) for value in values]
        try:
            return [transform(value) for value in values]
        except Exception as cause:
            raise self.failure("SM-TRANSFORM-007", "raised", cause) from cause

    def check(self, value: Value) -> None:
        """Raise TransformError if this step's format cannot hold ``value``."""
        self.conformed(value)

    def conformed(self, value: Value) -> Value:
        """``value`` as this step's format holds it. Raises TransformError if it cannot."""
        try:
            return self.format.conform(value)
        except ValueMismatchError as cause:
            problem = "returned a value its new format cannot hold"
            raise self.failure("SM-TRANSFORM-008", problem, cause) from cause

    def failure(
        self, code: str, problem: str, cause: Exception, what: str = "transform"
    ) -> TransformError:
        """The error for what a function of the script raised, or for what its result raises."""
        # The format's own errors know what they may show; anyone else's may show the value.
        said = isinstance(cause, ValueMismatchError) or not values_hidden()
        text = f"{type(cause).__name__}: {cause}" if said else type(cause).__name__
        return self.error(code, problem, None, text, what)

    def no_dict(self, result: object, what: str = "transform") -> TransformError:
        """The error for a result that is no value at all."""
        hint = "None; is a `return` missing?" if result is None else type(result).__name__
        return self.error(
            "SM-TRANSFORM-009", "returned no dict", "a dict of the fields by name", hint, what
        )

    def error(
        self, code: str, problem: str, expected: str | None, found: str, what: str = "transform"
    ) -> TransformError:
        """The error for what is wrong with ``what`` of the script's functions."""
        script = self.script or "the script"
        return TransformError(
            code,
            f"Store '{self.store}': the {what} from revision {self.source} "
            f"to {self.target} {problem}.",
            expected=expected,
            found=found,
            next_action=f"correct the {what} in {script}, try it with "
            "`statemigrate dry-run`, and restart the query; the value was not changed",
            store=self.store,
            source=self.source,
            target=self.target,
        )


def step_of(migration: Migration, direction: Direction, source: str, format: Format) -> Step:
    """The step from ``source`` that a script takes, up to its revision or down from it.

    ``format`` is that of the values it arrives at. A script is only gone down if it has a
    ``downgrade``.
    """
    is_up = direction == "upgrade"
    target = migration.revision if is_up else (migration.down_revision or BASE)
    return Step(
        migration.store,
        source,
        target,
        _upward(migration) if is_up else migration.downgrade,
        format,
        migration.path,
        migration.time_to_live,
        direction,
        migration.drops,
        migration.new_key if is_up else None,
        migration.rekey if is_up else None,
        migration.merge if is_up else None,
        migration.upgrade_table if is_up else None,
    )


def _upward(migration: Migration) -> Transform | None:
    return migration.upgrade or (None if migration.upgrade_table else _unchanged)


def _unchanged(value: Value) -> Value:
    return value
