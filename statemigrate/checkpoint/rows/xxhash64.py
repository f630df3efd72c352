"""XXH64 as Spark computes it, of many values at once, each with a seed of its own.

Source: apache/spark ``sql/catalyst/.../expressions/XXH64.java``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.hashing import HashFunction, hash_of, longest_first
from statemigrate.checkpoint.rows.wrapping import Spans

Hashes = npt.NDArray[np.uint64]
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_WORD, _BLOCK = 8, 32
_LANE_TURNS = (1, 7, 12, 18)


def hashed_ints(values: npt.NDArray[np.uint32], seeds: Hashes) -> Hashes:
    """The hashes of integers of 32 bits."""
    return _finished(_with_int(seeds + (_P5 + np.uint64(4)), values))


def hashed_longs(values: npt.NDArray[np.uint64], seeds: Hashes) -> Hashes:
    """The hashes of integers of 64 bits."""
    return _finished(_with_long(seeds + (_P5 + np.uint64(8)), values))


def hashed_bytes(spans: Spans, seeds: Hashes) -> Hashes:
    """The hashes of runs of bytes."""
    order = longest_first(spans)
    starts, lengths = spans.starts[order], spans.lengths[order]
    found = _after_blocks(spans, starts, lengths, seeds[order]) + lengths.astype(np.uint64)
    at = starts + lengths // _BLOCK * _BLOCK
    words = lengths % _BLOCK // _WORD
    for step in range(_BLOCK // _WORD - 1):
        rows = np.flatnonzero(words > step)
        found[rows] = _with_long(found[rows], _wide(spans, "<u8")[at[rows] + step * _WORD])
    at += words * _WORD
    rows = np.flatnonzero(lengths % _WORD >= 4)
    found[rows] = _with_int(found[rows], _wide(spans, "<u4")[at[rows]])
    at[rows] += 4
    for step in range(3):
        rows = np.flatnonzero(lengths % 4 > step)
        byte = spans.data[at[rows] + step].astype(np.uint64)
        found[rows] = _turned(found[rows] ^ (byte * _P5), 11) * _P1
    hashes = np.empty_like(found)
    hashes[order] = _finished(found)
    return hashes


def _after_blocks(spans: Spans, starts: Any, lengths: Any, seeds: Hashes) -> Hashes:
    """The hashes after all whole blocks of 32 bytes, which four lanes take side by side."""
    found = seeds + _P5
    count = int(np.searchsorted(-lengths, -_BLOCK, side="right"))
    if not count:
        return found
    words, seeds, blocks = _wide(spans, "<u8"), seeds[:count], lengths[:count] // _BLOCK
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    for step in range(int(blocks[0])):
        rows = int(np.searchsorted(-blocks, -step))
        at = starts[:rows] + step * _BLOCK
        for number, lane in enumerate(lanes):
            read = words[at + number * _WORD]
            lane[:rows] = _turned(lane[:rows] + read * _P2, 31) * _P1
    turned = [_turned(lane, bits) for lane, bits in zip(lanes, _LANE_TURNS, strict=True)]
    hashes = turned[0] + turned[1] + turned[2] + turned[3]
    for lane in lanes:
        hashes = (hashes ^ (_turned(lane * _P2, 31) * _P1)) * _P1 + _P4
    found[:count] = hashes
    return found


def _wide(spans: Spans, kind: str) -> npt.NDArray[Any]:
    """Every run of so many bytes as a number: those at index ``i`` begin at byte ``i``."""
    count = max(0, spans.data.size - np.dtype(kind).itemsize + 1)
    return np.ndarray((count,), kind, spans.data, strides=(1,))


def _with_int(hashes: Hashes, values: npt.NDArray[Any]) -> Hashes:
    return _turned(hashes ^ (values.astype(np.uint64) * _P1), 23) * _P2 + _P3


def _with_long(hashes: Hashes, values: npt.NDArray[Any]) -> Hashes:
    return _turned(hashes ^ (_turned(values.astype(np.uint64) * _P2, 31) * _P1), 27) * _P1 + _P4


def _turned(words: Hashes, bits: int) -> Hashes:
    turned: Hashes = (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
    return turned


def _finished(hashes: Hashes) -> Hashes:
    found = (hashes ^ (hashes >> np.uint64(33))) * _P2
    found = (found ^ (found >> np.uint64(29))) * _P3
    return found ^ (found >> np.uint64(32))


XXHASH64 = HashFunction(np.uint64, hashed_ints, hashed_longs, hashed_bytes)
"""Spark's ``xxhash64``."""


def sum_of_rows(keys: Rows, values: Rows) -> int:
    """The sum of the hashes of all keys, each with its value, in 64 bits: in any order the same."""
    found = hash_of([keys.to_arrow(), values.to_arrow()], XXHASH64)
    return int(found.sum(dtype=np.uint64))
