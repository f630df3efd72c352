"""Values gathered into blocks: so many at most, and no more bytes than memory has room for.

A number alone is no bound: a thousand values are some kilobytes, or gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")
BYTES_IN_BLOCK = 16 << 20
"""Bytes with which a block is full; its last entry may take it beyond."""
_PLAIN = 8
_PLAIN_TYPES = frozenset((int, float, bool, type(None)))


def size_of(value: Any) -> int:
    """About how many bytes a plain value takes: text and binary count, and what is in others."""
    # Called for every value: the types that most of them have come first.
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value)
    if kind in _PLAIN_TYPES:
        return _PLAIN
    if isinstance(value, list | tuple):
        return _PLAIN + sum(map(size_of, value))
    if isinstance(value, dict):
        return _PLAIN + sum(map(size_of, value)) + sum(map(size_of, value.values()))
    return len(value) if isinstance(value, str | bytes | bytearray) else _PLAIN


def record_size(record: tuple[bytes, bytes]) -> int:
    """The bytes of a key and a value that are encoded."""
    return len(record[0]) + len(record[1])


def block_of(
    entries: Iterator[T], most: int, size: Callable[[T], int] = size_of
) -> tuple[list[T], bool]:
    """The next entries, ``most`` of them, or fewer if these are full; and whether that is all."""
    block: list[T] = []
    room = BYTES_IN_BLOCK
    for entry in islice(entries, most):
        block.append(entry)
        room -= size(entry)
        if room <= 0:
            return block, False
    return block, len(block) < most


def in_blocks(
    entries: Iterator[T], most: int, size: Callable[[T], int] = size_of
) -> Iterator[list[T]]:
    """All entries in blocks, each of ``most`` or fewer."""
    is_end = False
    while not is_end:
        block, is_end = block_of(entries, most, size)
        if block:
            yield block


def arrow_blocks(batch: Any, most: int | None = None) -> Iterator[Any]:
    """The rows of an Arrow batch in slices of ``most`` or fewer, each within the bytes of a block.

    A row that is larger is one by itself.
    """
    step = batch.num_rows if most is None else most
    for start in range(0, batch.num_rows, step or 1):
        yield from _halved(batch.slice(start, step))


def _halved(batch: Any) -> Iterator[Any]:
    if batch.num_rows <= 1 or batch.nbytes <= BYTES_IN_BLOCK:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _halved(batch.slice(0, half))
    yield from _halved(batch.slice(half))
