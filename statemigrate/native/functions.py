"""A function of ``applyInPandasWithState`` whose state has migrations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import update_wrapper
from typing import Any

from pyspark.sql.streaming.state import GroupState

from statemigrate.access import DualAccess
from statemigrate.deployment import Settings, StorePlan, dual_access, no_way
from statemigrate.errors import StartupError, TransformError, shown
from statemigrate.formats import Value
from statemigrate.native.control_rows import MARKER, Arrived
from statemigrate.native.deployed import Undeployable
from statemigrate.native.deployment_check import ObservedCheckpoint
from statemigrate.native.envelope import Envelope, EnvelopeFamily
from statemigrate.processor.intake import python_value
from statemigrate.processor.rows import RowCodec
from statemigrate.processor.variables import put_row
from statemigrate.quoting import argument

# PySpark's ``GroupState`` over dual access, for a function of ``applyInPandasWithState``.


class MigratedGroupState(GroupState):
    """See ``pyspark.sql.streaming.state.GroupState``: values are in the target's format.

    Timeouts and times are ``group``'s own, the state that Spark handed over for ``key``.
    """

    def __init__(
        self, group: Any, key: Any, access: DualAccess[Value], rows: RowCodec, envelope: Envelope
    ) -> None:
        self._group = group
        self._key = key
        self._access = access
        self._rows = rows
        self._envelope = envelope

    @property
    def exists(self) -> bool:
        """Whether the key has a value."""
        return self._access.exists(self._key)

    @property
    def get(self) -> tuple[Any, ...]:
        """The key's value, migrated if need be; PySpark's error where there is none."""
        found = self.getOption
        return self._group.get if found is None else found

    @property
    def getOption(self) -> tuple[Any, ...] | None:
        """The key's value, migrated if need be, or None."""
        value = self._access.get(self._key)
        return None if value is None else self._rows.to_tuple(value)

    def update(self, newValue: Any) -> None:
        """Write the key's value. Raises `ValueMismatchError` if the target cannot hold it."""
        if newValue is None:
            self._group.update(newValue)
        put_row(self._access, self._rows, self._key, newValue)
        self._envelope.claim()

    def remove(self) -> None:
        """Remove the key's value."""
        self._access.delete(self._key)
        # Spark forgets a timeout without a value too.
        self._envelope.remove()

    @property
    def hasTimedOut(self) -> bool:
        """Spark's own."""
        return bool(self._group.hasTimedOut)

    @property
    def oldTimeoutTimestamp(self) -> int:
        """Spark's own."""
        return int(self._group.oldTimeoutTimestamp)

    def setTimeoutDuration(self, durationMs: int) -> None:
        """Spark's own."""
        self._group.setTimeoutDuration(durationMs)

    def setTimeoutTimestamp(self, timestampMs: int) -> None:
        """Spark's own."""
        self._group.setTimeoutTimestamp(timestampMs)

    def getCurrentWatermarkMs(self) -> int:
        """Spark's own."""
        return int(self._group.getCurrentWatermarkMs())

    def getCurrentProcessingTimeMs(self) -> int:
        """Spark's own."""
        return int(self._group.getCurrentProcessingTimeMs())

    def json(self) -> str:
        """Spark's own."""
        return str(self._group.json())


Function = Callable[[Any, Any, Any], Any]


class MigratedFunction:
    """Calls ``function`` as Spark would, with state in the target's format.

    An object and not a function, so that it travels to the workers by value: a worker that imports
    the function's module has no scripts to read.
    """

    def __init__(self, function: Function, store: str, found: StorePlans | Undeployable) -> None:
        update_wrapper(self, function)
        self._function = function
        self._store = store
        self._found = found
        self._opened: _OpenStore | None = None

    @property
    def store(self) -> str:
        """The store that the function keeps."""
        return self._store

    def __reduce__(self) -> tuple[Any, ...]:
        return MigratedFunction, (self._function, self._store, self._found)

    def __call__(self, key: tuple[Any, ...], pdfs: Iterable[Any], state: Any) -> Any:
        """What ``applyInPandasWithState`` calls for each key."""
        opened = self._open()
        facade = opened.visit(key, state)
        if state.hasTimedOut:
            # PySpark passes one empty DataFrame then.
            frames = [pdf.drop(columns=MARKER, errors="ignore") for pdf in pdfs]
            return _until_settled(self._function(key, frames, facade), opened, None)
        arrived = Arrived(iter(pdfs))
        result = self._function(key, arrived.rows, facade) if arrived.is_for_user else ()
        return _until_settled(result, opened, arrived)

    def _open(self) -> _OpenStore:
        if isinstance(self._found, Undeployable):
            raise self._found.error
        if self._opened is None:
            if self._found.observed is not None:
                self._found.observed.compare_query()
                self._found.observed.compare_driver()
            self._opened = _OpenStore(self._found)
        return self._opened


def _until_settled(result: Any, opened: _OpenStore, arrived: Arrived | None) -> Any:
    # What is no iterable of DataFrames is left for PySpark to refuse.
    if not isinstance(result, Iterable) or hasattr(result, "columns"):
        return result
    return _results(result, opened, arrived)


def _results(result: Iterable[Any], opened: _OpenStore, arrived: Arrived | None) -> Iterator[Any]:
    yield from result
    if arrived is not None and arrived.asks_for_migration():
        opened.migrate()
    opened.envelope.settle()


class StorePlans:
    """What travels with a function: the settings, how its store is accessed, what was seen."""

    def __init__(
        self, plan: StorePlan, settings: Settings, observed: ObservedCheckpoint | None = None
    ) -> None:
        self.plan = plan
        self.settings = settings
        self.observed = observed


class _OpenStore:
    """The store on a worker, for one key after the other."""

    def __init__(self, found: StorePlans) -> None:
        self._plan = found.plan
        self._settings = found.settings
        self._visits = 0
        self._key: tuple[Any, ...] = ()
        self._readable = _readable(found.plan)
        self.envelope = Envelope()
        self._rows = RowCodec(found.plan.declared.schema)
        self._access = dual_access(
            found.plan,
            EnvelopeFamily(found.plan.target, self.envelope),
            [EnvelopeFamily(each, self.envelope) for each in found.plan.sources],
            write_on_read=found.settings.write_on_read,
            show_key=lambda _: self._key,
        )

    def visit(self, key: tuple[Any, ...], group: Any) -> MigratedGroupState:
        """The state of another key. Raises `StartupError` if no way leads from its revision."""
        self._visits += 1
        self._key = tuple(map(python_value, key))
        self.envelope.open(group, self._key)
        if self.envelope.revision is not None and self.envelope.revision not in self._readable:
            raise _unreadable(self._plan, self.envelope.revision, self._key)
        return MigratedGroupState(group, self._visits, self._access, self._rows, self.envelope)

    def migrate(self) -> None:
        """Migrate the key's value if it is of another revision: one step of the backfill."""
        for source in self._access.sources:
            value = source.family.get(self._visits)
            if value is not None:
                self._backfill(source, value)

    def _backfill(self, source: Any, value: Any) -> None:
        try:
            self._access.backfill(source, self._visits, value)
        except TransformError:
            # Quarantined is what stays in the old family: progress counts it there.
            if self._settings.on_error == "raise":
                raise


def _readable(plan: StorePlan) -> frozenset[str]:
    pairs = zip(plan.sources, plan.paths, strict=True)
    ways = (family.revision for family, path in pairs if path is not None)
    return frozenset([plan.target.revision, *ways])


def _unreadable(plan: StorePlan, revision: str, key: tuple[Any, ...]) -> StartupError:
    lineage, target = plan.lineage, plan.target.revision
    if revision not in lineage:
        return StartupError(
            "SM-STATE-023",
            f"store {lineage.store}, key {shown(key)}: the state has the unknown "
            f"revision {revision}",
            expected=f"one of {', '.join(lineage.revisions)}",
            found=revision,
            next_action="check out the scripts this checkpoint was last run with; "
            f"`statemigrate history {argument(lineage.store)}` lists those that are here",
            store=lineage.store,
            key=key,
            revision=revision,
        )
    return no_way(lineage, revision, target, held="this key's state is of it", at=repr(key))
