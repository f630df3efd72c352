"""A list in a page: an element behind the other, each with its length and when it expires."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from statemigrate.pages.page.columns import NEVER, is_over
from statemigrate.pages.page.layout import damaged

_LENGTH = struct.Struct("<I")
_MOMENT = struct.Struct("<q")
_EXPIRES = 1 << 31
"""In an element's length: the time at which it expires stands between length and element."""

Element = tuple[bytes, int]
"""An encoded element, and when it expires: milliseconds since the epoch, or `NEVER`."""


def joined(elements: Iterable[Element]) -> bytes:
    """The bytes of a list."""
    parts: list[bytes] = []
    for data, moment in elements:
        if moment == NEVER:
            parts += (_LENGTH.pack(len(data)), data)
        else:
            parts += (_LENGTH.pack(len(data) | _EXPIRES), _MOMENT.pack(moment), data)
    return b"".join(parts)


def elements_of(data: bytes) -> Iterator[Element]:
    """The elements of a list. Raises `PageError` for bytes that are no list."""
    position = 0
    while position < len(data):
        element, moment, position = _next(data, position)
        yield element, moment


def without_first_expired(data: bytes, now: int) -> bytes:
    """A list without the elements at its beginning that have expired."""
    position = 0
    while position < len(data):
        _, moment, end = _next(data, position)
        if not is_over(moment, now):
            break
        position = end
    return data[position:]


def last_to_expire(moments: Iterable[int]) -> int:
    """When a list expires: with the last of its elements, if all of them do."""
    known = list(moments)
    return NEVER if NEVER in known else max(known, default=NEVER)


def _next(data: bytes, position: int) -> tuple[bytes, int, int]:
    try:
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        moment = NEVER
        if length & _EXPIRES:
            length ^= _EXPIRES
            (moment,) = _MOMENT.unpack_from(data, position)
            position += _MOMENT.size
    except struct.error as error:
        raise damaged("a list that ends within the length of an element") from error
    end = position + length
    if end > len(data):
        raise damaged("a list that ends within an element")
    return data[position:end], moment, end
