"""The state of one partition of a store, read from its files without Spark.

All of the HDFS-backed provider, and the changelogs of the RocksDB provider, whose tables
`rocksdb_state` reads.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from statemigrate.checkpoint.codecs import compressing, decompressed, most_content
from statemigrate.checkpoint.logs.entries import (
    MERGE_OPERATOR,
    codec_of,
    has_checksums,
    is_rocksdb,
    pinned,
)
from statemigrate.checkpoint.rows.buffers import Rows, joined, numpy_array, within
from statemigrate.checkpoint.rows.wrapping import RowLayout
from statemigrate.checkpoint.stores.changelog import (
    DELETE,
    MERGE,
    PUT,
    ChangelogRecords,
    corrupt,
    end_of_records,
    flat,
    read_changelog,
    read_records,
    records,
)
from statemigrate.checkpoint.stores.files import Snapshot, StoreVersion, read_snapshot
from statemigrate.checkpoint.stores.integrity import verified
from statemigrate.files import Files

# The files of Spark's HDFS-backed provider: ``<version>.snapshot`` and ``<version>.delta``.
#
# Both have records without a header, compressed. A snapshot has all keys of its version, a delta
# what the batch changed. Format: ``HDFSBackedStateStoreProvider.scala`` of apache/spark.


def read_state_file(source: BinaryIO, codec: str, path: str) -> Iterator[ChangelogRecords]:
    """The records of a snapshot or delta; ``path`` is for messages.

    Raises `CorruptFileError` for a damaged file, `UnsupportedError` for an unknown codec.
    """
    try:
        most = most_content(codec, source)
        yield from read_records(decompressed(codec, source), typed=False, most=most)
    except ValueError as error:
        raise corrupt(path, error) from error


class SnapshotWriter:
    """Writes the snapshot of a version."""

    def __init__(self, sink: BinaryIO, codec: str) -> None:
        self._out = compressing(codec, sink)

    def put(self, keys: Rows, values: Rows) -> None:
        """Take more keys, each once, with their values."""
        rows = records(PUT, keys, values, typed=False)
        self._out.write(flat(rows))

    def close(self) -> None:
        """Write the end; the file stays open."""
        self._out.write(end_of_records(typed=False))
        self._out.close()


# What is left of changes, one after the other: each key once, with its value.
#
# A delete, or a new value, ends what was before; what is merged comes after it. Keys are compared
# and gathered by Arrow and numpy, without a loop over rows. What is left of a partition is in
# memory at once, as it is in Spark's HDFS-backed provider; changes are folded as they come, so that
# what later ones replace is not, however large the files unpack.


Indices = npt.NDArray[np.int64]
WAITING = 4 << 20
"""Bytes of changes that wait to be folded, or as many as twice what was left of those before."""

_EACH = 128
"""Bytes of the numbers by which a change is found and compared, whatever it has."""


def fold(changes: Iterable[ChangelogRecords], *, separator: bytes = b"") -> tuple[Rows, Rows]:
    """The keys that are there after all ``changes``, in no order, and the value of each.

    Values that were merged stand after each other with ``separator`` between, as RocksDB's own
    operator of the pinned version has them.
    """
    parts: list[ChangelogRecords] = []
    waiting, most = 0, WAITING
    for each in changes:
        parts.append(each)
        waiting += _size(each)
        if waiting > most:
            # Folding again costs as much as what is left: each time there is twice as much before.
            keys, values = _folded(parts, separator)
            parts = [ChangelogRecords(np.full(len(keys), PUT, np.uint8), keys, values)]
            waiting, most = 0, max(WAITING, 2 * _size(parts[0]))
    return _folded(parts, separator)


def _size(changes: ChangelogRecords) -> int:
    """The bytes that changes take in memory, with those that folding takes for each."""
    held = (changes.keys.offsets, changes.values.offsets)
    return int(sum(offsets[-1] - offsets[0] for offsets in held)) + _EACH * len(changes)


def _folded(parts: list[ChangelogRecords], separator: bytes) -> tuple[Rows, Rows]:
    if not parts:
        return Rows.from_list([]), Rows.from_list([])
    whole = ChangelogRecords(
        np.concatenate([each.kinds for each in parts]),
        Rows.concat([each.keys for each in parts]),
        Rows.concat([each.values for each in parts]),
    )
    return _left(whole, separator)


def _left(changes: ChangelogRecords, separator: bytes) -> tuple[Rows, Rows]:
    identities = changes.keys.to_arrow().dictionary_encode()
    key_of = numpy_array(identities.indices).astype(np.int64)
    order = np.arange(len(changes))
    # The last record of each key that does not merge: what is before it counts no more.
    floor = np.full(len(identities.dictionary), -1, np.int64)
    is_merge = changes.kinds == MERGE
    floor[key_of[~is_merge]] = order[~is_merge]
    kept = (order >= floor[key_of]) & (changes.kinds != DELETE)
    chosen = order[kept]
    chosen = chosen[np.argsort(key_of[chosen], kind="stable")]
    keys, starts = _first_of_each(key_of[chosen])
    values = _join_runs(changes.values.take(chosen), starts, separator)
    return changes.keys.take(chosen[starts]), values if len(keys) else Rows.from_list([])


def _first_of_each(sorted_keys: Indices) -> tuple[Indices, Indices]:
    found, starts = np.unique(sorted_keys, return_index=True)
    return found, starts


def _join_runs(values: Rows, starts: Indices, separator: bytes) -> Rows:
    """The values from each of ``starts`` up to the next, in one."""
    if len(starts) == len(values):
        return values
    if not separator:
        return Rows(values.data, values.offsets[np.append(starts, len(values))])
    joined_values = joined(values, separator)
    ends = joined_values.offsets[np.append(starts[1:], len(joined_values))] - len(separator)
    return _cut(joined_values, joined_values.offsets[starts], ends)


def _cut(rows: Rows, starts: Indices, ends: Indices) -> Rows:
    return within(rows.data, starts, ends - starts)


def read_hdfs_state(
    files: Files, version: StoreVersion, conf: Mapping[str, str]
) -> Iterator[tuple[Rows, Rows]]:
    """The keys and values of a version of the HDFS-backed provider, as they are in its files.

    A batch at a time where the version is a snapshot and nothing else, else all at once. ``conf``
    are the pinned settings. Raises `CorruptFileError` for a damaged file.
    """
    if version.snapshot is not None and not version.changes:
        for each in _state_files(files, [version.snapshot], conf):
            yield each.keys, each.values
        return
    changes = _state_files(files, [*filter(None, [version.snapshot]), *version.changes], conf)
    yield fold_state(changes, conf)


def read_changes(
    files: Files, version: StoreVersion, conf: Mapping[str, str]
) -> Iterator[ChangelogRecords]:
    """What the changelogs of a version have, in their order, deleted keys without checksums.

    Raises `CorruptFileError` for a damaged file, also where a row has another checksum.
    """
    for name in version.changes:
        with _opened(files, name) as source:
            path = f"{files.location}/{name}"
            yield from _verified(read_changelog(source, codec_of(conf), path).changes, conf, path)


def read_state_changes(
    files: Files, names: Sequence[str], conf: Mapping[str, str]
) -> Iterator[ChangelogRecords]:
    """What some changelogs or deltas of either provider have. Raises as `read_changes`."""
    if not is_rocksdb(conf):
        return _state_files(files, list(names), conf)
    version = StoreVersion("", 0, None, tuple(names))
    return read_changes(files, version, conf)


def snapshot_of(files: Files, version: StoreVersion) -> Snapshot | None:
    """What the snapshot of a version says of itself; None where it has none."""
    if version.snapshot is None:
        return None
    with _opened(files, version.snapshot) as source:
        return read_snapshot(source, f"{files.location}/{version.snapshot}")


def _state_files(
    files: Files, names: list[str], conf: Mapping[str, str]
) -> Iterator[ChangelogRecords]:
    for name in names:
        with _opened(files, name) as source:
            path = f"{files.location}/{name}"
            yield from _verified(read_state_file(source, codec_of(conf), path), conf, path)


def _verified(
    changes: Iterator[ChangelogRecords], conf: Mapping[str, str], path: str
) -> Iterator[ChangelogRecords]:
    return verified(changes, RowLayout.of(conf), path) if has_checksums(conf) else changes


def fold_state(changes: Iterator[ChangelogRecords], conf: Mapping[str, str]) -> tuple[Rows, Rows]:
    """What is left of all ``changes`` of a version."""
    return fold(changes, separator=b"," if pinned(conf, MERGE_OPERATOR) == "1" else b"")


@contextmanager
def _opened(files: Files, name: str) -> Iterator[BinaryIO]:
    found = files.find(name)
    if found is None:
        raise FileNotFoundError(f"{files.location}/{name}")
    with tempfile.TemporaryDirectory(prefix="statemigrate-") as folder:
        target = Path(folder, "file")
        files.fetch(name, target, most=found.size, shared=True)
        with target.open("rb") as source:
            yield source
