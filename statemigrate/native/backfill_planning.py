"""Planning a backfill: the keys still to migrate, written as chunks.

The keys that a backfill is for: read from the state once, counted, and written as chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from statemigrate.checkpoint.rows import RowCodec
from statemigrate.errors import StartupError
from statemigrate.native.checkpoint import SparkCheckpoint
from statemigrate.native.chunks import (
    ENTRIES,
    KEYS_IN_BLOCK,
    BackfillLimits,
    ChunkFiles,
    PlanRecord,
)
from statemigrate.native.control_rows import MARKER
from statemigrate.native.control_source import require_control_source
from statemigrate.native.older_families import older_families
from statemigrate.native.operators import chunk_files
from statemigrate.native.retrying import retried
from statemigrate.native.session import placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from statemigrate.scripts import Survey


# What tells keys apart: their bytes in the state, not Spark's equality.
#
# To Spark 0.0 and -0.0 are equal, and so are all NaNs: ``distinct`` and ``groupBy`` make one of
# them all. In the state each of them is a key of its own, which only a row with those very bytes
# touches.


IDENTITY = "identity"
"""The column that is the same for the same key, and for no other one."""


def with_identities(rows: DataFrame) -> DataFrame:
    """``rows`` with the column `IDENTITY` of their column ``key``.

    It is the key itself where Spark's equality is that of bytes, else the bytes of its row. Raises
    `UnsupportedError` for a key with floating point numbers and a column that no row can be made
    of.
    """
    from pyspark.sql.types import BinaryType, StructType

    key: Any = rows.schema["key"].dataType
    if not has_equal_twins(key):
        return rows.withColumn(IDENTITY, rows["key"])
    schema = StructType([*rows.schema.fields]).add(IDENTITY, BinaryType(), nullable=False)
    return rows.mapInArrow(_Identify(key), schema)


def has_equal_twins(key: DataType) -> bool:
    """Whether two keys of this type may be equal to Spark and differ in the state.

    Strings with a collation may too; Spark takes none in the key of a state.
    """
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, StructType

    if isinstance(key, StructType):
        return any(has_equal_twins(field.dataType) for field in key.fields)
    if isinstance(key, ArrayType):
        return has_equal_twins(key.elementType)
    return isinstance(key, DoubleType | FloatType)


class _Identify:
    """A function for ``mapInArrow`` that adds the bytes of each key's row."""

    def __init__(self, key: StructType) -> None:
        self._key = key.jsonValue()
        RowCodec(self._key)  # raises here, not in a task

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        codec = RowCodec(self._key)
        for batch in batches:
            identities = codec.encode(batch.column("key")).to_arrow()
            yield batch.append_column(IDENTITY, identities)


Older = Callable[["SparkCheckpoint", "Survey", Mapping[str, str]], Mapping[str, "DataFrame"]]
"""Finds the families to be emptied, as `older_families` does for variables."""


@dataclass(frozen=True)
class KeysLeft:
    """The keys with values in older families, as a `BackfillPlan` counts them."""

    keys: int
    families: Mapping[str, int]
    pages: int | None


@dataclass(frozen=True)
class OlderFamilies:
    """The families of the state in ``path`` that are to be emptied, read again each time.

    ``scripts`` and ``targets`` are those that the query is deployed with; ``operator`` and
    ``spark`` are those of `SparkCheckpoint`. ``find`` finds them, for state that is laid out
    otherwise.
    """

    path: str
    operator: int | str | None
    spark: SparkSession | None
    scripts: Survey
    targets: Mapping[str, str]
    find: Older = older_families

    def read(self) -> Mapping[str, DataFrame]:
        """A frame of keys by the family's name; none before the query's first batch."""
        # A reader is for one moment: the batch that it found first may be gone by now.
        reader = SparkCheckpoint(self.path, self.spark, operator=self.operator)
        if reader.last_batch() is None:
            return {}
        return self.find(reader, self.scripts, self.targets)

    def left(self) -> KeysLeft:
        """How many keys have values in them."""
        with closing(OlderKeys(self)) as keys:
            return keys.left


class OlderKeys:
    """The keys to migrate, read once: the state moves on while they are written."""

    def __init__(self, families: OlderFamilies) -> None:
        self._counts: dict[str, int] = {}
        self._is_paged = False
        self._partitions: dict[int, int] = {}
        self._old_state: DataFrame | None = None
        retried(lambda: self._read(families.read()), families.path)

    @property
    def left(self) -> KeysLeft:
        """How many there are, each counted once; of pages all entries."""
        if self._is_paged:
            return KeysLeft(sum(self._counts.values()), self._counts, self._total)
        return KeysLeft(self._total, self._counts, None)

    @property
    def _total(self) -> int:
        return sum(self._partitions.values())

    def write(
        self, files: ChunkFiles, query: str, keys_per_chunk: int, pace: BackfillLimits | None
    ) -> PlanRecord:
        """Write them as chunks, or as blocks for a ``pace``, and the plan when all are there."""
        name, offset = uuid4().hex[:12], files.log().offset
        # Before Spark writes there, which would follow a link in the directory's place.
        files.create()
        if pace is not None:
            blocks = -(-self._total // KEYS_IN_BLOCK)
            self._write(f"{files.waiting}/{name}", query, blocks, ENTRIES)
        else:
            more = (ENTRIES,) if self._is_paged else ()
            chunks = -(-self._total // keys_per_chunk)
            self._write(f"{files.location}/{name}", query, chunks, *more)
        written = sum(each.startswith(f"{name}/") for each in files.written())
        plan = PlanRecord(name, self._total, written, offset, pace, tuple(self._counts))
        if self._is_paged:
            by_chunk = self._by_chunk(f"{files.location}/{name}") if written else None
            plan = replace(plan, entries=self.left.keys, entries_by_chunk=by_chunk)
        files.write_plan(plan)
        return plan

    def close(self) -> None:
        """Let Spark drop what it keeps of the keys."""
        if self._old_state is not None:
            self._old_state.unpersist()

    def _read(self, families: Mapping[str, DataFrame]) -> None:
        from pyspark.sql import functions

        self.close()
        self._counts = dict.fromkeys(families, 0)
        if not families:
            return
        self._is_paged = all("entries" in frame.columns for frame in families.values())
        entries = [
            _with_entries(frame).withColumn("family", functions.lit(name))
            for name, frame in families.items()
        ]
        rows = with_identities(reduce(lambda left, right: left.union(right), entries))
        # Lists and maps give several rows a key. A grouping column would come out as Spark
        # compares it, -0.0 as 0.0; what is aggregated comes out as it is.
        by = (IDENTITY, "partition_id", "family", "entries")
        kept = rows.groupBy(*by).agg(functions.first("key").alias("key")).persist()
        self._old_state = kept
        self._counts |= dict(map(tuple, kept.groupBy("family").sum("entries").collect()))
        self._partitions = _counted(self._distinct(), "partition_id")

    def _distinct(self) -> DataFrame:
        from pyspark.sql import functions

        assert self._old_state is not None  # noqa: S101 - there are families, and they were read
        entries = functions.sum("entries").alias(ENTRIES)
        key = functions.first("key").alias("key")
        return self._old_state.groupBy(IDENTITY, "partition_id").agg(key, entries)

    def _write(self, location: str, query: str, files: int, *more: str) -> None:
        """Write the keys as so many files, in each of them in the order of their places."""
        from pyspark.sql import functions

        if not files:
            return
        number = functions.floor(functions.col("place") * files)
        first = functions.least(number, functions.lit(files - 1))
        twin = functions.col("twin")
        file = functions.when(twin == 0, first).otherwise(files - 1 + twin).cast("int")
        numbered = (
            _with_twins(self._distinct())
            .withColumn("place", self._position_in_partition())
            .withColumn("file", file)
        )
        total = files + self._most_twins
        split = placed(numbered, total, "file").sortWithinPartitions("place")
        marked = split.select("key.*", functions.lit(query).alias(MARKER), *more)
        # A file appears when it is complete: Spark writes it elsewhere and renames it.
        marked.write.option("maxRecordsPerFile", 0).parquet(location)

    @property
    def _most_twins(self) -> int:
        """How many keys at most are equal to another one, to Spark and not in the state."""
        from pyspark.sql import functions

        keys = self._distinct()
        if not has_equal_twins(keys.schema["key"].dataType):
            return 0
        most = _with_twins(keys).agg(functions.max("twin")).collect()[0][0]
        return int(most or 0)

    def _by_chunk(self, location: str) -> dict[str, int]:
        """How many entries are under the keys of each chunk file."""
        from pyspark.sql import functions

        assert self._old_state is not None  # noqa: S101 - what was written is of families
        spark = self._old_state.sparkSession
        chunks = spark.read.schema(f"{ENTRIES} BIGINT").parquet(location)
        name = functions.col("_metadata.file_name").alias("name")
        return dict(map(tuple, chunks.groupBy(name).sum(ENTRIES).collect()))

    def _position_in_partition(self) -> Any:
        """A key's place, 0 to 1: each partition's keys are spread evenly over all of it.

        A chunk whose keys were all in one partition would run on one core alone. The partition's
        own number shifts its first key, so that chunks are alike where there are fewer keys in a
        partition than chunks.
        """
        from pyspark.sql import Window, functions

        window = Window.partitionBy("partition_id")
        position = functions.row_number().over(window.orderBy("key", IDENTITY)) - 1
        shift = functions.col("partition_id") / (max(self._partitions) + 1)
        return (position + shift) / functions.count("*").over(window)


def _with_twins(keys: DataFrame) -> DataFrame:
    """The same with the column ``twin``: how many keys before it are equal to it, to Spark.

    Rows with equal keys in one batch make one group under the key of one of them, so those of a
    control batch must not meet: they lie in files of their own.
    """
    from pyspark.sql import Window, functions

    if not has_equal_twins(keys.schema["key"].dataType):
        return keys.withColumn("twin", functions.lit(0))
    equal = Window.partitionBy("key").orderBy(IDENTITY)
    return keys.withColumn("twin", functions.row_number().over(equal) - 1)


def _with_entries(frame: DataFrame) -> DataFrame:
    # What has many entries under a key, as a page does, says how many.
    from pyspark.sql import functions

    return frame if "entries" in frame.columns else frame.withColumn("entries", functions.lit(1))


def _counted(frame: DataFrame, column: str) -> dict[Any, int]:
    return dict(map(tuple, frame.groupBy(column).count().collect()))


# Planning a backfill: the keys still in an older family, written as files for the backfill source.
#
# Nothing of the query is touched; it may be running. Its batches take one file each.


@dataclass(frozen=True)
class BackfillPlan:
    """A plan: ``keys`` in ``chunks`` files; 0 files if the query cuts chunks while it runs.

    ``families`` has the number of keys of each older family in the plan; a key in several stores
    counts in each. ``withdrawn`` counts the files of the previous plan that the query had not
    taken. For state in pages, both numbers are of entries, ``keys`` is the sum of all families, and
    ``pages`` is the number of their pages; otherwise that is None.
    """

    keys: int
    chunks: int
    families: Mapping[str, int]
    withdrawn: int
    pages: int | None = None


def plan_backfill(
    families: OlderFamilies,
    keys_per_chunk: int = 10_000,
    *,
    pace: BackfillLimits | None = None,
    begin: Callable[[], None] = lambda: None,
) -> BackfillPlan:
    """Write down every key that still has values in another family than its store's target.

    The query must have the backfill source (`stateful`, `with_backfill`); running or stopped, it
    takes one chunk of about ``keys_per_chunk`` keys a batch; with a ``pace`` chunks are cut while
    it runs, each as large as the batches before allow. Whatever an earlier plan left is withdrawn
    first, so that planning again is how a paused backfill is resumed. Values that expire are left
    to do so, unless their scripts say that migrating may restart their time. ``begin`` is called
    when all is checked and nothing changed yet; what it raises ends the planning.

    Raises `CheckpointError` for what is not the checkpoint of such a query, `ScriptError` or
    `LineageError` for scripts that cannot be used, and `StartupError` where they and the state do
    not fit; nothing was changed then. A state that cannot be read is a `CheckpointError` too; the
    earlier plan is withdrawn by then.
    """
    _check_size(keys_per_chunk)
    files = chunk_files(families.path, families.operator)
    query = files.directory.require_query()
    require_control_source(files)
    retried(families.read, families.path)
    begin()
    # Before the state is read: what the query takes in between would be planned again.
    withdrawn = files.withdraw()
    with closing(OlderKeys(families)) as keys:
        plan = keys.write(files, query, keys_per_chunk, pace)
    left = keys.left
    return BackfillPlan(left.keys, plan.chunks, left.families, withdrawn, left.pages)


def _check_size(keys_per_chunk: int) -> None:
    if keys_per_chunk < 1:
        raise StartupError(
            "SM-BACKFILL-007",
            "a chunk needs at least one key",
            expected="keys_per_chunk of 1 or more",
            found=keys_per_chunk,
            next_action="leave it out for 10,000",
        )
