"""Many stored values to another format by columns, without a plain value for any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from statemigrate.formats import Format

FEW = 192
"""Values that are not worth their columns, whose fixed cost is that of some two hundred values."""


@dataclass(frozen=True)
class ColumnWay:
    """Takes bytes of the format ``before`` to bytes of the format ``after``, through lenses."""

    before: Format
    after: Format
    functions: tuple[Callable[[Any], Any], ...]

    def leads(self, before: Format, after: Format) -> bool:
        """Whether these are its formats."""
        found = (before.fingerprint, after.fingerprint)
        return found == (self.before.fingerprint, self.after.fingerprint)

    def bytes_of(self, stored: Sequence[bytes]) -> list[bytes] | None:
        """What each becomes, in the bytes that it has value by value.

        None where there are few of them, or where something about one is not as usual: it has to go
        by itself, which says what is wrong.
        """
        if len(stored) < FEW:
            return None
        array = self.before.decode_columns(stored)
        if array is None:
            return None
        import pyarrow as pa

        table = pa.table({"value": array})
        try:
            for function in self.functions:
                table = function(table)
        except Exception:
            # A lens does not take one of the values, and names it when they go one by one.
            return None
        return self.after.encode_columns(table.column("value").combine_chunks())
