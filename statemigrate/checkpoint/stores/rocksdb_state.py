"""One version of a store of the RocksDB provider: its tables, and the changes since, as one.

Keys come a range of their bytes at a time, so that no more of a partition is in memory than a range
and the changes that are not in tables yet.
"""

from __future__ import annotations

import io
import tempfile
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.checkpoint.rows import Integers, Rows
from statemigrate.checkpoint.stores.changelog import PUT, ChangelogRecords, among, fold_state
from statemigrate.checkpoint.stores.files import (
    LARGEST_ZIP,
    SharedFile,
    StoreVersion,
    check_archive,
)
from statemigrate.checkpoint.stores.partition_reader import read_changelogs, snapshot_of
from statemigrate.checkpoint.stores.sorted_tables import Records, SortedTable, ranges
from statemigrate.errors import CorruptFileError, UnsupportedError
from statemigrate.files import Files
from statemigrate.numpy_arrays import arrow_array, numpy_array

_IN_RANGE, _IN_FIRST = 1 << 20, 1 << 16
"""Bytes of tables that are read at once, before they are unpacked; the first rows come soon."""
_SINCE = np.int64(1) << np.int64(62)
"""The number of the first change that is in no table: any in a table has 56 bits."""
_LARGEST = 1 << 40
"""Bytes of a table."""


class RocksDBState:
    """The keys and values of one partition of a store as of a version.

    ``conf`` are the settings that are pinned to the query. Files are opened when they are first
    read, and stay readable though the query removes them. Methods raise `CorruptFileError` for a
    file that is missing or not what Spark writes, `UnsupportedError` for a table that is not
    understood.
    """

    def __init__(self, files: Files, version: StoreVersion, conf: Mapping[str, str]) -> None:
        self._files, self._version, self._conf = files, version, conf

    def rows(
        self, start: bytes = b"", stop: bytes | None = None, *, values: bool = True
    ) -> Iterator[tuple[Rows, Rows]]:
        """Keys from ``start`` up to ``stop``, without it, and their values, a range at a time.

        Keys begin with the number of their column family where the store has families. Values of a
        list are joined as RocksDB joins them. Without ``values`` these may be empty.
        """
        if not self._tables:
            # Folded as they are read: what later changes replace is not in memory.
            folded, contents = self._folded_changes
            first, end = _bounds(folded, start, stop)
            if end > first:
                yield folded.slice(first, end), contents.slice(first, end)
            return
        with self._readable():
            bounds = list(ranges(self._tables, start, stop, _IN_RANGE, _IN_FIRST))
        for begin, end_key in bounds:
            with self._readable():
                found = self._range(begin, end_key, values)
            if len(found[0]):
                yield found

    def find(self, keys: Rows) -> tuple[Rows, Rows]:
        """Those of ``keys`` that are there, with their values; no more blocks than theirs are read.

        Raises as `rows`.
        """
        if not self._tables:
            found, values = self._folded_changes
            places = among(found, keys)
            return found.take(places), values.take(places)
        wanted = keys.to_list()
        with self._readable():
            parts = [
                _chosen(each.records(each.index.having(wanted)), keys) for each in self._tables
            ]
        parts.append(_chosen(self._changes.all, keys))
        return fold_state(iter([_in_order(parts)]), self._conf)

    def keys_in(self, names: Collection[str]) -> Rows:
        """The keys that some of the version's tables have, also of what is deleted there."""
        with self._readable():
            return Rows.concat(
                [
                    table.records(table.index.between()).changes.keys
                    for name, table in self._tables_by_name.items()
                    if name in names
                ]
            )

    def check(self) -> None:
        """Read all rows, and RocksDB's small files, which rows are read without and Spark needs."""
        for _ in self.rows():
            pass
        snapshot = self._version.snapshot
        if snapshot is not None:
            with io.BytesIO(self._files.get(snapshot, most=LARGEST_ZIP)) as source:
                check_archive(source, f"{self._files.location}/{snapshot}")

    def _range(self, start: bytes, stop: bytes | None, has_values: bool) -> tuple[Rows, Rows]:
        found = [
            _within(each.records(blocks, values=has_values), start, stop)
            for each in self._tables
            if (blocks := each.index.between(start, stop)).size
        ]
        parts = [each for each in (*found, self._changes.between(start, stop)) if len(each.changes)]
        if not parts:
            return _NOTHING
        largest = max(parts, key=lambda each: len(each.changes))
        if not _is_plain(largest.changes):
            return fold_state(iter([_in_order(parts)]), self._conf)
        others = [each for each in parts if each is not largest]
        keys, values = largest.changes.keys, largest.changes.values
        if not others:
            return keys, values
        # Most keys are in the largest alone: what happened to the others is put together.
        both = np.zeros(len(keys), bool)
        both[among(keys, Rows.concat([each.changes.keys for each in others]))] = True
        of_both = Records(_taken(largest.changes, np.flatnonzero(both)), largest.numbers[both])
        alone = np.flatnonzero(~both)
        some_keys, some_values = fold_state(iter([_in_order([*others, of_both])]), self._conf)
        return (
            Rows.concat([keys.take(alone), some_keys]),
            Rows.concat([values.take(alone), some_values]),
        )

    @property
    def _tables(self) -> list[SortedTable]:
        return list(self._tables_by_name.values())

    @cached_property
    def _tables_by_name(self) -> dict[str, SortedTable]:
        found = snapshot_of(self._files, self._version)
        for each in found.shared if found else ():
            if is_log(each):
                raise self._with_log(each)
        names = [each for each in (found.shared if found else ()) if each.name.startswith("SSTs/")]
        with tempfile.TemporaryDirectory(prefix="statemigrate-tables-") as folder:
            tables = {}
            for number, each in enumerate(names):
                name = f"{self._version.folder}/{each.name}"
                path = Path(folder, str(number))
                self._files.fetch(name, path, most=min(each.size, _LARGEST), shared=True)
                place = f"{self._files.location}/{name}"
                try:
                    # What is mapped stays when its name is gone. A plain array is sliced faster.
                    mapped = np.asarray(np.memmap(path, np.uint8, "r"))
                    tables[name] = SortedTable(mapped, place)
                except (ValueError, IndexError) as error:
                    raise self._unreadable(name, error) from error
            return tables

    @cached_property
    def _folded_changes(self) -> tuple[Rows, Rows]:
        changes = read_changelogs(self._files, self._version.changes, self._conf)
        return _ordered(*fold_state(changes, self._conf))

    @cached_property
    def _changes(self) -> _Sorted:
        return _Sorted.of(list(read_changelogs(self._files, self._version.changes, self._conf)))

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, IndexError) as error:
            raise self._unreadable(str(self._version.snapshot), error) from error

    def _with_log(self, log: SharedFile) -> UnsupportedError:
        return UnsupportedError(
            "SM-CHECKPOINT-036",
            f"the snapshot {self._files.location}/{self._version.snapshot} has rows in a log",
            expected="all rows in tables: Spark writes them without RocksDB's write-ahead log",
            found=f"{log.name[:200]} with {log.size:,} bytes",
            next_action="read this batch with Spark's own state reader, which replays the log, or "
            "another batch here",
            path=f"{self._files.location}/{self._version.snapshot}",
        )

    def _unreadable(self, name: str, error: Exception) -> CorruptFileError:
        return CorruptFileError(
            "SM-CHECKPOINT-031",
            f"{self._files.location}/{name} is not what RocksDB writes",
            expected="RocksDB's files, whole, as the snapshot's metadata name them",
            found=str(error)[:300],
            next_action="restore the folder of this partition from a copy of the checkpoint; the "
            "query could not go on from it either",
            path=f"{self._files.location}/{name}",
        )


def is_log(file: SharedFile) -> bool:
    """Whether a file of a snapshot has rows in RocksDB's write-ahead log."""
    return file.name.startswith("logs/") and file.size > 0


_NOTHING = Rows.from_list([]), Rows.from_list([])


@dataclass(frozen=True)
class _Sorted:
    """Changes in the order of their keys, those of one key in the order of time."""

    changes: ChangelogRecords
    numbers: Integers

    @staticmethod
    def of(parts: list[ChangelogRecords]) -> _Sorted:
        whole = _concatenated(parts)
        order = _order_of(whole.keys)
        return _Sorted(_taken(whole, order), order + _SINCE)

    @property
    def all(self) -> Records:
        """All of them."""
        return Records(self.changes, self.numbers)

    def between(self, start: bytes, stop: bytes | None) -> Records:
        """Those with keys in a range."""
        first, end = _bounds(self.changes.keys, start, stop)
        return Records(_sliced(self.changes, first, end), self.numbers[first:end])


def _bounds(keys: Rows, start: bytes, stop: bytes | None) -> tuple[int, int]:
    """Where a range begins and ends among keys that are in order."""
    places = range(len(keys))
    first = bisect_left(places, start, key=keys.row) if start else 0
    return first, len(keys) if stop is None else bisect_left(places, stop, key=keys.row)


def _within(records: Records, start: bytes, stop: bytes | None) -> Records:
    keys = records.changes.keys
    first, end = _bounds(keys, start, stop)
    if (first, end) == (0, len(keys)):
        return records
    return Records(_sliced(records.changes, first, end), records.numbers[first:end])


def _chosen(records: Records, keys: Rows) -> Records:
    places = among(records.changes.keys, keys)
    return Records(_taken(records.changes, places), records.numbers[places])


def _is_plain(changes: ChangelogRecords) -> bool:
    """Whether each key of what is in order is there once, and put."""
    if bool((changes.kinds != PUT).any()):
        return False
    keys = changes.keys.to_arrow()
    return not pc.any(pc.equal(keys[1:], keys[:-1])).as_py()


def _in_order(parts: list[Records]) -> ChangelogRecords:
    """The changes of several files in the order of time."""
    whole = _concatenated([each.changes for each in parts])
    numbers = np.concatenate([each.numbers for each in parts])
    return _taken(whole, np.argsort(numbers, kind="stable"))


def _ordered(keys: Rows, values: Rows) -> tuple[Rows, Rows]:
    order = _order_of(keys)
    return keys.take(order), values.take(order)


def _order_of(keys: Rows) -> Integers:
    """The places of keys by their bytes, equal ones as they are."""
    places = arrow_array(np.arange(len(keys)))
    numbered = pa.Table.from_arrays([keys.to_arrow(), places], ["key", "place"])
    order = pc.sort_indices(numbered, [("key", "ascending"), ("place", "ascending")])
    return numpy_array(order).astype(np.int64)


def _concatenated(parts: list[ChangelogRecords]) -> ChangelogRecords:
    kinds = [each.kinds for each in parts]
    return ChangelogRecords(
        np.concatenate(kinds) if kinds else np.zeros(0, np.uint8),
        Rows.concat([each.keys for each in parts]),
        Rows.concat([each.values for each in parts]),
    )


def _taken(changes: ChangelogRecords, places: Integers) -> ChangelogRecords:
    return ChangelogRecords(
        changes.kinds[places], changes.keys.take(places), changes.values.take(places)
    )


def _sliced(changes: ChangelogRecords, first: int, end: int) -> ChangelogRecords:
    return ChangelogRecords(
        changes.kinds[first:end],
        changes.keys.slice(first, end),
        changes.values.slice(first, end),
    )
