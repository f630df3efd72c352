"""Rows as RocksDB's own tables, which Spark opens instead of replaying them one by one.

Rows are sorted a run at a time, and each run becomes an SST file. RocksDB itself takes the files
into a database, whose small files are the snapshot's zip; the tables go beside it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.stores.rocksdb_files import SharedFile, Snapshot, written_snapshot
from statemigrate.errors import RewriteError

_MOST_RUNS = 8
"""Tables whose keys overlap, beyond which RocksDB is asked to merge them: each costs every read."""
_MANY = 20_000
_FORMAT = 5
"""The version of tables that every Spark with a RocksDB provider reads."""


@dataclass(frozen=True)
class Tables:
    """The ``snapshot`` file, and by its name below the store each table."""

    snapshot: bytes
    shared: Mapping[str, Path]


class SortedTables:
    """Collects runs in ``scratch``, a new folder."""

    def __init__(self, scratch: Path) -> None:
        scratch.mkdir()
        self._database = scratch / "database"
        self._scratch = scratch
        self._runs: list[Path] = []

    def add(self, keys: Rows, values: Rows) -> None:
        """Write a run. Raises `RewriteError` for two rows under one key."""
        from rocksdict import SstFileWriter

        keys, values = _in_order(keys, values)
        path = self._scratch / f"{len(self._runs)}.sst"
        with _translated():
            writer = SstFileWriter(options=_options())
            writer.open(str(path))
            for start in range(0, len(keys), _MANY):
                part = slice(start, start + _MANY)
                for key, value in zip(_list(keys, part), _list(values, part), strict=True):
                    writer[key] = value
            writer.finish()
        self._runs.append(path)

    def close(
        self, keys: int, internal_keys: int, families: Mapping[str, int], internal: Collection[str]
    ) -> Tables:
        """Make the snapshot of all runs, which have ``keys`` rows and ``internal_keys`` others."""
        self._take_in()
        shared = []
        paths: dict[str, Path] = {}
        for path in sorted(self._database.glob("*.sst")):
            name = f"SSTs/{path.stem}-{uuid.uuid4()}.sst"
            shared.append(SharedFile(name, path.name, path.stat().st_size))
            paths[name] = path
        told = Snapshot(tuple(shared), keys, internal_keys, families, frozenset(internal))
        small = {
            path.name: path.read_bytes()
            for pattern in ("MANIFEST-*", "CURRENT", "OPTIONS-*")
            for path in sorted(self._database.glob(pattern))
        }
        return Tables(written_snapshot(told, small), paths)

    def _take_in(self) -> None:
        from rocksdict import IngestExternalFileOptions, Rdict

        moving = IngestExternalFileOptions()
        moving.set_move_files(True)
        with _translated():
            database: Any = Rdict(str(self._database), _options())
            database.ingest_external_file([str(path) for path in self._runs], moving)
            if len(self._runs) > _MOST_RUNS:
                database.compact_range(None, None)
            database.close()


def _in_order(keys: Rows, values: Rows) -> tuple[Rows, Rows]:
    """The rows in the order of their keys, in which those of another table come already."""
    found = keys.to_arrow()
    if pc.all(pc.less(found[:-1], found[1:])).as_py():
        return keys, values
    order = pc.sort_indices(found).to_numpy()
    return keys.take(order), values.take(order)


def _list(rows: Rows, part: slice) -> list[bytes]:
    return rows.slice(part.start, part.stop).to_list()


def _options() -> Any:
    from rocksdict import BlockBasedOptions, DBCompressionType, Options

    table = BlockBasedOptions()
    table.set_format_version(_FORMAT)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    return options


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # rocksdict has no types of its own for its failures.
        raise RewriteError(
            "SM-REWRITE-059",
            "RocksDB does not take the rows of a partition",
            expected="each key once, and room on the local disk",
            found=str(error)[:300],
            next_action="look at what it says; a key that comes twice is a fault of statemigrate's",
        ) from error
