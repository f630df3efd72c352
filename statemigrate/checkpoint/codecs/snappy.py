"""Snappy in blocks, as ``SnappyOutputStream`` of snappy-java frames them; no Snappy frame.

A stream begins with ``82 "SNAPPY" 00``, a version, and the oldest version that can read it. Then
each block has its length, big-endian, and what Snappy makes of it. Another stream may follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from statemigrate.checkpoint.codecs.byte_reader import exactly, joined_in_pieces, up_to

MOST = 64
"""Bytes of content that a byte in the file may make; Snappy makes 21 at best."""
_MAGIC = b"\x82SNAPPY\0"
_VERSIONS = b"\0\0\0\1\0\0\0\1"
_BLOCK = 1 << 15
"""Content of a block; Spark's ``spark.io.compression.snappy.blockSize``."""
_LARGEST = 1 << 29
"""Content of a block that snappy-java would write."""


def decompressed(source: BinaryIO) -> Iterator[bytes]:
    """The content of all blocks. Raises ValueError for what is damaged or ends too early."""
    _check_header(exactly(source, 8), source)
    yield from joined_in_pieces(_contents(source))


def _contents(source: BinaryIO) -> Iterator[bytes]:
    while first := up_to(source, 4):
        if first == _MAGIC[:4]:
            _check_header(first + exactly(source, 4), source)
            continue
        if len(first) < 4:
            raise ValueError("the file ends too early")
        yield _content(exactly(source, int.from_bytes(first)))


class Writer:
    """The header, then blocks of 32 KiB."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._codec = pa.Codec("snappy")
        self._waiting = bytearray()
        sink.write(_MAGIC + _VERSIONS)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take more bytes."""
        self._waiting += data
        whole = len(self._waiting) - len(self._waiting) % _BLOCK
        self._write_blocks(bytes(self._waiting[:whole]))
        del self._waiting[:whole]

    def close(self) -> None:
        """Write what is left."""
        self._write_blocks(bytes(self._waiting))
        self._waiting.clear()

    def _write_blocks(self, data: bytes) -> None:
        for at in range(0, len(data), _BLOCK):
            body = self._codec.compress(data[at : at + _BLOCK], asbytes=True)
            self._sink.write(len(body).to_bytes(4) + body)


def _check_header(magic: bytes, source: BinaryIO) -> None:
    if magic != _MAGIC or exactly(source, 8)[4:] != _VERSIONS[4:]:
        raise ValueError("no stream of snappy-java")


def _content(block: bytes) -> bytes:
    size = _noted_size(block)
    if size > _LARGEST or size > MOST * len(block):
        raise ValueError(f"a block of Snappy of {size:,} bytes")
    try:
        return pa.Codec("snappy").decompress(block, size, asbytes=True)  # type: ignore[no-any-return]
    except OSError as error:
        raise ValueError(f"a damaged block of Snappy: {error}") from error


def _noted_size(block: bytes) -> int:
    """A number in groups of seven bits, the lowest first."""
    size = 0
    for place, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return size
    raise ValueError("a block of Snappy without a size")
