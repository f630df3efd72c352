"""The files of Spark's HDFS-backed provider: ``<version>.snapshot`` and ``<version>.delta``.

Both have records without a header, compressed. A snapshot has all keys of its version, a delta what
the batch changed. Format: ``HDFSBackedStateStoreProvider.scala`` of apache/spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from statemigrate.checkpoint.codecs import compressing, decompressed, most_content
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.stores.changelog import (
    PUT,
    Changes,
    corrupt,
    end_of_records,
    flat,
    read_records,
    records,
)


def read_state_file(source: BinaryIO, codec: str, path: str) -> Iterator[Changes]:
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
