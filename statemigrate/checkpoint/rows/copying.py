"""Many ranges of bytes copied at once.

A range of between 2^k and 2^(k+1) bytes is copied as its first and its last 2^k bytes, which
overlap. So a batch of ranges takes two indexed copies for each k that occurs, of as many bytes as
there are, and never an index for each byte. numpy checks every index, so that what a damaged file
says cannot lead outside its bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


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
