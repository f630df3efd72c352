"""The codecs of Spark's state files, in the framings that Spark's Java libraries give them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import BinaryIO, Protocol

from statemigrate.errors import UnsupportedError

_CODECS = ("lz4", "lzf", "snappy", "zstd")


class Compressor(Protocol):
    """Writes bytes compressed to a file, which stays open."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take more bytes; what is written of them, and when, is the codec's affair."""

    def close(self) -> None:
        """Write what is left, and the end."""


def decompressed(codec: str, source: BinaryIO) -> Iterator[bytes]:
    """The bytes in a file from where ``source`` is to its end, in pieces of some megabytes at most.

    ``codec`` is ``lz4``, ``lzf``, ``snappy`` or ``zstd``. Raises `UnsupportedError` for another
    one, and ValueError, while it is read, for a file that is damaged or ends too early.
    """
    found: Iterator[bytes] = _module(codec).decompressed(source)
    return found


def most_content(codec: str, source: BinaryIO) -> int:
    """The bytes that what is left of a file can become at most. Raises as `decompressed`."""
    at = source.tell()
    left = source.seek(0, os.SEEK_END) - at
    source.seek(at)
    most: int = left * _module(codec).MOST
    return most


def compressing(codec: str, sink: BinaryIO) -> Compressor:
    """A writer to ``sink``. Raises `UnsupportedError` for a codec that is not known."""
    found: Compressor = _module(codec).Writer(sink)
    return found


def _module(codec: str):  # type: ignore[no-untyped-def]  # a module has no type that says this
    if codec not in _CODECS:
        raise UnsupportedError(
            "SM-STATE-017",
            f"state files of the codec {codec!r} are not understood",
            expected="lz4, lzf, snappy or zstd",
            found=codec,
            next_action="such files can only be read by the Spark and the classes that wrote them",
        )
    # Most of them load Arrow, which commands that only look at names do without.
    return import_module(f"{__name__}.{codec}")
