"""A store in RocksDB, written as whatever Spark loads faster: a changelog, or tables.

Spark replays a changelog at some hundred thousand rows a second, and opens tables at once. What it
replays in less than a second goes into a changelog; more than that goes into tables. Values that
are merged are always in a changelog: then the tables are the version before it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from statemigrate.checkpoint.rows import Rows
from statemigrate.checkpoint.stores import (
    LineageItem,
    SharedFile,
    Snapshot,
    SparkChangelogWriter,
    empty_snapshot,
    written_snapshot,
)
from statemigrate.errors import RewriteError

# Rows as RocksDB's own tables, which Spark opens instead of replaying them one by one.
#
# Rows are sorted a run at a time, and each run becomes an SST file. RocksDB itself takes the files
# into a database, whose small files are the snapshot's zip; the tables go next to it.


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
        snapshot = Snapshot(tuple(shared), keys, internal_keys, families, frozenset(internal))
        small = {
            path.name: path.read_bytes()
            for pattern in ("MANIFEST-*", "CURRENT", "OPTIONS-*")
            for path in sorted(self._database.glob(pattern))
        }
        return Tables(written_snapshot(snapshot, small), paths)

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


RUN = 64 << 20
"""Bytes of rows that are sorted together, into one table."""
FEW = 4 << 20
"""Bytes of rows that are still a changelog."""


class RocksDBStore:
    """Writes version ``version`` of a store below ``scratch``, a new folder.

    ``families`` has the number of each column family, and is empty for a store without them;
    ``internal`` are those that only Spark looks at. Rows have their keys once, over all calls.
    ``merges`` says that values will be merged.
    ``unique_ids`` are for checkpoint format 2: those of the version before and of this one, of
    which the commit names the second. With ``is_snapshot`` it is one file of the version, whose
    lists come merged.
    """

    def __init__(  # noqa: PLR0913 - what a store is
        self,
        scratch: Path,
        version: int,
        codec: str,
        families: Mapping[str, int],
        internal: Collection[str] = (),
        *,
        merges: bool = False,
        unique_ids: tuple[str, str] | None = None,
        is_snapshot: bool = False,
        run: int = RUN,
    ) -> None:
        scratch.mkdir()
        self._scratch, self._version, self._run = scratch, version, run
        self._families, self._internal = families, internal
        before, this = unique_ids or (None, None)
        self._before, self._this = _name(version - 1, before), _name(version, this)
        # Version 0 is empty by itself: there is none that tables could be before the first batch.
        # Spark takes the numbers of families from a snapshot, so the first version is one then.
        self.is_snapshot = is_snapshot or (version == 1 and bool(families))
        self._has_tables = version > 1 or not merges or self.is_snapshot
        self._path = scratch / f"{self._this}.changelog"
        self._sink = self._path.open("xb")
        plain = 2 if families else 1
        lineage = [] if before is None or version < 2 else [LineageItem(version - 1, before)]
        kind = plain if unique_ids is None else plain + 2
        self._changelog = SparkChangelogWriter(self._sink, codec, kind, lineage)
        self._puts: list[tuple[Rows, Rows]] = []
        self._merges: list[tuple[Rows, Rows]] = []
        self._size = 0
        self._is_changed = False
        self._tables: SortedTables | None = None
        self._keys = self._internal_keys = 0

    def put(self, keys: Rows, values: Rows) -> None:
        """Take more rows."""
        self._puts.append((keys, values))
        self._grow(keys, values)

    def merge(self, keys: Rows, values: Rows) -> None:
        """Append a value to those of each key, which was put before; not where it `is_snapshot`."""
        assert not self.is_snapshot, "a snapshot has values merged"  # noqa: S101
        self._merges.append((keys, values))
        self._grow(keys, values)

    def close(self) -> dict[str, Path | bytes]:
        """End it; the files by their names below the store."""
        is_large = self._tables is not None or self._size >= min(FEW, self._run)
        if self.is_snapshot or (self._has_tables and is_large):
            self._write_run()
        else:
            self._write_changes()
        self._changelog.close()
        self._sink.close()
        if self._tables is not None and not self._is_changed:
            return self._snapshot(self._tables, self._this)
        if self.is_snapshot:
            return {f"{self._this}.zip": empty_snapshot(self._families, self._internal)}
        changes: dict[str, Path | bytes] = {self._path.name: self._path}
        if self._tables is not None:
            return {**changes, **self._snapshot(self._tables, self._before)}
        if self._version > 1:
            changes[f"{self._before}.zip"] = empty_snapshot(self._families, self._internal)
        return changes

    def _grow(self, keys: Rows, values: Rows) -> None:
        self._size += int(keys.lengths.sum() + values.lengths.sum())
        if self._size < self._run:
            return
        if self._has_tables:
            self._write_run()
        else:
            self._write_changes()

    def _snapshot(self, tables: SortedTables, name: str) -> dict[str, Path | bytes]:
        made = tables.close(self._keys, self._internal_keys, self._families, self._internal)
        return {**made.shared, f"{name}.zip": made.snapshot}

    def _write_changes(self) -> None:
        self._is_changed |= bool(self._puts or self._merges)
        for keys, values in self._puts:
            self._changelog.put(keys, values)
        # What is merged comes after what was put, be that here or in a table.
        for keys, values in self._merges:
            self._changelog.merge(keys, values)
        self._puts, self._merges, self._size = [], [], 0

    def _write_run(self) -> None:
        if self._puts:
            self._tables = self._tables or SortedTables(self._scratch / "tables")
            keys = Rows.concat([each for each, _ in self._puts])
            self._tables.add(keys, Rows.concat([each for _, each in self._puts]))
            self._count(keys)
            self._puts = []
        self._write_changes()

    def _count(self, keys: Rows) -> None:
        """Spark counts the keys of its own families apart."""
        internal = 0
        if self._families and len(keys):
            numbers = keys.data[keys.starts] + (keys.data[keys.starts + 1].astype(np.int64) << 8)
            own = [self._families[name] for name in self._internal]
            internal = int(np.isin(numbers, own).sum())
        self._keys += len(keys) - internal
        self._internal_keys += internal


def _name(version: int, unique_id: str | None) -> str:
    return str(version) if unique_id is None else f"{version}_{unique_id}"
