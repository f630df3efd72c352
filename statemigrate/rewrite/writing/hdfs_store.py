"""A store of the HDFS-backed provider, written as one snapshot."""

from __future__ import annotations

from pathlib import Path

from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.stores.hdfs_files import SnapshotWriter


class HdfsStore:
    """Writes version ``version`` of a store below ``scratch``, a new folder."""

    def __init__(self, scratch: Path, version: int, codec: str) -> None:
        scratch.mkdir()
        self._name = f"{version}.snapshot"
        self._path = scratch / self._name
        self._sink = self._path.open("xb")
        self._snapshot = SnapshotWriter(self._sink, codec)

    def put(self, keys: Rows, values: Rows) -> None:
        """Take more rows, whose keys come once."""
        self._snapshot.put(keys, values)

    def close(self) -> dict[str, Path | bytes]:
        """End it; the file by its name below the store."""
        self._snapshot.close()
        self._sink.close()
        return {self._name: self._path}
