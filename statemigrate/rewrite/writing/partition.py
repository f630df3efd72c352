"""What a task of Spark does: it takes the rows of one partition, and writes all stores of it.

Rows come as Arrow batches of several families together: ``partition``, the ``family`` of the row by
its place in the plan, its two hashes, and of each family the columns ``key_<i>`` and ``value_<i>``,
null in the rows of others. Local and mounted disks are written where the task runs; for any other
place the files are handed to the driver, in pieces, which alone can reach it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.checkpoint.operators.shapes import OperatorShape, StoreShape
from statemigrate.errors import RewriteError
from statemigrate.files.local import LocalFiles
from statemigrate.rewrite.plan.file_ids import in_order
from statemigrate.rewrite.rows.arrow.entries import MERGED, ORIGINS
from statemigrate.rewrite.rows.checksum import Checksum
from statemigrate.rewrite.rows.checksums import NAMES
from statemigrate.rewrite.writing.store_files import StoreFiles, StorePlace
from statemigrate.rewrite.writing.tally import Tally

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
                store.name: StoreFiles(self._place(partition, store), Path(scratch))
                for store in self.operator.stores
            }
            totals = {each.number: Tally() for each in self.families}
            for batch in batches:
                _check_partition(batch, partition)
                for each in self.families:
                    totals[each.number] += _put(batch, each, stores[each.store])
            for store in stores.values():
                yield from self._delivered(partition, store.close())
        report = {str(number): tally.to_json() for number, tally in totals.items()}
        yield _row(partition, report=json.dumps(report))

    def _place(self, partition: int, store: StoreShape) -> StorePlace:
        stores = [each.name for each in in_order(self.operator.stores)]
        unique_id = self.ids[partition][stores.index(store.name)] if self.ids else None
        number = self.operator.number
        return StorePlace(number, partition, store, self.version, self.conf, unique_id)

    def _delivered(
        self, partition: int, made: Mapping[str, Path | bytes]
    ) -> Iterator[pa.RecordBatch]:
        for name, content in made.items():
            if self.root is not None:
                LocalFiles(Path(self.root)).put(name, content)
            else:
                for piece in _pieces(content):
                    yield _row(partition, file=name, piece=piece)


def _put(batch: pa.RecordBatch, each: Written, store: StoreFiles) -> Tally:
    """Write the rows of one family in a batch, and count them."""
    is_mine = pc.equal(batch["family"], each.number)
    mine = batch if pc.all(is_mine).as_py() else batch.filter(is_mine)
    if not mine.num_rows:
        return Tally()
    store.put(each.family, mine[f"key_{each.number}"], mine[f"value_{each.number}"])
    sums = [mine[name].to_numpy(zero_copy_only=False).astype(np.uint64).sum() for name in NAMES]
    checksum = Checksum.of(mine.num_rows, *sums)
    return Tally(checksum, pc.sum(mine[ORIGINS]).as_py(), pc.sum(mine[MERGED]).as_py())


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
