"""Zstandard, in its standard frames, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from statemigrate.checkpoint.codecs.byte_reader import PIECE

MOST = 1 << 15
"""Bytes of content that a byte in the file makes at best: 128 KiB of a block of four bytes."""


def decompressed(source: BinaryIO) -> Iterator[bytes]:
    """The bytes of all frames. Raises ValueError for what is damaged or ends too early."""
    # Arrow closes what it reads from; the file is its caller's.
    opened = pa.PythonFile(_Unclosed(source), mode="r")
    try:
        with pa.CompressedInputStream(opened, "zstd") as stream:
            while piece := stream.read(PIECE):
                yield piece
    except OSError as error:
        raise ValueError(f"not whole frames of Zstandard: {error}") from error


class Writer:
    """One frame."""

    def __init__(self, sink: BinaryIO) -> None:
        self._stream = pa.CompressedOutputStream(pa.PythonFile(_Unclosed(sink), mode="w"), "zstd")

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take more bytes."""
        self._stream.write(data)

    def close(self) -> None:
        """Write what is left."""
        self._stream.close()


class _Unclosed:
    """A file that its user cannot close."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass
