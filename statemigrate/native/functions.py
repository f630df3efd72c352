"""A function of ``applyInPandasWithState`` whose state has migrations, and its envelopes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.state import GroupState

from statemigrate.access import DualAccess
from statemigrate.deployment import (
    ENVELOPE,
    Declared,
    DeploymentSettings,
    StorePlan,
    missing_path,
    note_function,
)
from statemigrate.errors import CheckpointError, FormatError, StartupError, shown
from statemigrate.families import Span
from statemigrate.formats import Value
from statemigrate.native.control_rows import MARKER, Arrived
from statemigrate.native.deployed_variables import Undeployable
from statemigrate.native.deployment_check import ObservedCheckpoint
from statemigrate.processor import OpenStores, Role, TupleCodec, put_row, python_value
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from statemigrate.deployment import StoredFamily

# The envelope: what ``applyInPandasWithState`` keeps for a key, whatever the value's format is.
# Such a query has one state schema for ever, so its state is an envelope of the value: the
# revision it was written at, its Avro binary, and the timeout that was set with it. The families
# of a store are views of that one envelope: a revision's family holds the key if the envelope is
# of it.
#
# The timeout is kept because Spark tells Python none of it, and drops it when state is written in
# a call that sets no timeout. What migrates a value without the function's doing sets it again.


_NO_TIMEOUT = -1
_PROCESSING_TIME, _EVENT_TIME = "ProcessingTimeTimeout", "EventTimeTimeout"


class Envelope:
    """The envelope of the key at hand, over Spark's ``GroupState``.

    Nothing reaches Spark before `settle`, except a removal. ``revision`` is None where the key has
    no state; ``timeout`` is a timestamp in milliseconds, None where there is none.
    """

    def __init__(self) -> None:
        self.key: object = None
        self.revision: str | None = None
        self.payload = b""
        self.timeout: int | None = None
        self._group: Any = None
        self._changed = self._claimed = False

    def open(self, group: Any, key: object) -> None:
        """Go on to another key. Raises `CheckpointError` for state that is no envelope."""
        self.key, self._group = key, group
        self._changed = self._claimed = False
        self.revision, self.payload, self.timeout = None, b"", None
        state = group.getOption
        if state is not None:
            self.revision, self.payload, self.timeout = _checked(state, key)

    def replace(self, revision: str, payload: bytes) -> None:
        """Hold another value."""
        self.revision, self.payload = revision, payload
        self._changed = True

    def remove(self) -> None:
        """Remove the key's state."""
        self._group.remove()
        self.revision, self.payload, self._changed = None, b"", False

    def claim(self) -> None:
        """Note that the function has written the value, so that timeouts are as it leaves them."""
        self._claimed = True

    def settle(self) -> None:
        """Write what has changed, at the end of the call.

        A value that was only migrated is written with the timeout it had. Where that is not to be
        had, because it is due, the value stays unmigrated, so that Spark still calls the function.
        """
        if self.revision is None:
            return
        properties = json.loads(self._group.json())
        chosen = int(properties["timeoutTimestamp"])
        if self._claimed or chosen != _NO_TIMEOUT:
            self.timeout = None if chosen == _NO_TIMEOUT else chosen
        elif not self._changed or not self._sets_timeout_again(properties):
            return
        self._group.update((self.revision, self.payload, self.timeout))

    def _sets_timeout_again(self, properties: dict[str, Any]) -> bool:
        if self.timeout is None:
            return True
        if properties["timeoutConf"] == _PROCESSING_TIME:
            remaining = self.timeout - self._group.getCurrentProcessingTimeMs()
            if remaining <= 0:
                return False
            self._group.setTimeoutDuration(remaining)
        elif properties["timeoutConf"] == _EVENT_TIME:
            if self.timeout < properties["eventTimeWatermarkMs"]:
                return False
            self._group.setTimeoutTimestamp(self.timeout)
        return True


class EnvelopeFamily:
    """The values of one revision, seen through the envelope."""

    def __init__(self, family: StoredFamily, envelope: Envelope) -> None:
        self.name = family.name
        self.revision = family.revision
        self.format = family.format
        self._envelope = envelope

    def get(self, key: Any) -> Value | None:
        """See `statemigrate.families.Family.get`.

        Raises `CheckpointError` for a payload that is not a value of the revision's format.
        """
        if not self.contains(key):
            return None
        try:
            return self.format.decode(self._envelope.payload)
        except FormatError as error:
            raise CheckpointError(
                "SM-STATE-021",
                f"family {self.name}, key {shown(self._envelope.key)}: the payload is not a "
                f"value of revision {self.revision}",
                expected=str(self.format),
                found=error.summary,
                next_action="restore the script as it was when the state was written, or the "
                "checkpoint from a copy; nothing of this batch was written",
                key=self._envelope.key,
                revision=self.revision,
            ) from error

    def contains(self, key: Any) -> bool:  # noqa: ARG002 - Spark is at the key
        """See `statemigrate.families.Family.contains`."""
        return self._envelope.revision == self.revision

    def conform(self, value: Value) -> Value:
        """See `statemigrate.families.Family.conform`."""
        return self.format.conform(value)

    def put(self, key: Any, value: Value) -> None:  # noqa: ARG002
        """See `statemigrate.families.Family.put`; written with the end of the call."""
        self._envelope.replace(self.revision, self.format.encode(value))

    def delete(self, key: Any) -> None:
        """See `statemigrate.families.Family.delete`."""
        if self.contains(key):
            self._envelope.remove()

    def scan(self, span: Span) -> Iterator[tuple[Any, Value]]:
        """See `statemigrate.families.Family.scan`: the one value of the key at hand."""
        value = self.get(span.lower)
        if value is not None:
            yield span.lower, value

    def is_drained(self) -> bool:
        """See `statemigrate.families.Family.is_drained`: of other keys nothing is known."""
        return False


def _checked(state: tuple[Any, ...], key: object) -> tuple[str, bytes, int | None]:
    match state:
        case (str() as revision, bytes() | bytearray() as payload, int() | None as timeout):
            return revision, bytes(payload), timeout
    raise CheckpointError(
        "SM-STATE-022",
        f"key {shown(key)}: the state is not an envelope",
        expected=f"{ENVELOPE}, revision and payload filled in",
        found=f"{state!r:.200}",
        next_action="pass statemigrate.ENVELOPE as stateStructType; where a function without an "
        "envelope has written the checkpoint, stop the query and `statemigrate rewrite CHECKPOINT "
        "NEW --code MODULE:FUNCTION` for code that keeps another struct without migrated, or that "
        "has a transformWithState in the function's place; nothing of this batch was written",
        key=key,
    )


# PySpark's ``GroupState`` over dual access, for a function of ``applyInPandasWithState``.


class MigratedGroupState(GroupState):
    """See ``pyspark.sql.streaming.state.GroupState``: values are in the target's format.

    Timeouts and times are ``group``'s own, the state that Spark handed over for ``key``.
    """

    def __init__(
        self, group: Any, key: Any, access: DualAccess[Value], rows: TupleCodec, envelope: Envelope
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
        self._opened: EnvelopeStore | None = None

    @property
    def store(self) -> str:
        """The store that the function keeps."""
        return self._store

    def __reduce__(self) -> tuple[Any, ...]:
        # What goes to the workers is what the query runs, wherever it was made.
        found = self._found
        note_function(self._store, found.error if isinstance(found, Undeployable) else found.plan)
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

    def _open(self) -> EnvelopeStore:
        if isinstance(self._found, Undeployable):
            raise self._found.error
        if self._opened is None:
            if self._found.observed is not None:
                self._found.observed.compare_query()
                self._found.observed.compare_driver()
            self._opened = EnvelopeStore(self._found)
        return self._opened


def _until_settled(result: Any, opened: EnvelopeStore, arrived: Arrived | None) -> Any:
    # What is no iterable of DataFrames is left for PySpark to refuse.
    if not isinstance(result, Iterable) or hasattr(result, "columns"):
        return result
    return _results(result, opened, arrived)


def _results(
    result: Iterable[Any], opened: EnvelopeStore, arrived: Arrived | None
) -> Iterator[Any]:
    yield from result
    if arrived is not None and arrived.asks_for_migration():
        opened.migrate()
    opened.envelope.settle()


class StorePlans:
    """What travels with a function: the settings, how its store is accessed, what was seen."""

    def __init__(
        self,
        plan: StorePlan,
        settings: DeploymentSettings,
        observed: ObservedCheckpoint | None = None,
    ) -> None:
        self.plan = plan
        self.settings = settings
        self.observed = observed


class EnvelopeStore(OpenStores):
    """The store of a function on a worker, for one key after the other."""

    def __init__(self, found: StorePlans) -> None:
        settings = found.settings
        super().__init__(write_on_read=settings.write_on_read, on_error=settings.on_error)
        self.envelope = Envelope()
        self._plan = found.plan
        self._visits = 0
        self._key: tuple[Any, ...] = ()
        self._readable = _readable(found.plan)
        self._rows = TupleCodec(found.plan.declared.schema)
        self._access = self.add(found.plan)

    def family(self, plan: StorePlan, family: StoredFamily, role: Role) -> EnvelopeFamily:  # noqa: ARG002
        """See `OpenStores`."""
        return EnvelopeFamily(family, self.envelope)

    def shown(self, declared: Declared, key: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """See `OpenStores`: the key of the visit."""
        return self._key

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
                self.backfill(self._access, source, self._visits, value)


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
    return missing_path(lineage, revision, target, held="this key's state is of it", at=repr(key))
