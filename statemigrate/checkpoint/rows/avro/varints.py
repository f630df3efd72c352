"""Avro's integers of variable length, many at once.

The sign is moved to the lowest bit, then seven bits go into a byte, the lowest first, each byte but
the last with its highest bit set: Avro's specification, "Binary encoding".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from statemigrate.checkpoint.rows.buffers import Bytes, Integers, Rows, ends
from statemigrate.checkpoint.rows.unsafe.leaf_decoding import damaged

_LONGEST = 10
_MORE = 0x80


def varints(numbers: Integers) -> Rows:
    """The bytes of each number."""
    bits = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    shifts = np.arange(_LONGEST, dtype=np.uint64) * np.uint64(7)
    groups: npt.NDArray[Any] = (bits[:, np.newaxis] >> shifts) & np.uint64(0x7F)
    rest = bits[:, np.newaxis] >> shifts != 0
    lengths = np.maximum(rest.sum(axis=1), 1)
    used = np.arange(_LONGEST) < lengths[:, np.newaxis]
    more = np.arange(_LONGEST) < (lengths - 1)[:, np.newaxis]
    whole = (groups | np.where(more, np.uint64(_MORE), np.uint64(0))).astype(np.uint8)
    return Rows(whole[used], ends(lengths))


def read_varints(
    data: Bytes, places: Integers, limits: Integers, what: str
) -> tuple[Integers, Integers]:
    """The number at each place, and where it ends.

    Raises `CorruptFileError` for one that does not end before its limit, or is too long.
    """
    found = np.zeros(places.size, np.uint64)
    places = places.copy()
    open_rows = np.arange(places.size)
    for step in range(_LONGEST):
        if not open_rows.size:
            break
        if bool((places[open_rows] >= limits[open_rows]).any()):
            raise damaged(what, "a number that ends within its row", "none")
        read = data[places[open_rows]]
        places[open_rows] += 1
        found[open_rows] |= (read & 0x7F).astype(np.uint64) << np.uint64(7 * step)
        open_rows = open_rows[read >= _MORE]
    if open_rows.size:
        raise damaged(what, f"a number of at most {_LONGEST} bytes", "a longer one")
    signs = (found & np.uint64(1)).view(np.int64)
    return (found >> np.uint64(1)).view(np.int64) ^ -signs, places
