"""Murmur3 as Spark computes it, of many values at once, each with a seed of its own.

Bytes behind the last whole word are mixed in one at a time, signed, unlike in other Murmur3s.
Source: apache/spark ``common/unsafe/.../unsafe/hash/Murmur3_x86_32.java`` (``hashUnsafeBytes``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from statemigrate.checkpoint.rows.hashing import HashFunction, longest_first
from statemigrate.checkpoint.rows.wrapped.splitting import Spans

Hashes = npt.NDArray[np.uint32]
_WORD = 4


def hashed_ints(values: npt.NDArray[np.uint32], seeds: Hashes) -> Hashes:
    """The hashes of integers of 32 bits."""
    return _finished(_mixed(seeds, values), np.uint32(4))


def hashed_longs(values: npt.NDArray[np.uint64], seeds: Hashes) -> Hashes:
    """The hashes of integers of 64 bits."""
    low, high = values.astype(np.uint32), (values >> np.uint64(32)).astype(np.uint32)
    return _finished(_mixed(_mixed(seeds, low), high), np.uint32(8))


def hashed_bytes(spans: Spans, seeds: Hashes) -> Hashes:
    """The hashes of runs of bytes."""
    order = longest_first(spans)
    starts, lengths, found = spans.starts[order], spans.lengths[order], seeds[order]
    words = lengths // _WORD
    for step in range(int(words[0]) if words.size else 0):
        rows = int(np.searchsorted(-words, -step))
        found[:rows] = _mixed(found[:rows], _words(spans)[starts[:rows] + step * _WORD])
    rest = lengths % _WORD
    for step in range(_WORD - 1):
        chosen = np.flatnonzero(rest > step)
        read = spans.data[starts[chosen] + words[chosen] * _WORD + step].view(np.int8)
        found[chosen] = _mixed(found[chosen], read.astype(np.int32).view(np.uint32))
    hashes = np.empty_like(found)
    hashes[order] = _finished(found, lengths.astype(np.uint32))
    return hashes


def _words(spans: Spans) -> npt.NDArray[Any]:
    """Every four bytes of the data: those at index ``i`` begin at byte ``i``."""
    return np.ndarray((spans.data.size - _WORD + 1,), "<u4", spans.data, strides=(1,))


def _mixed(hashes: Hashes, words: npt.NDArray[Any]) -> Hashes:
    mixed = _turned(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _turned(hashes ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _turned(words: npt.NDArray[Any], bits: int) -> Hashes:
    turned: Hashes = (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
    return turned


def _finished(hashes: Hashes, lengths: npt.NDArray[np.uint32] | np.uint32) -> Hashes:
    found = hashes ^ lengths
    found = (found ^ (found >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    found = (found ^ (found >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return found ^ (found >> np.uint32(16))


MURMUR3 = HashFunction(np.uint32, hashed_ints, hashed_longs, hashed_bytes)
"""Spark's ``hash``, which says where a key lies."""
