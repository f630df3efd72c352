"""PySpark's ``GroupState`` over dual access, for a function of ``applyInPandasWithState``."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.state import GroupState

from statemigrate.access import DualAccess
from statemigrate.formats import Value
from statemigrate.native.live.envelope import Envelope
from statemigrate.processor.rows.codec import RowCodec
from statemigrate.processor.variables.dual import put_row


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
