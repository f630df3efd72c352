"""Rows with the checksums that a query keeps with them if it is told to.

RocksDB has the checksum, the length and the bytes of each value, the HDFS-backed provider the
checksum and the bytes; a deletion has the checksum before its key. What is summed is the key as the
store has it, and the value without all that. Source: apache/spark
``sql/core/.../execution/streaming/state/StateStoreRowChecksum.scala``, ``RocksDB.scala`` and
``HDFSBackedStateStoreProvider.scala``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from statemigrate.checkpoint.rows.buffers import Integers, Rows, joined
from statemigrate.checkpoint.rows.layouts import RowLayout
from statemigrate.checkpoint.rows.unsafe.leaf_decoding import damaged
from statemigrate.checkpoint.rows.wrapped.crc32c import Checksums, crc32c
from statemigrate.checkpoint.rows.wrapped.repeating import Repeated
from statemigrate.checkpoint.rows.wrapped.splitting import Spans, length_of

CHECKSUM = 4
"""Bytes of a checksum."""
_VALUE, _KEY = "a value with its checksum", "a deleted key with its checksum"


def with_checksums(keys: Rows, values: Rows, layout: RowLayout) -> Rows:
    """Values as a store has them; ``keys`` are those of each, as the store has them."""
    found = crc32c(Spans.of(keys), Spans.of(values)).view(np.uint8).reshape(-1, CHECKSUM)
    return joined(found, length_of(values), values) if layout.rocksdb else joined(found, values)


@dataclass(frozen=True)
class Summed:
    """Rows without their checksums: the ``n`` contents, and two checksums of each.

    ``owners`` has for each the index of the row that it was in; ``stored`` is the checksum there,
    ``computed`` that of the bytes.
    """

    content: Spans
    owners: Integers
    stored: Checksums
    computed: Checksums

    @property
    def differing(self) -> Integers:
        """The indices of contents of which the two checksums differ."""
        return np.flatnonzero(self.stored != self.computed)


def summed_values(keys: Rows, values: Rows, layout: RowLayout) -> Summed:
    """Values, each under one of ``keys``. Raises `CorruptFileError` where there is no checksum."""
    spans = Spans.of(values)
    if layout.rocksdb:
        content, owners = Repeated(CHECKSUM, layout.delimiter, _VALUE).parts(spans)
    else:
        content, owners = spans.behind(CHECKSUM, _VALUE), np.arange(len(values))
    before = CHECKSUM + (CHECKSUM if layout.rocksdb else 0)
    stored = Spans(content.data, content.starts - before, content.lengths + before)
    return _summed(stored, content, owners, Spans.of(keys).at(owners), content)


def summed_deletions(keys: Rows) -> Summed:
    """Deleted keys. Raises `CorruptFileError` where one is too short to have a checksum."""
    spans = Spans.of(keys)
    content = spans.behind(CHECKSUM, _KEY)
    return _summed(spans, content, np.arange(len(keys)), content)


def checked_values(keys: Rows, values: Rows, layout: RowLayout) -> tuple[Spans, Integers]:
    """Values without checksums, and for each the index of the key that it is under.

    Raises `CorruptFileError` where a checksum is another.
    """
    found = summed_values(keys, values, layout)
    wrong = found.differing.size
    if wrong:
        raise damaged(_VALUE, "the checksum of key and value", f"another one in {wrong} rows")
    return found.content, found.owners


def with_deletion_checksums(keys: Rows) -> Rows:
    """Keys, as a store has them, as its changelog has those that are deleted."""
    found = crc32c(Spans.of(keys)).view(np.uint8).reshape(-1, CHECKSUM)
    return joined(found, keys)


def _summed(stored: Spans, content: Spans, owners: Integers, *summed: Spans) -> Summed:
    noted = stored.matrix(CHECKSUM, _VALUE).view("<u4")[:, 0]
    return Summed(content, owners, noted, crc32c(*summed))
