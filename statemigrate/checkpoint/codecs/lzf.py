"""LZF in chunks, as ``LZFOutputStream`` of compress-lzf frames them.

A chunk is ``ZV``, 0 and a length for plain content, or 1 and two lengths, in the file and of the
content, all big-endian in two bytes. In LZF a byte below 32 says how many bytes follow as they are;
any other begins a reference into what is there already. It is rare for state: it is read without
haste, and written plain, which every reader takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from statemigrate.checkpoint.codecs.byte_reader import exactly, joined_in_pieces, up_to

MOST = 128
"""Bytes of content that a byte in the file may make; LZF makes 88 at best."""
_MAGIC = b"ZV"
_CHUNK = 0xFFFF


def decompressed(source: BinaryIO) -> Iterator[bytes]:
    """The content of all chunks. Raises ValueError for what is damaged or ends too early."""
    yield from joined_in_pieces(_contents(source))


def _contents(source: BinaryIO) -> Iterator[bytes]:
    while header := up_to(source, 5):
        if len(header) < 5 or header[:2] != _MAGIC or header[2] > 1:
            raise ValueError("no chunk of LZF")
        length = int.from_bytes(header[3:5])
        if header[2] == 0:
            yield exactly(source, length)
        else:
            size = int.from_bytes(exactly(source, 2))
            yield _content(exactly(source, length), size)


class Writer:
    """Plain chunks."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take more bytes."""
        view = memoryview(data)
        for at in range(0, len(view), _CHUNK):
            chunk = view[at : at + _CHUNK]
            self._sink.write(_MAGIC + b"\0" + len(chunk).to_bytes(2) + chunk)

    def close(self) -> None:
        """Write what is left."""
        pass


def _content(data: bytes, size: int) -> bytes:
    found = bytearray()
    at = 0
    try:
        while at < len(data):
            first = data[at]
            if first < 32:
                at += 1
                found += data[at : at + first + 1]
                at += first + 1
            else:
                length, back, at = _reference(data, at)
                _repeat(found, back, length)
    except IndexError as error:
        raise ValueError("a chunk of LZF that ends too early") from error
    if len(found) != size or at != len(data):
        raise ValueError(f"a chunk of LZF of {len(found)} bytes for {size}")
    return bytes(found)


def _reference(data: bytes, at: int) -> tuple[int, int, int]:
    """How many bytes, from how far back, and where the next instruction is."""
    first = data[at]
    length, high = first >> 5, (first & 0x1F) << 8
    at += 1
    if length == 7:
        length += data[at]
        at += 1
    return length + 2, high + data[at] + 1, at + 1


def _repeat(found: bytearray, back: int, length: int) -> None:
    start = len(found) - back
    if start < 0:
        raise ValueError("a chunk of LZF that refers to what was before it")
    # What is repeated may be still in the making.
    for offset in range(length):
        found.append(found[start + offset])
