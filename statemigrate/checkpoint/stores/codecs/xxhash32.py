"""XXH32 of many byte strings at once: each step is taken for all of them together.

The checksum of the LZ4 framing that Spark's state files have; too small a part for a package of its
own. Specification: ``doc/xxhash_spec.md`` of Cyan4973/xxHash.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_M = 0xFFFFFFFF
_STRIPE = 16

Words = npt.NDArray[np.uint32]


def xxhash32(contents: Sequence[bytes], seed: int) -> list[int]:
    """The hash of each of ``contents``, as numbers of 32 bits."""
    found: list[int] = []
    for _, same in groupby(contents, len):
        found += _of_one_length(list(same), seed)
    return found


def _of_one_length(contents: list[bytes], seed: int) -> list[int]:
    size = len(contents[0])
    if size < _STRIPE:
        return [_finished((seed + _P5) & _M, content, size) for content in contents]
    tail = size - size % _STRIPE
    words = np.frombuffer(b"".join(contents), np.uint8).reshape(len(contents), size)
    stripes = np.ascontiguousarray(words[:, :tail]).view("<u4").reshape(len(contents), -1, 4)
    starts = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
    state = np.tile(np.array([start & _M for start in starts], np.uint32), (len(contents), 1))
    for stripe in np.ascontiguousarray(stripes.transpose(1, 0, 2)):
        state = _rotated(state + stripe * np.uint32(_P2), 13) * np.uint32(_P1)
    lanes = [_rotated(state[:, lane], by) for lane, by in enumerate((1, 7, 12, 18))]
    sums = np.sum(np.array(lanes, np.uint64), axis=0).tolist()
    return [
        _finished(each & _M, content[tail:], size)
        for each, content in zip(sums, contents, strict=True)
    ]


def _rotated(words: Words, by: int) -> Words:
    rotated: Words = (words << np.uint32(by)) | (words >> np.uint32(32 - by))
    return rotated


def _finished(state: int, tail: bytes, size: int) -> int:
    state = (state + size) & _M
    whole = len(tail) - len(tail) % 4
    for at in range(0, whole, 4):
        state = (state + int.from_bytes(tail[at : at + 4], "little") * _P3) & _M
        state = (_left(state, 17) * _P4) & _M
    for byte in tail[whole:]:
        state = (_left((state + byte * _P5) & _M, 11) * _P1) & _M
    state = ((state ^ (state >> 15)) * _P2) & _M
    state = ((state ^ (state >> 13)) * _P3) & _M
    return state ^ (state >> 16)


def _left(number: int, by: int) -> int:
    return ((number << by) | (number >> (32 - by))) & _M
