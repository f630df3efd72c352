"""Planning a backfill: the keys still in an older family, written as files for the control source.

Nothing of the query is touched; it may be running. Its batches take one file each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from statemigrate.errors import StartupError
from statemigrate.native.backfill.blocks import ENTRIES, KEYS_IN_BLOCK
from statemigrate.native.backfill.chunk_files import ChunkFiles, PlanRecord
from statemigrate.native.backfill.leftovers import older_families
from statemigrate.native.backfill.pace import Pace
from statemigrate.native.backfill.presence import require_control_source
from statemigrate.native.live.control import MARKER
from statemigrate.native.spark_state.patience import patiently
from statemigrate.native.spark_state.placing import placed
from statemigrate.native.spark_state.reader import SparkCheckpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from statemigrate.scripts.survey import Survey

Older = Callable[["SparkCheckpoint", "Survey", Mapping[str, str]], Mapping[str, "DataFrame"]]
"""Finds the families to be emptied, as `older_families` does for variables."""


@dataclass(frozen=True)
class BackfillPlan:
    """What was planned: ``keys`` in ``chunks`` files; 0 where they are cut while the query runs.

    ``families`` has the number of keys of each older family that the plan covers; a key that is in
    several stores is in several of them. ``withdrawn`` counts the files of the plan before that the
    query had not taken. Of state in pages both numbers are of entries, all families' together
    in ``keys``, and ``pages`` is how many pages they are in; else it is None.
    """

    keys: int
    chunks: int
    families: Mapping[str, int]
    withdrawn: int
    pages: int | None = None


@dataclass(frozen=True)
class KeysLeft:
    """The keys with values in older families, as `BackfillPlan` counts them and those of pages."""

    keys: int
    families: Mapping[str, int]
    pages: int | None


def plan_backfill(  # noqa: PLR0913 - all but four by name
    path: str,
    scripts: Survey,
    targets: Mapping[str, str],
    keys_per_chunk: int = 10_000,
    *,
    pace: Pace | None = None,
    operator: int | None = None,
    spark: SparkSession | None = None,
    older: Older = older_families,
    begin: Callable[[], None] = lambda: None,
) -> BackfillPlan:
    """Write down every key that still has values in another family than its store's target.

    The query of the checkpoint ``path`` must have the control source (`with_backfill`); running or
    stopped, it takes one chunk of about ``keys_per_chunk`` keys a batch; with a ``pace`` chunks are
    cut while it runs, each as large as the batches before allow. Whatever an earlier plan left is
    withdrawn first, so that planning again is how a paused backfill is resumed. ``scripts``
    and ``targets`` are those that the query is deployed with. Values that expire are left to do so,
    unless their scripts say that migrating may restart their time. ``operator`` is Spark's number
    of the stateful operator that is meant, where several could be; ``spark`` is the session to read
    with, the active one unless given. ``older`` finds the families to be emptied, for state that is
    laid out otherwise. ``begin`` is called when all is checked and nothing changed yet; what it
    raises ends the planning.

    Raises `CheckpointError` for what is not the checkpoint of such a query, `ScriptError` or
    `LineageError` for scripts that cannot be used, and `StartupError` where they and the state do
    not fit; nothing was changed then. A state that cannot be read is a `CheckpointError` too; the
    earlier plan is withdrawn by then.
    """
    _check_size(keys_per_chunk)
    files = ChunkFiles(path)
    query = files.directory.require_query()
    require_control_source(files)
    reader = SparkCheckpoint(path, spark, operator=operator)
    families = partial(_families, reader, scripts, targets, older)
    patiently(families, path)
    begin()
    # Before the state is read: what the query takes in between would be planned again.
    withdrawn = files.withdraw()
    with closing(_Keys(path, families)) as keys:
        plan = keys.write(files, query, keys_per_chunk, pace)
    left = keys.left
    return BackfillPlan(left.keys, plan.chunks, left.families, withdrawn, left.pages)


def pause_backfill(checkpoint: str | Path) -> int:
    """Withdraw the chunks that the query has not taken yet; how many there were.

    The query may be running, and finishes the chunk it is at. `backfill` resumes: what is
    migrated already is not planned again. Raises `CheckpointError` for what is not a checkpoint.
    """
    files = ChunkFiles(str(checkpoint))
    files.directory.require_query()
    return files.withdraw()


def keys_left(
    reader: SparkCheckpoint,
    scripts: Survey,
    targets: Mapping[str, str],
    older: Older = older_families,
) -> KeysLeft:
    """How many keys have values in older families."""
    families = partial(_families, reader, scripts, targets, older)
    with closing(_Keys(reader.path, families)) as keys:
        return keys.left


class _Keys:
    """The keys to migrate, read once: the state moves on while they are written."""

    def __init__(self, path: str, families: Callable[[], Mapping[str, DataFrame]]) -> None:
        self._counts: dict[str, int] = {}
        self._is_paged = False
        self._partitions: dict[int, int] = {}
        self._kept: DataFrame | None = None
        patiently(lambda: self._read(families()), path)

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
        self, files: ChunkFiles, query: str, keys_per_chunk: int, pace: Pace | None
    ) -> PlanRecord:
        """Write them as chunks, or as blocks for a ``pace``, and the plan when all are there."""
        name, offset = uuid4().hex[:12], files.log().offset
        # Before Spark writes there, which would follow a link in the directory's place.
        files.create()
        if pace is not None:
            blocks = -(-self._total // KEYS_IN_BLOCK)
            self._write(f"{files.waiting}/{name}", query, blocks, ENTRIES)
        else:
            self._write(f"{files.location}/{name}", query, -(-self._total // keys_per_chunk))
        written = sum(each.startswith(f"{name}/") for each in files.written())
        entries = self.left.keys if self._is_paged else None
        plan = PlanRecord(name, self._total, written, offset, pace, tuple(self._counts), entries)
        files.write_plan(plan)
        return plan

    def close(self) -> None:
        """Let Spark drop what it keeps of the keys."""
        if self._kept is not None:
            self._kept.unpersist()

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
        # Lists and maps give several rows a key.
        kept = reduce(lambda left, right: left.union(right), entries).distinct().persist()
        self._kept = kept
        self._counts |= dict(map(tuple, kept.groupBy("family").sum("entries").collect()))
        self._partitions = _counted(self._distinct(), "partition_id")

    def _distinct(self) -> DataFrame:
        from pyspark.sql import functions

        assert self._kept is not None  # noqa: S101 - there are families, and they were read
        entries = functions.sum("entries").alias(ENTRIES)
        return self._kept.groupBy("key", "partition_id").agg(entries)

    def _write(self, location: str, query: str, files: int, *more: str) -> None:
        """Write the keys as so many files, in each of them in the order of their places."""
        from pyspark.sql import functions

        if not files:
            return
        number = functions.floor(functions.col("place") * files)
        numbered = (
            self._distinct()
            .withColumn("place", self._place())
            .withColumn("file", functions.least(number, functions.lit(files - 1)).cast("int"))
        )
        split = placed(numbered, files, "file").sortWithinPartitions("place")
        marked = split.select("key.*", functions.lit(query).alias(MARKER), *more)
        # A file appears when it is complete: Spark writes it elsewhere and renames it.
        marked.write.option("maxRecordsPerFile", 0).parquet(location)

    def _place(self) -> Any:
        """A key's place, 0 to 1: each partition's keys are spread evenly over all of it.

        A chunk whose keys were all in one partition would run on one core alone. The partition's
        own number shifts its first key, so that chunks are alike where there are fewer keys in a
        partition than chunks.
        """
        from pyspark.sql import Window, functions

        mine = Window.partitionBy("partition_id")
        place = functions.row_number().over(mine.orderBy("key")) - 1
        shift = functions.col("partition_id") / (max(self._partitions) + 1)
        return (place + shift) / functions.count("*").over(mine)


def _with_entries(frame: DataFrame) -> DataFrame:
    # What has many entries under a key, as a page does, says how many.
    from pyspark.sql import functions

    return frame if "entries" in frame.columns else frame.withColumn("entries", functions.lit(1))


def _counted(frame: DataFrame, column: str) -> dict[Any, int]:
    return dict(map(tuple, frame.groupBy(column).count().collect()))


def _families(
    reader: SparkCheckpoint, scripts: Survey, targets: Mapping[str, str], older: Older
) -> Mapping[str, DataFrame]:
    if reader.last_batch() is None:
        return {}
    return older(reader, scripts, targets)


def _check_size(keys_per_chunk: int) -> None:
    if keys_per_chunk < 1:
        raise StartupError(
            "a chunk needs at least one key",
            expected="keys_per_chunk of 1 or more",
            found=keys_per_chunk,
            next_action="leave it out for 10,000",
        )
