"""One version of a store of the HDFS-backed provider: its snapshot, and the deltas since, as one.

The files are ``<version>.snapshot`` and ``<version>.delta``. Both have records without a header,
compressed. A snapshot has all keys of its version, a delta what the batch changed. Format:
``HDFSBackedStateStoreProvider.scala`` of apache/spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.checkpoint.codecs import compressing, decompressed, most_content
from statemigrate.checkpoint.logs import codec_of
from statemigrate.checkpoint.rows import RowLayout, Rows
from statemigrate.checkpoint.stores.changelog import (
    PUT,
    ChangelogRecords,
    among,
    corrupt,
    end_of_records,
    flat,
    fold_state,
    read_records,
    records,
)
from statemigrate.checkpoint.stores.files import StoreVersion
from statemigrate.checkpoint.stores.partition_reader import opened, without_checksums
from statemigrate.files import Files
from statemigrate.numpy_arrays import numpy_array


class HdfsState:
    """The keys and values of one partition of a store as of a version, in no order.

    ``conf`` are the settings that are pinned to the query. Methods raise `CorruptFileError` for a
    damaged file.
    """

    def __init__(self, files: Files, version: StoreVersion, conf: Mapping[str, str]) -> None:
        self._files, self._version, self._conf = files, version, conf

    def rows(
        self,
        start: bytes = b"",
        stop: bytes | None = None,
        *,
        values: bool = True,  # noqa: ARG002 - a record has both
    ) -> Iterator[tuple[Rows, Rows]]:
        """Keys from ``start`` up to ``stop``, without it, and their values.

        Some at a time where the version is a snapshot and nothing else, else all at once. They come
        with their ``values`` in any case.
        """
        for keys, contents in self._all():
            if not start and stop is None:
                yield keys, contents
            else:
                places = _between(keys, start, stop)
                yield keys.take(places), contents.take(places)

    def find(self, keys: Rows) -> tuple[Rows, Rows]:
        """Those of ``keys`` that are there, with their values."""
        parts = []
        for found, values in self._all():
            places = among(found, keys)
            parts.append((found.take(places), values.take(places)))
        return Rows.concat([each for each, _ in parts]), Rows.concat([each for _, each in parts])

    def keys_in(self, names: Collection[str]) -> None:
        """None: versions share no files but those of changes."""

    def check(self) -> None:
        """Read all rows."""
        for _ in self._all():
            pass

    def _all(self) -> Iterator[tuple[Rows, Rows]]:
        version = self._version
        names = [*filter(None, [version.snapshot]), *version.changes]
        changes = read_state_files(self._files, names, self._conf)
        if version.snapshot is not None and not version.changes:
            for each in changes:
                yield each.keys, each.values
        else:
            yield fold_state(changes, self._conf)


def _between(keys: Rows, start: bytes, stop: bytes | None) -> np.ndarray:
    found = keys.to_arrow()
    inside = pc.greater_equal(found, pa.scalar(start, found.type))
    if stop is not None:
        inside = pc.and_(inside, pc.less(found, pa.scalar(stop, found.type)))
    return np.flatnonzero(numpy_array(inside))


def read_state_files(
    files: Files, names: Sequence[str], conf: Mapping[str, str]
) -> Iterator[ChangelogRecords]:
    """What some snapshots and deltas have, in their order, deleted keys without checksums.

    Raises `CorruptFileError` for a damaged file, also where a row has another checksum.
    """
    layout = RowLayout.of(conf, rocksdb=False)
    for name in names:
        with opened(files, name) as source:
            path = f"{files.location}/{name}"
            found = read_state_file(source, codec_of(conf), path)
            yield from without_checksums(found, layout, path)


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
