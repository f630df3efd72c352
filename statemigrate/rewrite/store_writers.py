"""What a task of Spark does: it takes the rows of one partition, and writes all stores of it.

Rows come as Arrow batches of several families together: ``partition``, the ``family`` of the row by
its place in the plan, its two hashes, and of each family the columns ``key_<i>`` and ``value_<i>``,
null in the rows of others. Local and mounted disks are written where the task runs; for any other
place the files are handed to the driver, in pieces, which alone can reach it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.checkpoint import Schemas
from statemigrate.checkpoint.logs import codec_of
from statemigrate.checkpoint.operators import (
    COUNT,
    DEFAULT,
    EXPIRATION,
    ROW_COUNTER,
    SOONEST,
    TTL,
    FamilyShape,
    OperatorShape,
    StoreShape,
    StructJson,
    is_internal,
    with_labels,
)
from statemigrate.checkpoint.rows import KeyCodec, Rows, ValueCodec, merged_values
from statemigrate.checkpoint.stores import SnapshotWriter, provider_of, row_layout
from statemigrate.errors import RewriteError
from statemigrate.files import Files, LocalFiles
from statemigrate.rewrite.checksums import NAMES, RowsChecksum
from statemigrate.rewrite.entry_functions import MERGED, ORIGINS
from statemigrate.rewrite.rewrite_refusals import id_before, in_order
from statemigrate.rewrite.rewrite_report import Checksum
from statemigrate.rewrite.rocksdb_writing import RocksDBStore

# Families that only say again what a variable has, made from its rows as Spark makes them.
#
# Of a list ``$rowCounter_`` has its length. Of what expires ``$ttl_`` has the keys by the moment at
# which they do, of a list by that of the element which is first; a list has that moment in
# ``$min_`` too, and its length in ``$count_`` alone. Sources: ``ListStateImplWithTTL``,
# ``TTLState.scala`` of apache/spark.


Derived = tuple[str, pa.StructArray, pa.StructArray]
"""The name of a family, and its keys and values."""


def derived_rows(family: FamilyShape, keys: pa.StructArray, values: pa.Array) -> Iterator[Derived]:
    """What follows from rows of a family; names of families that a store need not have."""
    if family.wrapping != "expiry":
        if family.is_list:
            yield f"{ROW_COUNTER}{family.name}", keys, _single("count", values.value_lengths())
        return
    if not family.is_list:
        yield _by_time(family, keys, values.field(EXPIRATION))
        return
    soonest = _soonest(values)
    yield _by_time(family, keys, soonest)
    yield f"{SOONEST}{family.name}", keys, _single("expirationMs", soonest)
    yield f"{COUNT}{family.name}", keys, _single("count", values.value_lengths())


def named_as(array: pa.StructArray, struct: StructJson) -> pa.StructArray:
    """The same columns under the names of a struct's fields."""
    return pa.StructArray.from_arrays(array.flatten(), [each["name"] for each in struct["fields"]])


def _by_time(family: FamilyShape, keys: pa.StructArray, times: pa.Array) -> Derived:
    by_time = pa.StructArray.from_arrays([times, keys], ["expirationMs", "elementKey"])
    return f"{TTL}{family.name}", by_time, _single("nothing", pa.nulls(len(keys)))


def _soonest(lists: pa.ListArray) -> pa.Array:
    """Of each list the first moment at which an element expires; none is empty."""
    times = lists.flatten().field(EXPIRATION).to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    if not len(lists):
        return pa.array([], pa.int64())
    return pa.array(np.minimum.reduceat(times, np.cumsum(lengths) - lengths), pa.int64())


def _single(name: str, column: pa.Array) -> pa.StructArray:
    if not pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    return pa.StructArray.from_arrays([column], [name])


class StoreWriter(Protocol):
    """Writes one version of a store, whose keys come once over all calls.

    Where it `is_snapshot`, the values of one key come together, and nothing is merged.
    """

    is_snapshot: bool

    def put(self, keys: Rows, values: Rows) -> None:
        """Take more rows."""
        ...

    def merge(self, keys: Rows, values: Rows) -> None:
        """Append a value to those of each key, which was put before."""
        ...

    def close(self) -> dict[str, Path | bytes]:
        """End it; the files by their names below the store."""
        ...


class HdfsStore:
    """Writes a store of the HDFS-backed provider as one snapshot, below ``scratch``, a new folder.

    It has whole values only.
    """

    is_snapshot = True

    def __init__(self, scratch: Path, version: int, codec: str) -> None:
        scratch.mkdir()
        self._name = f"{version}.snapshot"
        self._path = scratch / self._name
        self._sink = self._path.open("xb")
        self._snapshot = SnapshotWriter(self._sink, codec)

    def put(self, keys: Rows, values: Rows) -> None:
        """Take more rows."""
        self._snapshot.put(keys, values)

    def merge(self, keys: Rows, values: Rows) -> None:  # noqa: ARG002
        """Not there: a snapshot has each key once."""
        raise AssertionError("a snapshot has values merged")

    def close(self) -> dict[str, Path | bytes]:
        """End it; the file by its name below the store."""
        self._snapshot.close()
        self._sink.close()
        return {self._name: self._path}


# One store of one partition, written from nothing: the files that a restart reads.


@dataclass(frozen=True)
class StoreAddress:
    """A store of a partition of an operator; ``version`` is that of the state, batch + 1.

    ``unique_id`` is in the names of files of checkpoint format 2.
    """

    operator: int
    partition: int
    store: StoreShape
    version: int
    conf: Mapping[str, str]
    unique_id: str | None = None

    @property
    def unique_ids(self) -> tuple[str, str] | None:
        """The ids of the version before and of this one."""
        return None if self.unique_id is None else (id_before(self.unique_id), self.unique_id)

    @property
    def folder(self) -> str:
        """Below the checkpoint."""
        named = "" if self.store.name == DEFAULT else f"/{self.store.name}"
        return f"state/{self.operator}/{self.partition}{named}"


class StoreFiles:
    """Takes the rows of a store, a batch at a time, and has its files in ``scratch`` at the end.

    With ``is_snapshot`` they need no file of another version. ``schemas`` has the numbers of the
    newest schemas of families, where rows in Avro are not of the first ones.
    """

    def __init__(
        self,
        place: StoreAddress,
        scratch: Path,
        *,
        is_snapshot: bool = False,
        schemas: Mapping[str, Schemas] | None = None,
    ) -> None:
        self._store_address = place
        self._numbers = family_numbers(place.store)
        folder = scratch / place.folder.replace("/", "-")
        self._out = WRITERS[provider_of(place.conf).name](place, folder, is_snapshot)
        self._schemas = schemas or {}
        self._codecs = {each.name: self._codecs_of(each) for each in place.store.families}
        self._shapes = {each.name: each for each in place.store.families}

    def put(self, family: str, keys: pa.StructArray, values: pa.Array) -> None:
        """Take rows of a family: for each key a struct, or the list of a list's elements."""
        if self._shapes[family].is_list:
            self._put_lists(family, keys, values)
        else:
            self._put(family, keys, values)
        for name, their_keys, their_values in derived_rows(self._shapes[family], keys, values):
            shape = self._shapes.get(name)
            if shape is not None:
                self._put(name, their_keys, named_as(their_values, shape.value))

    def close(self) -> dict[str, Path | bytes]:
        """End it; return what to put under which name below the checkpoint."""
        found = self._out.close()
        return {f"{self._store_address.folder}/{name}": content for name, content in found.items()}

    def _put(self, family: str, keys: pa.StructArray, values: pa.Array) -> None:
        key_codec, value_codec = self._codecs[family]
        key_rows = key_codec.encode(keys)
        self._out.put(key_rows, value_codec.encode(values, key_rows))

    def _put_lists(self, family: str, keys: pa.StructArray, values: pa.Array) -> None:
        """Put the first element of each list, merge the others in their order, and count them."""
        key_codec, value_codec = self._codecs[family]
        owners = values.value_parent_indices().to_numpy()  # for each element its list
        key_rows = key_codec.encode(keys).take(owners)
        elements = value_codec.encode(values.flatten(), key_rows)
        if self._out.is_snapshot:
            delimiter = row_layout(self._store_address.conf).delimiter
            self._out.put(*merged_values(key_rows, elements, owners, delimiter))
            return
        is_first = np.ones(len(owners), bool)
        is_first[1:] = owners[1:] != owners[:-1]
        self._out.put(key_rows.take(is_first), elements.take(is_first))
        self._out.merge(key_rows.take(~is_first), elements.take(~is_first))

    def _codecs_of(self, family: FamilyShape) -> tuple[KeyCodec, ValueCodec]:
        layout = row_layout(self._store_address.conf)
        number = self._numbers.get(family.name) if self._store_address.store.has_families else None
        schemas = self._schemas.get(family.name, Schemas())
        key = KeyCodec(
            with_labels(family.key), family.encoder, layout, number, schema_number=schemas.key
        )
        value = ValueCodec(
            with_labels(family.value),
            layout,
            is_list=family.is_list,
            schema_number=schemas.value,
        )
        return key, value


def _rocksdb_store(place: StoreAddress, folder: Path, is_snapshot: bool) -> StoreWriter:
    numbers = family_numbers(place.store)
    return RocksDBStore(
        folder,
        place.version,
        codec_of(place.conf),
        numbers,
        [name for name in numbers if is_internal(name)],
        merges=any(each.is_list for each in place.store.families),
        unique_ids=place.unique_ids,
        is_snapshot=is_snapshot,
    )


def _hdfs_store(place: StoreAddress, folder: Path, _: bool) -> StoreWriter:
    return HdfsStore(folder, place.version, codec_of(place.conf))


WRITERS: Mapping[str, Callable[[StoreAddress, Path, bool], StoreWriter]] = {
    "rocksdb": _rocksdb_store,
    "hdfs": _hdfs_store,
}
"""What makes the writer of a store in a new folder, as a snapshot if so asked, by provider."""


def family_numbers(store: StoreShape) -> dict[str, int]:
    """The number of each column family of a new store: Spark reads them from the snapshot."""
    if not store.has_families:
        return {}
    names = [DEFAULT, *(each.name for each in store.families if each.name != DEFAULT)]
    return {name: number for number, name in enumerate(names)}


SCHEMA = "partition int, file string, piece binary, report string"
"""What a task gives back: pieces of files for the driver, and at last a report as JSON."""
_PIECE = 4 << 20


@dataclass(frozen=True)
class Written:
    """A family of the plan, by its place there: where its rows go."""

    number: int
    store: str
    family: str


@dataclass(frozen=True)
class PartitionTask:
    """Writes the partitions of an operator below ``root``, or hands them over where it is None.

    ``version`` is that of the state; ``conf`` what is pinned to the new query. ``ids`` are those of
    files, by partition and store as a commit has them; none in checkpoint format 1.
    """

    operator: OperatorShape
    families: tuple[Written, ...]
    version: int
    conf: Mapping[str, str]
    root: str | None
    ids: Sequence[Sequence[str]] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the partition that this task of Spark is about."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "runs in a task"  # noqa: S101
        return self.write(context.partitionId(), batches)

    def write(self, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write one partition. Raises `RewriteError` for a row of another one."""
        with tempfile.TemporaryDirectory(prefix="statemigrate-rewrite-") as scratch:
            stores = {
                store.name: StoreFiles(self._store_address(partition, store), Path(scratch))
                for store in self.operator.stores
            }
            totals = {each.number: RowsChecksum() for each in self.families}
            for batch in batches:
                _check_partition(batch, partition)
                for each in self.families:
                    totals[each.number] += _put(batch, each, stores[each.store])
            for store in stores.values():
                yield from self._delivered(partition, store.close())
        report = {str(number): tally.to_json() for number, tally in totals.items()}
        yield _row(partition, report=json.dumps(report))

    def _store_address(self, partition: int, store: StoreShape) -> StoreAddress:
        stores = [each.name for each in in_order(self.operator.stores)]
        unique_id = self.ids[partition][stores.index(store.name)] if self.ids else None
        number = self.operator.number
        return StoreAddress(number, partition, store, self.version, self.conf, unique_id)

    def _delivered(
        self, partition: int, made: Mapping[str, Path | bytes]
    ) -> Iterator[pa.RecordBatch]:
        for name, content in made.items():
            if self.root is not None:
                LocalFiles(Path(self.root)).put(name, content)
            else:
                for piece in _pieces(content):
                    yield _row(partition, file=name, piece=piece)


def _put(batch: pa.RecordBatch, each: Written, store: StoreFiles) -> RowsChecksum:
    """Write the rows of one family in a batch, and count them."""
    is_own = pc.equal(batch["family"], each.number)
    own = batch if pc.all(is_own).as_py() else batch.filter(is_own)
    if not own.num_rows:
        return RowsChecksum()
    store.put(each.family, own[f"key_{each.number}"], own[f"value_{each.number}"])
    sums = [own[name].to_numpy(zero_copy_only=False).astype(np.uint64).sum() for name in NAMES]
    checksum = Checksum.of(own.num_rows, *sums)
    return RowsChecksum(checksum, pc.sum(own[ORIGINS]).as_py(), pc.sum(own[MERGED]).as_py())


def _check_partition(batch: pa.RecordBatch, partition: int) -> None:
    found = batch["partition"].unique().to_pylist()
    if found != [partition] and batch.num_rows:
        raise RewriteError(
            "SM-REWRITE-058",
            "Spark gave a task rows of another partition",
            expected=f"rows of partition {partition}",
            found=f"rows of {found[:8]}",
            next_action="this is a fault of statemigrate's, or of this release of Spark: report it",
        )


def _pieces(content: Path | bytes) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as stream:
        while piece := stream.read(_PIECE):
            yield piece


def _row(
    partition: int, file: str | None = None, piece: bytes | None = None, report: str | None = None
) -> pa.RecordBatch:
    columns = [
        pa.array([partition], pa.int32()),
        pa.array([file], pa.string()),
        pa.array([piece], pa.binary()),
        pa.array([report], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, ["partition", "file", "piece", "report"])


# What tasks give back, taken by the driver: files where only it can write, and reports.


def deliver(rows: Iterable[Any], target: Files) -> Iterator[tuple[int, dict[int, RowsChecksum]]]:
    """Put the files in ``rows`` of tasks where they belong; yield each partition's report.

    A report has, by the place of a family in the plan, what was written of it. The rows of one
    partition stand together, its report last; of its files only one is held at a time, on disk.
    """
    with tempfile.TemporaryDirectory(prefix="statemigrate-rewrite-") as scratch:
        unfinished = _Unfinished(Path(scratch), target)
        for row in rows:
            if row["report"] is None:
                unfinished.add(row["file"], row["piece"])
            else:
                unfinished.put()
                yield row["partition"], _report(row["report"])


class _Unfinished:
    """The file whose pieces are coming in."""

    def __init__(self, scratch: Path, target: Files) -> None:
        self._path = scratch / "file"
        self._target = target
        self._name: str | None = None

    def add(self, name: str, piece: bytes) -> None:
        if name != self._name:
            self.put()
            self._name = name
        with self._path.open("ab") as stream:
            stream.write(piece)

    def put(self) -> None:
        if self._name is not None:
            self._target.put(self._name, self._path)
            self._path.unlink()
            self._name = None


def _report(text: str) -> dict[int, RowsChecksum]:
    return {int(number): RowsChecksum.from_json(each) for number, each in json.loads(text).items()}
