"""LZ4 in blocks, as ``LZ4BlockOutputStream`` of lz4-java frames them; no LZ4 frame.

A block is ``LZ4Block``, a byte with the method (0x10 plain, 0x20 compressed) and the block size,
and three numbers, little-endian: bytes in the file, bytes of content, and the checksum of the
content. An empty block ends a stream; another stream may follow.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from statemigrate.checkpoint.codecs.byte_reader import PIECE, exactly, up_to

_MAGIC = b"LZ4Block"
_HEADER = struct.Struct("<8sBIII")
_PLAIN, _COMPRESSED = 0x10, 0x20
_BLOCK = 1 << 15
"""Content of a block; Spark's ``spark.io.compression.lz4.blockSize``."""
_LEVEL = 5
"""How the block size is noted: 2 to the power of 10 and this."""
_SEED = 0x9747B28C
_MASK = 0x0FFFFFFF
MOST = 255
"""Bytes of content that a byte in the file makes at best: one more of a match's length."""


@dataclass(frozen=True)
class _Block:
    method: int
    size: int
    checksum: int
    data: bytes

    @property
    def content(self) -> bytes:
        if self.method == _PLAIN:
            if len(self.data) != self.size:
                raise ValueError(f"a plain block of {len(self.data)} bytes for {self.size}")
            return self.data
        try:
            return pa.Codec("lz4_raw").decompress(self.data, self.size, asbytes=True)  # type: ignore[no-any-return]
        except OSError as error:
            raise ValueError(f"a damaged block of LZ4: {error}") from error


def checksum_of(content: bytes) -> int:
    """The checksum in the frame of a block: 28 bits of XXH32."""
    import xxhash

    return int(xxhash.xxh32_intdigest(content, _SEED)) & _MASK


def decompressed(source: BinaryIO) -> Iterator[bytes]:
    """The content of all blocks. Raises ValueError for what is damaged or ends too early."""
    for blocks in _pieces(_blocks(source)):
        contents = [block.content for block in blocks]
        found = [checksum_of(content) for content in contents]
        if found != [block.checksum for block in blocks] or any(
            len(content) != block.size for content, block in zip(contents, blocks, strict=True)
        ):
            raise ValueError("a block of LZ4 whose checksum is another one")
        yield b"".join(contents)


class Writer:
    """Blocks of 32 KiB, then the end."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._codec = pa.Codec("lz4_raw")
        self._waiting = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take more bytes."""
        self._waiting += data
        if len(self._waiting) >= PIECE:
            whole = len(self._waiting) - len(self._waiting) % _BLOCK
            self._write_blocks(bytes(self._waiting[:whole]))
            del self._waiting[:whole]

    def close(self) -> None:
        """Write what is left."""
        self._write_blocks(bytes(self._waiting))
        self._waiting.clear()
        self._sink.write(_HEADER.pack(_MAGIC, _PLAIN | _LEVEL, 0, 0, 0))

    def _write_blocks(self, data: bytes) -> None:
        contents = [data[at : at + _BLOCK] for at in range(0, len(data), _BLOCK)]
        for content in contents:
            compressed = self._codec.compress(content, asbytes=True)
            smaller = len(compressed) < len(content)
            method, body = (_COMPRESSED, compressed) if smaller else (_PLAIN, content)
            sizes = len(body), len(content), checksum_of(content)
            self._sink.write(_HEADER.pack(_MAGIC, method | _LEVEL, *sizes) + body)


def _pieces(blocks: Iterable[_Block]) -> Iterator[list[_Block]]:
    """Blocks whose content is handled at once: as many as make a piece, and one at least."""
    found: list[_Block] = []
    size = 0
    for block in blocks:
        if found and size + block.size > PIECE:
            yield found
            found, size = [], 0
        found.append(block)
        size += block.size
    if found:
        yield found


def _blocks(source: BinaryIO) -> Iterator[_Block]:
    is_ended = False
    while header := up_to(source, _HEADER.size):
        if len(header) < _HEADER.size:
            raise ValueError("the file ends too early")
        magic, token, length, size, checksum = _HEADER.unpack(header)
        method, largest = token & 0xF0, 1 << (10 + (token & 0x0F))
        known = magic == _MAGIC and method in (_PLAIN, _COMPRESSED)
        if not known or size > largest or length > 2 * largest:
            raise ValueError("no block of LZ4Block")
        if size > MOST * length:
            raise ValueError(f"a block of LZ4 of {size:,} bytes made of {length:,}")
        is_ended = size == 0
        if not is_ended:
            yield _Block(method, size, checksum, exactly(source, length))
        elif length or checksum:
            raise ValueError("an end of LZ4Block with content")
    if not is_ended:
        raise ValueError("the file ends too early")
