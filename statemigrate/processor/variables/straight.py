"""Value state whose tuples are made of the bytes that are stored, without plain values between.

A key takes two thirds of the time so. What is irregular goes by plain values.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from statemigrate.access import DualAccess
from statemigrate.deployment import Declared
from statemigrate.families import EncodedFamily
from statemigrate.formats import Value
from statemigrate.formats.avro.straight import Read, Straight, Write
from statemigrate.processor.rows.codec import RowCodec
from statemigrate.processor.variables.dual import DualValueState, GroupingKey, dual_variable


def straight_variable(declared: Declared, access: DualAccess[Any], key: GroupingKey) -> Any:
    """`dual_variable` over an open access, straight where its target and the columns allow it."""
    if declared.kind == "value" and isinstance(access.target, EncodedFamily):
        rows = RowCodec(declared.schema)
        ways = rows.straight_ways(access.target.format)
        if ways is not None:
            return StraightState(access, rows, key, ways)
    return dual_variable(declared, access, key)


class StraightState(DualValueState):
    """Value state over a target that is an `EncodedFamily`."""

    def __init__(
        self, access: DualAccess[Value], rows: RowCodec, key: GroupingKey, ways: Straight
    ) -> None:
        super().__init__(access, rows, key)
        self._make_write, self._make_read = ways
        # What the target has is what `DualAccess.get` finds.
        self._get_encoded, self._put_encoded = access.target.get_encoded, access.put_encoded  # type: ignore[attr-defined]

    # Made once they are needed: most partitions of a small batch have no row.
    @cached_property
    def _write(self) -> Write:
        return self._make_write()

    @cached_property
    def _read(self) -> Read:
        return self._make_read()

    def get(self) -> tuple[Any, ...] | None:
        """See `DualValueState.get`."""
        data = self._get_encoded(self._key.data)
        if data is None:
            return super().get()
        try:
            return self._read(data)
        except Exception:
            # Whoever reads it in full says what is wrong, if anything.
            return super().get()

    def update(self, newValue: tuple[Any, ...]) -> None:
        """See `DualValueState.update`."""
        try:
            data = self._write(newValue)
        except Exception:
            # Whoever takes it by plain values makes it fit, or says what does not.
            super().update(newValue)
        else:
            self._put_encoded(self._key.data, data)
