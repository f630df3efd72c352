"""Arrow's arrays as numpy has them, and back.

They are made of their buffers, and read from these: `pyarrow.array`, `Array.to_numpy` and Python's
values as scalars load pandas, wherever that is installed, which takes half a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def arrow_array(numbers: npt.NDArray[Any]) -> pa.Array:
    """Numbers or truth values as Arrow has them."""
    if numbers.dtype == np.bool_:
        bits = np.packbits(numbers, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), numbers.size, [None, pa.py_buffer(bits)])
    kind = pa.from_numpy_dtype(numbers.dtype)
    data = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(kind, numbers.size, [None, data])


def numpy_array(numbers: pa.Array) -> npt.NDArray[Any]:
    """Numbers or truth values of Arrow, without nulls, as numpy has them."""
    data, count, first = numbers.buffers()[1], len(numbers), numbers.offset
    if pa.types.is_boolean(numbers.type):
        bits = np.unpackbits(np.frombuffer(data or b"", np.uint8), bitorder="little")
        return bits[first : first + count].astype(bool)
    kind = np.dtype(numbers.type.to_pandas_dtype())
    return np.frombuffer(data or b"", kind, count if data else 0, first * kind.itemsize)


def numbers_in_memory(array: pa.Array, kind: npt.DTypeLike, each: int = 1) -> npt.NDArray[Any]:
    """``each`` numbers a value, from Arrow's memory, whatever is there for a null."""
    content = array.buffers()[1]
    made = np.dtype(kind)
    if content is None:
        return np.zeros(len(array) * each, made)
    start = array.offset * made.itemsize * each
    return np.frombuffer(content, made, len(array) * each, start)
