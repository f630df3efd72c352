"""The messages of an Arrow IPC stream, each taken apart and measured before Arrow acts on it.

Arrow believes the sizes that a message states: it asks for that memory, and finds out later that
the bytes are not there. The layout is that of Arrow's ``Message.fbs``, a FlatBuffers document.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

_CONTINUATION = 0xFFFFFFFF
_LARGEST_HEADER = 1 << 16
SCHEMA, RECORD_BATCH = 1, 3
_STORED_AS_IT_IS = -1
_LZ4, _BUFFER_BY_BUFFER = 0, 0
_HIGHEST_RATIO = 255
"""Output bytes that a byte of LZ4 can make, by its format."""


@dataclass(frozen=True)
class Message:
    """One message: its kind, all of its bytes, and where its header and its body begin in them."""

    kind: int
    data: bytes
    header: int
    body: int


def messages(file: IO[bytes], size: int) -> Iterator[Message]:
    """The messages of a stream of ``size`` bytes, up to its end mark.

    No more is read or allocated than the file has. Raises ValueError for what is no such stream.
    """
    left = size
    while True:
        prefix = file.read(8)
        left -= len(prefix)
        if len(prefix) < 8:
            raise ValueError("the stream ends without its end mark")
        mark, length = struct.unpack("<Ii", prefix)
        if mark != _CONTINUATION or not 0 <= length <= min(left, _LARGEST_HEADER):
            raise ValueError(f"a message header of {length} bytes")
        if length == 0:
            break
        message = _read(file, prefix, length, left)
        left -= len(message.data) - len(prefix)
        yield message
    if left:
        raise ValueError(f"{left} bytes after the end mark")


def check_buffers(message: Message) -> None:
    """Raise ValueError unless each buffer lies in the body and unpacks to no more than it can."""
    try:
        batch = _Table(message.data, message.header)
        body = len(message.data) - message.body
        compressed = batch.table(3)
        if compressed is not None and (compressed.byte(0), compressed.byte(1)) != (
            _LZ4,
            _BUFFER_BY_BUFFER,
        ):
            raise ValueError("a compression other than LZ4")
        for offset, length in batch.pairs(2):
            if not (0 <= offset <= body and 0 <= length <= body - offset):
                raise ValueError(f"a buffer of {length} bytes at {offset}, in {body} bytes")
            if compressed is not None and length:
                _check_ratio(message, offset, length)
    except struct.error as error:
        raise ValueError(f"a header that leads out of itself: {error}") from error


def _check_ratio(message: Message, offset: int, length: int) -> None:
    (stated,) = struct.unpack_from("<q", message.data, message.body + offset)
    stored = length - 8
    if stated != _STORED_AS_IT_IS and not 0 <= stated <= stored * _HIGHEST_RATIO:
        raise ValueError(f"{stored} bytes that state to be {stated}")


def _read(file: IO[bytes], prefix: bytes, length: int, left: int) -> Message:
    header = file.read(length)
    data = prefix + header
    try:
        (root,) = struct.unpack_from("<I", data, len(prefix))
        table = _Table(data, len(prefix) + root)
        kind, body = table.byte(1), table.long(3)
        at = table.follow(2)
    except struct.error as error:
        raise ValueError(f"a header that leads out of itself: {error}") from error
    if not 0 <= body <= left - length or at is None:
        raise ValueError(f"a message of {body} bytes, where {left - length} are left")
    return Message(kind, data + file.read(body), at, len(data))


class _Table:
    """A FlatBuffers table: fields by number, each at an offset or not there."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        (back,) = struct.unpack_from("<i", data, at)
        self._fields = self._checked(at - back)
        (self._size,) = struct.unpack_from("<H", data, self._fields)

    def byte(self, field: int) -> int:
        return self._number(field, "<b")

    def long(self, field: int) -> int:
        return self._number(field, "<q")

    def follow(self, field: int) -> int | None:
        """Where the field's own content is."""
        at = self._offset(field)
        return None if at is None else at + int(struct.unpack_from("<I", self._data, at)[0])

    def table(self, field: int) -> _Table | None:
        at = self.follow(field)
        return None if at is None else _Table(self._data, at)

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """A vector of two long numbers each."""
        at = self.follow(field)
        if at is None:
            return
        (number,) = struct.unpack_from("<I", self._data, at)
        for index in range(number):
            yield struct.unpack_from("<qq", self._data, at + 4 + 16 * index)

    def _number(self, field: int, form: str) -> int:
        at = self._offset(field)
        return 0 if at is None else int(struct.unpack_from(form, self._data, at)[0])

    def _offset(self, field: int) -> int | None:
        place = 4 + 2 * field
        if place + 2 > self._size:
            return None
        (offset,) = struct.unpack_from("<H", self._data, self._fields + place)
        return self._at + offset if offset else None

    def _checked(self, at: int) -> int:
        # A negative place would be counted from the end.
        if at < 0:
            raise struct.error(f"place {at}")
        return at
