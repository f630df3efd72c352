"""CRC-32C of many runs of bytes at once, a word of each in every step.

The polynomial is Castagnoli's, reflected, with a table for each byte of a word: RFC 3720, appendix
B.4, and Java's ``java.util.zip.CRC32C``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from statemigrate.checkpoint.rows.wrapped.splitting import Spans

_POLYNOMIAL = np.uint32(0x82F63B78)
_WORD = 8
Checksums = npt.NDArray[np.uint32]


def crc32c(*columns: Spans) -> Checksums:
    """The checksum of what the columns have for each row, one after the other."""
    state = np.full(columns[0].starts.size, 0xFFFFFFFF, np.uint32)
    for column in columns:
        state = _updated(state, column)
    return ~state


def _updated(state: Checksums, spans: Spans) -> Checksums:
    # Longest first, so that those which still have bytes are always the first ones.
    order = np.argsort(-spans.lengths, kind="stable")
    starts, lengths = spans.starts[order], spans.lengths[order]
    found = state[order]
    words = lengths // _WORD
    for step in range(int(words[0]) if words.size else 0):
        rows = int(np.searchsorted(-words, -step))
        found[:rows] = _word(found[:rows], _words(spans)[starts[:rows] + step * _WORD])
    rest = lengths % _WORD
    for step in range(_WORD - 1):
        rows_with = np.flatnonzero(rest > step)
        read = spans.data[starts[rows_with] + words[rows_with] * _WORD + step]
        found[rows_with] = _byte(found[rows_with], read)
    state = np.empty_like(found)
    state[order] = found
    return state


def _words(spans: Spans) -> npt.NDArray[Any]:
    """Every eight bytes of the data: those at index ``i`` begin at byte ``i``."""
    return np.ndarray((spans.data.size - _WORD + 1,), "<u8", spans.data, strides=(1,))


def _word(state: Checksums, words: npt.NDArray[Any]) -> Checksums:
    mixed = (words ^ state).view(np.uint8).reshape(-1, _WORD)
    tables = _tables()
    found = tables[_WORD - 1][mixed[:, 0]]
    for index in range(1, _WORD):
        found ^= tables[_WORD - 1 - index][mixed[:, index]]
    return found


def _byte(state: Checksums, read: npt.NDArray[np.uint8]) -> Checksums:
    found: Checksums = _tables()[0][(state ^ read) & np.uint32(0xFF)] ^ (state >> np.uint32(8))
    return found


@cache
def _tables() -> tuple[Checksums, ...]:
    """For each place behind a byte within a word, what the byte adds to the checksum."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> np.uint32(1)) ^ _POLYNOMIAL, first >> np.uint32(1))
    tables = [first]
    for _ in range(_WORD - 1):
        last = tables[-1]
        tables.append(first[last & np.uint32(0xFF)] ^ (last >> np.uint32(8)))
    return tuple(tables)
