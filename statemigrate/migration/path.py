"""The composed transforms from one revision to another.

`ColumnWay` takes many stored values along it by columns, without a plain value for any of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemigrate.errors import TransformError, ValueMismatchError, shown, values_hidden
from statemigrate.formats import Format, Value, first_escaped, visible
from statemigrate.formats.schema import field_paths
from statemigrate.migration.migration import (
    BASE,
    Direction,
    Merge,
    Migration,
    Rekey,
    TableTransform,
    TimeToLive,
    Transform,
    takes_key,
)

if TYPE_CHECKING:
    from statemigrate.lenses import Change, Complement

FEW = 192
"""Values that are not worth their columns, whose fixed cost is that of so many by themselves."""
LOADING = 8_192
"""Values that are not worth loading Arrow, which takes as long as so many by themselves."""


@dataclass
class ArrowThreshold:
    """Says whether values are worth their columns, and a small state worth loading Arrow.

    ``passed`` is how many went one by one for want of Arrow, which is loaded once there are many.
    """

    passed: int = 0

    def is_reached(self, number: int) -> bool:
        """Whether so many values together go by columns."""
        if number < FEW:
            return False
        if is_arrow_loaded() or self.passed >= LOADING:
            return True
        self.passed += number
        return False


@dataclass
class ColumnWay:
    """Takes bytes of the format ``before`` to bytes of the format ``after``, through lenses.

    ``between`` are the formats that a value has from one of the ``functions`` to the next.
    """

    before: Format
    after: Format
    functions: tuple[Callable[[Any], Any], ...]
    between: tuple[Format, ...] = ()
    threshold: ArrowThreshold = field(default_factory=ArrowThreshold)

    def leads(self, before: Format, after: Format) -> bool:
        """Whether these are its formats."""
        found = (before.fingerprint, after.fingerprint)
        return found == (self.before.fingerprint, self.after.fingerprint)

    def bytes_of(self, stored: Sequence[bytes]) -> list[bytes] | None:
        """What each becomes, in the bytes that it has value by value.

        None where there are few of them, or where something about one is not as usual: it has to go
        by itself, which says what is wrong.
        """
        if not self.threshold.is_reached(len(stored)):
            return None
        array = self.before.decode_columns(stored)
        if array is None:
            return None
        try:
            for function, fmt in zip(self.functions, (*self.between, None), strict=True):
                array = through(function, array)
                # A way back may make None of what its format has in every value.
                if fmt is not None and not fmt.takes_nulls_of(array):
                    return None
        except Exception:
            # A lens does not take one of the values, and names it when they go one by one.
            return None
        return self.after.encode_columns(array)


def is_arrow_loaded() -> bool:
    """Whether Arrow's functions are loaded, which takes long for little state."""
    return "pyarrow.compute" in sys.modules


def through(function: Callable[[Any], Any], array: Any) -> Any:
    """What a function of Arrow tables makes of values, which are its column ``value``."""
    import pyarrow as pa

    made = function(pa.table({"value": array})).column("value")
    return made.chunk(0) if made.num_chunks == 1 else made.combine_chunks()


# Lenses are loaded where they are used: what only looks at state is to begin at once.

# One script on the way from one revision to another.


@dataclass(frozen=True)
class Step:
    """One transform: from ``source`` to ``target``, whose values have ``format``.

    ``direction`` names the function in ``script``, ``drops`` what it loses on purpose.
    ``transform`` is None where the script has only its form for tables. ``key`` is the format of
    keys after it, None where they stay as they are; ``rekey``, ``merge`` and ``table`` are for a
    rewrite. ``change`` are the lenses that the transform is derived from, if it is. ``comes_back``
    is whether the script claims that its other function gives each value back as it was. ``back``
    is that function, which makes values in the format ``before``.
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
    change: Change | None = None
    comes_back: bool = False
    back: Transform | None = None
    before: Format | None = None

    @property
    def revision(self) -> str:
        """The revision of the script that the transform is of."""
        return self.target if self.direction == "upgrade" else self.source

    @property
    def left_out(self) -> tuple[str, ...]:
        """The fields of values before that it loses on purpose."""
        known = () if self.before is None else field_paths(self.before.schema)
        return tuple(name for name in self.drops if name in known)

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
        assert self.transform is not None, "a caller without tables refuses the step"  # noqa: S101
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
        assert transform is not None, "a caller without tables refuses the step"  # noqa: S101
        if self.takes_key:
            return [self.run(value) for value in values]
        try:
            return [transform(value) for value in values]
        except Exception as cause:
            raise self.failure("SM-TRANSFORM-007", "raised", cause) from cause

    def carry(self, value: Any, complement: Complement) -> tuple[Any, Complement]:
        """Transform a value, or the list of them that list state has, and what it left behind.

        Raises TransformError as `run` does, and for a result that the format cannot hold.
        """
        if self.back is None or self.before is None:
            return self._there(value), complement
        left = complement.remainder(self.revision, self.direction, self._formats)
        if left is None and self._leaves_nothing:
            return self._there(value), complement
        from statemigrate.lenses import ScriptRemainder, carry

        made, found = carry(value, self._there, self._back, left, exact=self._leaves_nothing)
        entry = None if found is None else ScriptRemainder(self.direction, self._formats, found)
        return made, complement.having(self.revision, entry)

    @cached_property
    def _formats(self) -> str:
        """What tells of the formats before and after the script, the same on both ways."""
        formats = (self.format if self.before is None else self.before, self.format)
        return " ".join(sorted(each.fingerprint[:8] for each in formats))

    @cached_property
    def _leaves_nothing(self) -> bool:
        is_up = self.direction == "upgrade"
        return is_up and self.change is not None and self.change.leaves_nothing

    @cached_property
    def by_columns(self) -> TableTransform | None:
        """The transform of Arrow tables that lenses give, all of them in columns; else None."""
        if self.change is None:
            return None
        return self.change.in_columns(self.direction)

    @cached_property
    def result_fits(self) -> bool:
        """Whether lenses make it certain that the transform needs neither a copy nor a check."""
        return self.change is not None and self.change.fits(self.direction)

    @cached_property
    def _back_fits(self) -> bool:
        other: Direction = "downgrade" if self.direction == "upgrade" else "upgrade"
        return self.change is not None and self.change.fits(other)

    def _there(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._there(each) for each in value]
        if self.result_fits:
            return self.run(value)
        from statemigrate.lenses import copied

        return self.conformed(self.run(copied(value)))

    def _back(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._back(each) for each in value]
        assert self.back is not None and self.before is not None, "asked before"  # noqa: S101, PT018
        if self._back_fits:
            return self.back(value)
        from statemigrate.lenses import copied

        return self.before.conform(self.back(copied(value)))

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
        is_shown = isinstance(cause, ValueMismatchError) or not values_hidden()
        text = f"{type(cause).__name__}: {cause}" if is_shown else type(cause).__name__
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


def step_of(
    migration: Migration,
    direction: Direction,
    source: str,
    format: Format,
    before: Format | None = None,
) -> Step:
    """The step from ``source`` that a script takes, up to its revision or down from it.

    ``format`` is that of the values it arrives at, ``before`` that of those it takes. A script is
    only gone down if it has a ``downgrade``.
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
        migration.upgrade_table if is_up else _table_back(migration),
        migration.change,
        migration.comes_back(direction),
        migration.downgrade if is_up else migration.upgrade,
        before,
    )


def _upward(migration: Migration) -> Transform | None:
    return migration.upgrade or (None if migration.upgrade_table else _unchanged)


def _table_back(migration: Migration) -> TableTransform | None:
    return None if migration.change is None else migration.change.downgrade_table


def _unchanged(value: Value) -> Value:
    return value


@dataclass(frozen=True)
class MigrationPath:
    """Takes a value of revision ``source`` to revision ``target``; with no steps, the identity.

    The last result is not validated here: the writer validates it against the target's
    format anyway, and doing it twice would double that cost. What only passes on its way to the
    next step is validated, so that no step sees a value its own format could not have held.

    A path holds everything it needs; pickled with cloudpickle it runs where the scripts are not.
    """

    source: str
    target: str
    steps: tuple[Step, ...] = ()

    @property
    def restarts_time(self) -> bool:
        """Whether every script on the way lets a value's time to live start again."""
        return all(step.time_to_live == "restart" for step in self.steps)

    @property
    def only_by_rewriting(self) -> Step | None:
        """The first script that a running query cannot do; see `Step.only_by_rewriting`."""
        return next((step for step in self.steps if step.only_by_rewriting), None)

    def apply(self, value: Value) -> Value:
        """Return ``value`` as the target revision has it.

        A transform may change the value in place, so hand over one that nobody else holds.
        Raises TransformError with the failing step's revisions, its cause chained; who knows the
        key raises it `at` that key.
        """
        if len(self.steps) == 1:
            return self.steps[0].run(value)
        if self._composed is not None:
            try:
                return self._composed(value)
            except Exception:  # noqa: S110  # step by step the one that fails is named
                pass
        for step in self.steps[:-1]:
            value = step.run(value)
            step.check(value)
        return self.steps[-1].run(value) if self.steps else value

    def carry(self, value: Any, complement: Complement) -> tuple[Any, Complement]:
        """`apply` for a value, or the list of them that list state has, with its complement.

        Raises CheckpointError for a complement that is not of the scripts on the way.
        """
        for step in self.steps:
            value, complement = step.carry(value, complement)
        return value, complement

    @cached_property
    def _composed(self) -> Transform | None:
        """One function for all steps, where all are lenses and that is the same; else None."""
        if not self._ways:
            return None
        from statemigrate.lenses import composed

        return composed(self._ways)

    @property
    def _composed_table(self) -> TableTransform | None:
        """The same of tables."""
        if not self._ways:
            return None
        from statemigrate.lenses import composed_table

        return composed_table(self._ways)

    @property
    def _ways(self) -> list[tuple[Change, Direction]]:
        """The lenses of several steps, where all have some."""
        ways = [(each.change, each.direction) for each in self.steps if each.change is not None]
        return ways if 1 < len(ways) == len(self.steps) else []

    @cached_property
    def columns(self) -> ColumnWay | None:
        """The way of stored values by columns; None where a script has none.

        Each has to be made of lenses without a function of the script. What one makes for the next
        has to fit the format between them, which is not looked at.
        """
        functions = []
        for step in self.steps:
            function = None if step.only_by_rewriting else step.by_columns
            if function is None or not (step is self.steps[-1] or step.result_fits):
                return None
            functions.append(function)
        before = self.steps[0].before if self.steps else None
        if before is None or not (before.has_columns and self.steps[-1].format.has_columns):
            return None
        *between, after = (step.format for step in self.steps)
        one = self._composed_table
        if one is not None:
            return ColumnWay(before, after, (one,))
        return ColumnWay(before, after, tuple(functions), tuple(between))

    def apply_many(self, values: Sequence[Value]) -> Sequence[Value]:
        """`apply` for many values; where it raises, `apply` says for which of them.

        What is no dict may be among what is returned: the target's format refuses it.
        """
        if len(self.steps) == 1:
            return self.steps[0].run_many(values)
        return [self.apply(value) for value in values]


# What a script's functions can be given: a str of Python's is UTF-8, text of Spark's any bytes.


def check_readable(step: Step, key: Value, given: Mapping[str, Any]) -> None:
    """Raise TransformError if text that a function would be ``given`` is not UTF-8.

    ``given`` are its arguments by their names, with every text as `escaped_text` has it.
    """
    found = first_escaped(dict(given))
    if found is None:
        return
    path, text = found
    error: TransformError = step.error(
        "SM-TRANSFORM-001",
        f"would be given text that is not UTF-8, in {path}",
        "UTF-8, which is what a str of Python's can be",
        shown(visible(text)),
    )
    raise error.but(
        next_action=f"write `upgrade_table` in {step.script or 'the script'}, whose columns carry "
        "any bytes, and rewrite again; no checkpoint was written",
        path=path,
    ).at(visible(key))
