"""Spark's ``hash`` written down once more, a value at a time."""

from __future__ import annotations

import math
import struct
from typing import Any

from tests.support.unsafe_rows import digits

_MASK = 0xFFFFFFFF


def hashed(spark: Any, value: Any, seed: int) -> int:
    """The hash of a value of a type; integers of 32 bits without a sign."""
    if value is None:
        return seed
    if isinstance(spark, dict):
        return _nested(spark, value, seed)
    if spark in ("float", "double"):
        # 0.0 and -0.0 are one key, and so is whatever is not a number.
        same = 0.0 if value == 0 else math.nan if math.isnan(value) else value
        return _words(struct.pack("<f" if spark == "float" else "<d", same), seed)
    if spark in ("string", "binary"):
        return _bytes(value.encode() if isinstance(value, str) else value, seed)
    if spark.startswith("decimal"):
        return _decimal(_unscaled(value), digits(spark)[0], seed)
    small = spark in ("boolean", "byte", "short", "integer", "date", "interval year to month")
    return _words(struct.pack("<i" if small else "<q", value), seed)


def _decimal(number: int, precision: int, seed: int) -> int:
    if precision <= 18:
        return _words(struct.pack("<q", number), seed)
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return _bytes(number.to_bytes(size, signed=True), seed)


def _nested(spark: Any, value: Any, seed: int) -> int:
    if spark["type"] == "array":
        parts = [(spark["elementType"], each) for each in value]
    else:
        parts = [(field["type"], value[field["name"]]) for field in spark["fields"]]
    for kind, each in parts:
        seed = hashed(kind, each, seed)
    return seed


def _unscaled(value: Any) -> int:
    sign, figures, _ = value.as_tuple()
    return int("".join(map(str, figures))) * (-1 if sign else 1)


def _words(data: bytes, seed: int) -> int:
    for (word,) in struct.iter_unpack("<I", data):
        seed = _mixed(seed, word)
    return _finished(seed, len(data))


def _bytes(data: bytes, seed: int) -> int:
    aligned = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:aligned]):
        seed = _mixed(seed, word)
    for (byte,) in struct.iter_unpack("<b", data[aligned:]):
        seed = _mixed(seed, byte & _MASK)
    return _finished(seed, len(data))


def _turned(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _MASK


def _mixed(seed: int, word: int) -> int:
    word = _turned(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    return (_turned(seed ^ word, 13) * 5 + 0xE6546B64) & _MASK


def _finished(seed: int, length: int) -> int:
    seed ^= length
    seed = (seed ^ seed >> 16) * 0x85EBCA6B & _MASK
    seed = (seed ^ seed >> 13) * 0xC2B2AE35 & _MASK
    return seed ^ seed >> 16
