"""Many byte strings in one buffer.

State is handled a batch at a time: keys and values are kept end to end in one array, with the
places where each begins, as Arrow keeps its binary columns. No step has a Python loop over rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Many ranges of bytes copied at once.
#
# A range of between 2^k and 2^(k+1) bytes is copied as its first and its last 2^k bytes, which
# overlap. So a batch of ranges takes two indexed copies for each k that occurs, of as many bytes as
# there are, and never an index for each byte. numpy checks every index, so that what a damaged file
# says cannot lead outside its bytes.


def copy_ranges(
    source: Bytes, starts: Integers, lengths: Integers, target: Bytes, places: Integers
) -> None:
    """Copy ``source[starts[i]:][:lengths[i]]`` to ``target[places[i]:]``, for every ``i``.

    Raises `IndexError` for a range that does not lie within ``source`` and within ``target``.
    """
    _inside(starts, lengths, source.size)
    _inside(places, lengths, target.size)
    if lengths.size and bool(np.all(lengths == lengths[0])):
        _copy(source, starts, target, places, int(lengths[0]))
        return
    powers = np.frexp(lengths)[1] - 1
    for power in np.unique(powers[lengths > 0]).tolist():
        chosen = np.flatnonzero(powers == power)
        first, to = starts[chosen], places[chosen]
        _copy(source, first, target, to, 1 << power)
        rest = lengths[chosen] - (1 << power)
        _copy(source, first + rest, target, to + rest, 1 << power)


def fill_ranges(matrix: Bytes, target: Bytes, places: Integers) -> None:
    """Copy row ``i`` of ``matrix`` to ``target[places[i]:]``; a matrix of one row goes everywhere.

    Raises `IndexError` for a place that has no room in ``target``.
    """
    width = matrix.shape[1]
    _inside(places, np.full(places.size, width), target.size)
    if width and places.size:
        cells = np.ascontiguousarray(matrix).view(f"V{width}")[:, 0]
        _cells(target, width)[places] = cells


def _copy(source: Bytes, starts: Integers, target: Bytes, places: Integers, width: int) -> None:
    if width and starts.size:
        _cells(target, width)[places] = _cells(source, width)[starts]


def _cells(data: Bytes, width: int) -> npt.NDArray[Any]:
    """Every run of ``width`` bytes: the one at index ``i`` begins at byte ``i``."""
    return np.ndarray((data.size - width + 1,), f"V{width}", data, strides=(1,))


def _inside(starts: Integers, lengths: npt.NDArray[Any], size: int) -> None:
    if not starts.size:
        return
    if int(starts.min()) < 0 or int(lengths.min()) < 0 or int((starts + lengths).max()) > size:
        raise IndexError(f"ranges that do not lie within {size} bytes")


Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """``n`` byte strings: row ``i`` is ``data[offsets[i]:offsets[i + 1]]``.

    ``data`` is one-dimensional, of ``uint8``; ``offsets`` has ``n + 1`` of ``int64``. What lies
    before the first offset and behind the last belongs to no row. Raises `ValueError` for offsets
    that fall or leave ``data``.
    """

    data: Bytes
    offsets: Integers

    def __post_init__(self) -> None:
        if self.data.dtype != np.uint8 or self.data.ndim != 1 or self.offsets.dtype != np.int64:
            raise ValueError("rows are a flat array of uint8 and offsets of int64")
        if not self.offsets.size:
            raise ValueError("no offsets: no rows have one")
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        if first < 0 or last > self.data.size or bool(np.any(np.diff(self.offsets) < 0)):
            raise ValueError(f"offsets from {first} to {last} in {self.data.size} bytes of rows")

    def __len__(self) -> int:
        return int(self.offsets.size) - 1

    @property
    def starts(self) -> Integers:
        """Where each row begins in ``data``."""
        return self.offsets[:-1]

    @property
    def lengths(self) -> Integers:
        """The bytes of each row."""
        return np.diff(self.offsets)

    @property
    def width(self) -> int | None:
        """The bytes that every row has; None where they differ, or where there is no row."""
        lengths = self.lengths
        return int(lengths[0]) if lengths.size and bool(np.all(lengths == lengths[0])) else None

    def row(self, index: int) -> bytes:
        """One row, counted from 0, or from the end if negative."""
        index = range(len(self))[index]
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def to_list(self) -> list[bytes]:
        """Every row, as RocksDB takes it."""
        found: list[bytes] = self.to_arrow().to_pylist()
        return found

    @staticmethod
    def from_list(rows: Iterable[bytes]) -> Rows:
        """The rows of a list; for tests and for few rows."""
        found = list(rows)
        return Rows(np.frombuffer(b"".join(found), np.uint8), ends(list(map(len, found))))

    @staticmethod
    def from_matrix(matrix: Bytes) -> Rows:
        """Rows of one width: ``n`` rows of ``uint8``, of shape ``(n, width)``."""
        count, width = matrix.shape
        offsets = np.arange(count + 1, dtype=np.int64) * width
        return Rows(np.ascontiguousarray(matrix).reshape(-1), offsets)

    @staticmethod
    def from_arrow(array: pa.Array) -> Rows:
        """The bytes of a binary or string array of Arrow, not copied; a null is an empty row."""
        wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
        if not (wide or pa.types.is_binary(array.type) or pa.types.is_string(array.type)):
            array, wide = array.cast(pa.large_binary()), True
        _, places, content = array.buffers()
        kind = np.dtype(np.int64 if wide else np.int32)
        count = len(array) + 1 if places is not None and places.size else 0
        offsets = np.frombuffer(places or b"", kind, count, array.offset * kind.itemsize)
        return Rows(
            np.frombuffer(content or b"", np.uint8),
            offsets.astype(np.int64) if count else np.zeros(len(array) + 1, np.int64),
        )

    def to_arrow(self) -> pa.Array:
        """The rows as Arrow's ``large_binary``, not copied."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)

    def matrix(self) -> Bytes:
        """Rows of one `width` as an array of shape ``(n, width)``, not copied.

        Raises `ValueError` for rows that differ in width.
        """
        width = self.width
        if width is None and len(self):
            raise ValueError("rows of several widths are no matrix")
        used = self.data[self.offsets[0] : self.offsets[-1]]
        return used.reshape(len(self), width or 0)

    def slice(self, start: int, stop: int) -> Rows:
        """The rows from ``start`` up to ``stop``, not copied."""
        start, stop, _ = slice(start, stop).indices(len(self))
        return Rows(self.data, self.offsets[start : max(start, stop) + 1])

    def take(self, indices: npt.NDArray[Any]) -> Rows:
        """The rows at ``indices``, in their order; a mask of booleans takes those where it is true.

        Raises `IndexError` for an index outside.
        """
        return within(self.data, self.starts[indices], self.lengths[indices])

    @staticmethod
    def concat(parts: Sequence[Rows]) -> Rows:
        """The rows of all parts, one after the other."""
        used = [part.data[part.offsets[0] : part.offsets[-1]] for part in parts]
        lengths = [part.lengths for part in parts]
        return Rows(
            np.concatenate(used) if used else np.empty(0, np.uint8),
            ends(np.concatenate(lengths) if lengths else []),
        )


def ends(lengths: npt.ArrayLike) -> Integers:
    """The offsets of rows of these lengths, laid end to end."""
    counts = np.asarray(lengths, np.int64)
    offsets = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def within(data: Bytes, starts: Integers, lengths: Integers) -> Rows:
    """The rows that lie in ``data`` at ``starts``, of these lengths, copied end to end.

    Raises `IndexError` where one is not within ``data``.
    """
    offsets = ends(lengths)
    copied = np.empty(max(0, int(offsets[-1])), np.uint8)
    copy_ranges(data, starts, lengths, copied, offsets[:-1])
    return Rows(copied, offsets)


def joined(*columns: Rows | bytes | Bytes) -> Rows:
    """Each row is what the columns have for it, one after the other.

    A column is as many `Rows`, an array of ``uint8`` of shape ``(n, width)``, or ``bytes`` that
    stand in every row. Raises `ValueError` if columns differ in their rows, or all are ``bytes``.
    """
    counts = {len(column) for column in columns if not isinstance(column, bytes)}
    if len(counts) != 1:
        raise ValueError(f"columns with {sorted(counts)} rows are not joined")
    parts = [_fixed(column) for column in columns]
    flat = [part for part in parts if not isinstance(part, Rows)]
    if len(flat) == len(parts):
        return _side_by_side(flat, counts.pop())
    return _interleaved(parts, counts.pop())


def _fixed(column: Rows | bytes | Bytes) -> Rows | Bytes:
    """The column, as a matrix where every row has the same width."""
    if isinstance(column, bytes):
        return np.frombuffer(column, np.uint8)[np.newaxis, :]
    if isinstance(column, Rows):
        return column if column.width is None else column.matrix()
    if column.ndim != 2 or column.dtype != np.uint8:
        raise ValueError("a column of fixed width is an array of uint8 with two dimensions")
    return column


def _side_by_side(parts: Sequence[Bytes], count: int) -> Rows:
    offsets = ends([part.shape[1] for part in parts]).tolist()
    whole = np.empty((count, offsets[-1]), np.uint8)
    for part, (start, end) in zip(parts, pairwise(offsets), strict=True):
        whole[:, start:end] = part
    return Rows.from_matrix(whole)


def _interleaved(parts: Sequence[Rows | Bytes], count: int) -> Rows:
    lengths = np.zeros(count, np.int64)
    for part in parts:
        lengths += part.lengths if isinstance(part, Rows) else part.shape[1]
    offsets = ends(lengths)
    whole = np.empty(offsets[-1], np.uint8)
    at = offsets[:-1].copy()
    for part in parts:
        if isinstance(part, Rows):
            copy_ranges(part.data, part.starts, part.lengths, whole, at)
            at += part.lengths
        else:
            fill_ranges(part, whole, at)
            at += part.shape[1]
    return Rows(whole, offsets)
