"""The rows of an operator in the files of its partitions.

What tasks of Spark are given: it says where the files are, and needs nothing of the driver. A
snapshot is read a batch at a time; what has changes after it is held in memory, a store of one
partition at a time.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from statemigrate.blocks import in_blocks
from statemigrate.checkpoint.logs.entries import is_avro, is_rocksdb
from statemigrate.checkpoint.operators.catalogue import VARIABLES, kind_of, used_partitions
from statemigrate.checkpoint.operators.shapes import (
    CheckpointShape,
    OperatorShape,
    StoreShape,
    row_json,
)
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.keys import FAMILY, KeyCodec, families_of
from statemigrate.checkpoint.rows.values import ValueCodec
from statemigrate.checkpoint.rows.wrapping import RowLayout
from statemigrate.checkpoint.state import Batch, StoredPartition, in_parts, stored_partition
from statemigrate.checkpoint.stores.changelog import PUT, Changes
from statemigrate.checkpoint.stores.files import (
    LARGEST_ZIP,
    StoreVersion,
)
from statemigrate.checkpoint.stores.reading import (
    fold_state,
    read_changelog_state,
    read_changes,
    read_hdfs_state,
    snapshot_of,
)
from statemigrate.errors import CorruptFileError
from statemigrate.files import Files, LocalFiles, local_path
from statemigrate.formats.arrow_values import plain_values
from statemigrate.formats.escaped_text import visible
from statemigrate.rewrite.arrow_types import list_array
from statemigrate.rewrite.checksum import Checksum
from statemigrate.rewrite.checksums import hashes_of
from statemigrate.rewrite.column_pairing import FamilyAddress
from statemigrate.rewrite.partitioning import (
    Blocks,
    Placing,
    Survey,
    misplaced_error,
    partitions_of,
    rows_in,
    run_steps,
)
from statemigrate.rewrite.writing import PartitionTask
from statemigrate.state.protocol import Batches, CarriesErrors, reraising_worker_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_MANY = 50_000


@dataclass(frozen=True)
class StoredOperator:
    """An operator's stores by their names, each for every partition from 0.

    ``root`` is the checkpoint's path, ``conf`` what is pinned to its query.
    """

    root: Path
    conf: Mapping[str, str]
    stores: Mapping[str, tuple[StoredPartition, ...]]

    @property
    def partitions(self) -> int:
        """How many have files."""
        return len(next(iter(self.stores.values())))

    def rows(self, place: FamilyAddress, partition: int) -> Iterator[Batch]:
        """The rows of a family in a partition, fields by their labels, a batch at a time.

        Raises `CorruptFileError` for files and rows that are not what Spark writes.
        """
        store = self.stores[place.store.name][partition]
        number = store.families[place.family.name] if place.store.has_families else None
        layout, family = RowLayout.of(self.conf), place.family
        keys = KeyCodec(row_json(family.key), family.encoder, layout, number)
        values = ValueCodec(row_json(family.value), layout, is_list=family.is_list)
        for raw_keys, raw_values in self._raw(store.version, number):
            found, owners = values.decode(raw_values, raw_keys)
            if family.is_list:
                counts = np.bincount(owners, minlength=len(raw_keys))
                found = list_array(counts, found, pa.list_(found.type))
            yield keys.decode(raw_keys), found

    def _raw(self, version: StoreVersion, number: int | None) -> Iterator[tuple[Rows, Rows]]:
        files = LocalFiles(self.root)
        if not is_rocksdb(self.conf):
            yield from in_parts(read_hdfs_state(files, version, self.conf))
        elif version.shared and not version.changes:
            prefix = b"" if number is None else number.to_bytes(FAMILY, "little", signed=True)
            yield from read_tables(files, version, prefix)
        else:
            for keys, values in in_parts(iter([self._merged_state(files, version)])):
                of_family = (
                    np.ones(len(keys), bool) if number is None else families_of(keys) == number
                )
                yield keys.take(of_family), values.take(of_family)

    def _merged_state(self, files: LocalFiles, version: StoreVersion) -> tuple[Rows, Rows]:
        if not version.shared:
            return read_changelog_state(files, version, self.conf)
        puts = (
            Changes(np.full(len(keys), PUT, np.uint8), keys, values)
            for keys, values in read_tables(files, version, b"")
        )
        changes = chain(puts, read_changes(files, version, self.conf))
        return fold_state(changes, self.conf)


# Whether tasks can read an operator's state from its files, and where those are.


def stored_operator(
    files: Files, shape: CheckpointShape, operator: OperatorShape
) -> StoredOperator | None:
    """Where the operator's rows are; None where only Spark's reader gets at them.

    Those are rows on a file system that only the driver reaches, rows in Avro, which need all
    schemas there ever were, and variables of ``transformWithState``, of which RocksDB merges lists.
    Raises `CorruptFileError` where a file is missing or is not what Spark writes.
    """
    root = local_path(files.location)
    if (
        root is None
        or kind_of(operator.name) is VARIABLES
        or (is_rocksdb(shape.conf) and is_avro(shape.conf))
    ):
        return None
    stores: dict[str, tuple[StoredPartition, ...]] = {}
    for place, store in enumerate(operator.stores):
        found = [
            stored_partition(files, shape, operator, place, partition)
            for partition in range(used_partitions(operator))
        ]
        if not all(_is_readable(store, each) for each in found):
            return None
        stores[store.name] = tuple(found)
    return StoredOperator(root, dict(shape.conf), stores)


def _is_readable(store: StoreShape, found: StoredPartition) -> bool:
    if not store.has_families:
        return True
    has_numbers = all(family.name in found.families for family in store.families)
    has_lists = any(family.is_list for family in store.families)
    return has_numbers and not (has_lists and found.version.shared)


# A snapshot of Spark's RocksDB provider, read through RocksDB itself.


_METADATA = "metadata"
LARGEST_SMALL = 1 << 30
"""Bytes of the files in a zip together: RocksDB's manifest and options."""


def read_tables(
    files: Files, version: StoreVersion, prefix: bytes = b""
) -> Iterator[tuple[Rows, Rows]]:
    """The keys and values of a version's snapshot, in their order, a batch at a time.

    Only keys that begin with ``prefix``. Raises `CorruptFileError` for a snapshot that RocksDB does
    not open, or not read to its end.
    """
    with _opened(files, version) as database:
        start = {"from_key": prefix} if prefix else {}
        # Keys and values apart: pairs would be tracked, again and again, by Python's collector.
        all_keys, all_values = database.keys(**start), database.values(**start)
        if prefix:
            all_keys = takewhile(lambda key: key.startswith(prefix), all_keys)
        while keys := list(islice(all_keys, _MANY)):
            first = 0
            for values in in_blocks(islice(all_values, len(keys)), _MANY, len):
                end = first + len(values)
                yield _rows(keys[first:end]), _rows(values)
                first = end


def _rows(found: list[bytes]) -> Rows:
    return Rows.from_arrow(pa.array(found, pa.large_binary()))


@contextmanager
def _opened(files: Files, version: StoreVersion) -> Iterator[Any]:
    """A private copy of the database, whose large files are shared with the store."""
    from rocksdict import AccessType, Options, Rdict

    with tempfile.TemporaryDirectory(prefix="statemigrate-tables-") as folder:
        _lay_out(files, version, Path(folder))
        try:
            database: Any = Rdict(
                folder, Options(raw_mode=True), access_type=AccessType.read_only()
            )
            try:
                yield database
            finally:
                database.close()
        except CorruptFileError:
            raise
        except Exception as error:
            # rocksdict has no types of its own for its failures.
            raise _unreadable(files, version, error) from error


def _lay_out(files: Files, version: StoreVersion, folder: Path) -> None:
    """Everything where RocksDB looks for it, by the names that it knows."""
    if version.snapshot is None:
        return
    archive = folder / "snapshot.zip"
    files.fetch(version.snapshot, archive, most=LARGEST_ZIP, shared=True)
    try:
        _unzip(archive, folder)
    except (ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise _unreadable(files, version, error) from error
    archive.unlink()
    found_snapshot = snapshot_of(files, version)
    for each in found_snapshot.shared if found_snapshot else ():
        source = f"{version.folder}/{each.name}"
        files.fetch(source, folder / each.local_name, most=each.size, shared=True)


def _unzip(archive: Path, folder: Path) -> None:
    """RocksDB's small files. Raises ValueError where they are not small."""
    with zipfile.ZipFile(archive) as small:
        wanted = [
            each
            for each in small.infolist()
            if each.filename != _METADATA and not {"/", "\\"} & set(each.filename)
        ]
        size = sum(each.file_size for each in wanted)
        if size > LARGEST_SMALL:
            raise ValueError(f"{size:,} bytes in a zip for at most {LARGEST_SMALL:,}")
        for each in wanted:
            # No more than it says comes out of an entry.
            with small.open(each) as content, (folder / each.filename).open("xb") as file:
                shutil.copyfileobj(content, file)


def _unreadable(files: Files, version: StoreVersion, error: Exception) -> CorruptFileError:
    return CorruptFileError(
        "SM-CHECKPOINT-031",
        f"{files.location}/{version.snapshot} is not a snapshot that RocksDB reads",
        expected="RocksDB's files, whole, as the snapshot's metadata name them",
        found=str(error)[:300],
        next_action="restore the folder of this partition from a copy of the checkpoint; the query "
        "could not go on from it either",
        path=f"{files.location}/{version.snapshot}",
    )


# One look at all rows of a family as `rows.surveying` takes it, by tasks that read the files.


_SCHEMA = "partition int, rows long, checksum string, misplaced long, text string, expected int"
_NAMES = ("partition", "rows", "checksum", "misplaced", "text", "expected")


def partitions_frame(spark: SparkSession, stored: StoredOperator) -> DataFrame:
    """A task for each partition of an operator: its number, as ``id``."""
    return spark.range(0, stored.partitions, 1, stored.partitions)


def survey_stored(
    spark: SparkSession,
    stored: StoredOperator,
    operator: OperatorShape,
    place: FamilyAddress,
    name: str,
) -> Survey:
    """Look at the rows of a family. Raises as `rows.surveying.survey`."""
    task = CarriesErrors(_Looking(stored, operator, place))
    with reraising_worker_errors():
        found = partitions_frame(spark, stored).mapInArrow(task, _SCHEMA).collect()
    for each in sorted(found):
        if each.misplaced:
            raise misplaced_error(name, each.partition, each.misplaced, (each.text, each.expected))
    sums = {each.partition: Checksum.from_text(each["rows"], each.checksum) for each in found}
    return Survey({partition: each for partition, each in sums.items() if each.count})


@dataclass(frozen=True)
class _Looking:
    stored: StoredOperator
    operator: OperatorShape
    place: FamilyAddress

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for partition in batch["id"].to_pylist():
                yield pa.RecordBatch.from_pylist([self._looked(partition)], _arrow_schema())

    def _looked(self, partition: int) -> dict[str, object]:
        total, count = Checksum(), 0
        example: tuple[str | None, int | None] = (None, None)
        for keys, values in self.stored.rows(self.place, partition):
            first, second = hashes_of(keys, values)
            total += Checksum.of(len(keys), first.sum(), second.sum())
            expected = partitions_of(self.operator, self.place, keys)
            wrong = np.flatnonzero(expected != partition)
            if wrong.size and not count:
                (key,) = plain_values(keys.slice(int(wrong[0]), 1))
                text = json.dumps(visible(key), default=str, ensure_ascii=False)
                example = text, int(expected[wrong[0]])
            count += wrong.size
        return dict(zip(_NAMES, (partition, total.count, total.text, count, *example), strict=True))


def _arrow_schema() -> pa.Schema:
    numbers = {
        "partition": pa.int32(),
        "expected": pa.int32(),
        "rows": pa.int64(),
        "misplaced": pa.int64(),
    }
    return pa.schema([(name, numbers.get(name, pa.string())) for name in _NAMES])


# What tasks make of the rows that they read from files themselves.


@dataclass(frozen=True)
class StoredFlow:
    """The rows of an old family, what ``change`` makes of them, and where they go then."""

    stored: StoredOperator
    place: FamilyAddress
    change: Batches
    placing: Placing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks, by their new partitions, of the partitions whose numbers are in ``batches``."""
        blocks = Blocks((self.change, self.placing))
        for partition in _numbers(batches):
            yield from blocks(self._rows(partition))

    def staying(self, partition: int) -> Iterator[pa.RecordBatch]:
        """What becomes of one partition, whose rows stay in it."""
        placing = replace(self.placing, partition=partition)
        return run_steps((self.change, placing), self._rows(partition))

    def _rows(self, partition: int) -> Iterator[pa.RecordBatch]:
        for keys, values in self.stored.rows(self.place, partition):
            yield pa.RecordBatch.from_arrays([keys, values], ["key", "value"])


@dataclass(frozen=True)
class PartitionRewriter:
    """Rewrites a partition whose rows all stay in it: read, changed and written in one task."""

    flows: tuple[StoredFlow, ...]
    task: PartitionTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `PartitionTask` gives back of the partitions whose numbers are in ``batches``."""
        for partition in _numbers(batches):
            rows = chain.from_iterable(flow.staying(partition) for flow in self.flows)
            yield from self.task.write(partition, rows)


@dataclass(frozen=True)
class BlockWriter:
    """Writes the partition that a task of Spark is about from blocks of its rows."""

    task: PartitionTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `PartitionTask` gives back."""
        return self.task(rows_in(batches))


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch["id"].to_pylist()
