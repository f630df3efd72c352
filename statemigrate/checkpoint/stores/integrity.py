"""The checksums of the records of a file, and of the blocks of a table, compared as they are read.

A query with row checksums has one with every record, also with those that later ones replace or
delete. All are compared here: a damaged deletion leaves alive what was deleted, and a damaged
length can hide a whole record within one that is replaced later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from statemigrate.checkpoint.rows import (
    CHECKSUM,
    Bytes,
    Integers,
    RowLayout,
    Rows,
    Spans,
    Summed,
    crc32c,
    summed_deletions,
    summed_values,
    within,
)
from statemigrate.checkpoint.stores.changelog import DELETE, ChangelogRecords, corrupt
from statemigrate.errors import HIDDEN, CorruptFileError, values_hidden

_SHOWN = 64
"""Bytes of a key that an error shows."""


def verified(
    changes: Iterable[ChangelogRecords], layout: RowLayout, path: str
) -> Iterator[ChangelogRecords]:
    """The ``changes`` of the file ``path``, whose deleted keys are without their checksums.

    Values keep theirs, as `ValueCodec` reads them. Raises `CorruptFileError`, with the ``path`` and
    the number of the ``record``, counted from 1, for one whose bytes have another checksum.
    """
    first = 1
    for each in changes:
        yield _Records(each, layout, path, first).verified()
        first += len(each)


class _Records:
    """The ``changes`` of a part of a file; ``first`` is the number of the first."""

    def __init__(self, changes: ChangelogRecords, layout: RowLayout, path: str, first: int) -> None:
        self._changes = changes
        self._layout = layout
        self._path = path
        self._first = first

    def verified(self) -> ChangelogRecords:
        changes = self._changes
        is_deletion = changes.kinds == DELETE
        if not is_deletion.any():
            self._compare_values(changes.keys, changes.values, np.arange(len(changes)))
            return changes
        kept = np.flatnonzero(~is_deletion)
        self._compare_values(changes.keys.take(kept), changes.values.take(kept), kept)
        self._compare_deletions(np.flatnonzero(is_deletion))
        keys, cut = changes.keys, np.where(is_deletion, CHECKSUM, 0)
        without = within(keys.data, keys.starts + cut, keys.lengths - cut)
        return ChangelogRecords(changes.kinds, without, changes.values)

    def _compare_values(self, keys: Rows, values: Rows, places: Integers) -> None:
        try:
            found = summed_values(keys, values, self._layout)
        except CorruptFileError as error:
            raise corrupt(self._path, error) from error
        self._compare(found, keys, places, "a record whose key or value is not what was written")

    def _compare_deletions(self, places: Integers) -> None:
        keys = self._changes.keys.take(places)
        try:
            found = summed_deletions(keys)
        except CorruptFileError as error:
            raise corrupt(self._path, error) from error
        self._compare(
            found, found.content.rows(), places, "a deletion of another key than was written"
        )

    def _compare(self, found: Summed, keys: Rows, places: Integers, what: str) -> None:
        if not found.differing.size:
            return
        index = int(found.differing[0])
        row = int(found.owners[index])
        record = self._first + int(places[row])
        stored, computed = int(found.stored[index]), int(found.computed[index])
        raise CorruptFileError(
            "SM-CHECKPOINT-019",
            f"{self._path} has {what}: record {record:,}",
            expected=f"bytes of the checksum {stored:#010x}, which the record has with it",
            found=f"bytes of the checksum {computed:#010x}, with the key {_shown(keys.row(row))}",
            next_action="restore the file from a copy of the checkpoint; what it says of other "
            "keys cannot be trusted either",
            path=self._path,
            record=record,
            stored=stored,
            computed=computed,
        )


def _shown(key: bytes) -> str:
    if values_hidden():
        return HIDDEN
    return f"0x{key[:_SHOWN].hex()}" + ("…" if len(key) > _SHOWN else "")


# The checksums of the blocks of RocksDB's tables, compared before a block is unpacked.
#
# A checksum covers a block and the byte behind it, which says how the block is compressed. Format:
# ``ComputeBuiltinChecksumWithLastByte`` in ``table/format.cc`` of facebook/rocksdb.


_NONE, _CRC32C, _XXHASH32, _XXHASH64, _XXH3 = range(5)
_PRIME = 0x6B9083D9
_MASK = np.uint32(0xA282EAD8)
_CHECKSUM = 4
Fits = npt.NDArray[np.bool_]


def matching(kind: int, data: Bytes, starts: Integers, sizes: Integers) -> Fits | None:
    """For each block of a table whether its checksum is that of its bytes.

    None where the table says a ``kind`` of checksum that is not known. The blocks, their last byte
    and their checksum must lie within ``data``.
    """
    stored = within(data, starts + sizes + 1, np.full(starts.size, _CHECKSUM)).data.view("<u4")
    if kind == _NONE:
        return np.ones(starts.size, bool)
    if kind == _CRC32C:
        found = crc32c(Spans(data, starts, sizes + 1))
        masked = ((found >> np.uint32(15)) | (found << np.uint32(17))) + _MASK
        return np.asarray(masked == stored, np.bool_)
    if kind in (_XXHASH32, _XXHASH64, _XXH3):
        numbers, view = zip(starts.tolist(), sizes.tolist(), strict=True), data.data
        hashes = [_hash(kind, view, start, size) for start, size in numbers]
        return np.asarray(np.array(hashes, np.uint32) == stored, np.bool_)
    return None


def _hash(kind: int, data: memoryview, start: int, size: int) -> int:
    import xxhash

    end = start + size
    if kind == _XXHASH32:
        return int(xxhash.xxh32_intdigest(data[start : end + 1]))
    if kind == _XXHASH64:
        return int(xxhash.xxh64_intdigest(data[start : end + 1])) & 0xFFFFFFFF
    # The last byte is not hashed, but changes the checksum.
    last = int(data[end]) * _PRIME
    return (int(xxhash.xxh3_64_intdigest(data[start:end])) ^ last) & 0xFFFFFFFF
