"""Many stored values to another format by columns, without a plain value for any of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from statemigrate.formats import Format

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
