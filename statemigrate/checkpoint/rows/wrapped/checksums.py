"""Rows with the checksums that a query keeps with them if it is told to.

RocksDB has the checksum, the length and the bytes of each value, the HDFS-backed provider the
checksum and the bytes; a deletion has the checksum before its key. What is summed is the key as the
store has it, and the value without all that. Source: apache/spark
``sql/core/.../execution/streaming/state/StateStoreRowChecksum.scala``, ``RocksDB.scala`` and
``HDFSBackedStateStoreProvider.scala``.
"""

from __future__ import annotations

import numpy as np

from statemigrate.checkpoint.rows.buffers import Integers, Rows, joined
from statemigrate.checkpoint.rows.layouts import RowLayout
from statemigrate.checkpoint.rows.unsafe.leaf_decoding import damaged
from statemigrate.checkpoint.rows.wrapped.crc32c import crc32c
from statemigrate.checkpoint.rows.wrapped.repeating import Repeated
from statemigrate.checkpoint.rows.wrapped.splitting import Spans, length_of

_CHECKSUM = 4
_VALUE, _KEY = "a value with its checksum", "a deleted key with its checksum"


def with_checksums(keys: Rows, values: Rows, layout: RowLayout) -> Rows:
    """Values as a store has them; ``keys`` are those of each, as the store has them."""
    found = crc32c(Spans.of(keys), Spans.of(values)).view(np.uint8).reshape(-1, _CHECKSUM)
    return joined(found, length_of(values), values) if layout.rocksdb else joined(found, values)


def checked_values(keys: Rows, values: Rows, layout: RowLayout) -> tuple[Spans, Integers]:
    """Values without checksums, and for each the index of the key that it is under.

    Raises `CorruptFileError` where a checksum is another.
    """
    spans = Spans.of(values)
    if layout.rocksdb:
        content, owners = Repeated(_CHECKSUM, layout.delimiter, _VALUE).parts(spans)
    else:
        content, owners = spans.behind(_CHECKSUM, _VALUE), np.arange(len(values))
    before = _CHECKSUM + (_CHECKSUM if layout.rocksdb else 0)
    noted = Spans(content.data, content.starts - before, content.lengths + before)
    _compare(noted, Spans.of(keys).at(owners), content)
    return content, owners


def with_deletion_checksums(keys: Rows) -> Rows:
    """Keys, as a store has them, as its changelog has those that are deleted."""
    found = crc32c(Spans.of(keys)).view(np.uint8).reshape(-1, _CHECKSUM)
    return joined(found, keys)


def checked_deletions(keys: Rows) -> Rows:
    """Deleted keys without their checksums. Raises `CorruptFileError` where one is another."""
    spans = Spans.of(keys)
    content = spans.behind(_CHECKSUM, _KEY)
    _compare(spans, content)
    return content.rows()


def _compare(noted: Spans, *summed: Spans) -> None:
    found = crc32c(*summed)
    told = noted.matrix(_CHECKSUM, _VALUE).view("<u4")[:, 0]
    if bool((found != told).any()):
        wrong = int((found != told).sum())
        raise damaged(_VALUE, "the checksum of key and value", f"another one in {wrong} rows")
