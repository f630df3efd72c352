"""The envelope: what ``applyInPandasWithState`` keeps for a key, whatever the value's format is.

Such a query has one state schema for ever, so its state is an envelope of the value: the revision
it was written at, its Avro binary, and the timeout that was set with it. The families of a store
are views of that one envelope: a revision's family holds the key if the envelope is of it.

The timeout is kept because Spark tells Python none of it, and drops it when state is written in a
call that sets no timeout. What migrates a value without the function's doing sets it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from statemigrate.errors import CheckpointError, FormatError, shown
from statemigrate.families import Span

if TYPE_CHECKING:
    from statemigrate.deployment import StoredFamily
    from statemigrate.formats import Value


ENVELOPE = "revision STRING, payload BINARY, timeout BIGINT"
"""The ``stateStructType`` of an ``applyInPandasWithState`` whose function is `migrated`."""

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
