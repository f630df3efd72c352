"""What of a key column tells one key from another, where rows are put together by it."""

from __future__ import annotations

from typing import Any


def exact_values(column: Any, values: list[Any]) -> list[Any]:
    """The ``values`` of an Arrow ``column``, or what is equal only where their keys' bytes are.

    Python takes the two times of an hour that clocks run through twice for equal. Types with other
    such values are no keys, see `statemigrate.processor.keys.grouping`.
    """
    import pyarrow as pa

    return column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else values
