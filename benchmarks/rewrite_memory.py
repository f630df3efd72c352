"""The memory of a task that reads, changes and writes a partition: by its number of rows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.backfilling import peak_of_this_process
from benchmarks.measuring import Result
from statemigrate.checkpoint.shape import describe
from statemigrate.checkpoint.state import partitions_of, stored_family, stored_partitions
from statemigrate.files import LocalFiles
from statemigrate.rewrite.entry_functions import change_task
from statemigrate.rewrite.file_reading import StoredFlow
from statemigrate.rewrite.partitioning import Placing
from statemigrate.rewrite.rewrite_plan import make_plan
from statemigrate.rewrite.store_writers import PartitionTask, StoreAddress, StoreFiles, Written

_MANY = 50_000


def memory(checkpoint: Path, rows: int) -> Result:
    """Of a partition with ``rows`` of the ``checkpoint``'s shape against one with a third."""
    small, large = _peak(checkpoint, rows // 3), _peak(checkpoint, rows)
    figures = {"small_bytes": small, "large_bytes": large, "rows": rows}
    compared = f"peak memory of a task, {rows:,} rows in its partition against {rows // 3:,}"
    return Result("rewrite, memory", compared, large / small, "at most", 1.2, figures)


def _peak(checkpoint: Path, rows: int) -> int:
    with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
        filled = Path(folder, "old")
        shutil.copytree(checkpoint, filled, ignore=shutil.ignore_patterns("SSTs", "*.zip"))
        _fill(filled, rows)
        command = [sys.executable, "-m", "benchmarks.rewrite_memory", folder]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert found["rows"] == rows
    return int(found["peak"])


def _fill(checkpoint: Path, rows: int) -> None:
    """Give partition 0 so many rows, and the others none."""
    files = LocalFiles(checkpoint)
    shape = make_plan(describe(files), None).new
    operator = shape.operators[0]
    store = operator.stores[0]
    for partition in range(store.partitions):
        place = StoreAddress(operator.number, partition, store, shape.batch + 1, shape.conf)
        with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as scratch:
            writer = StoreFiles(place, Path(scratch))
            for keys, values in _batches(checkpoint, rows if partition == 0 else 0):
                writer.put(store.families[0].name, keys, values)
            for name, content in writer.close().items():
                files.put(name, content)


def _batches(checkpoint: Path, rows: int):  # type: ignore[no-untyped-def]
    family = make_plan(describe(LocalFiles(checkpoint)), None).operators[0].families[0]
    operator, place = describe(LocalFiles(checkpoint)).operators[0], family.new
    start = 0
    while rows:
        names = pa.array([f"customer-{number:012d}" for number in range(start, start + _MANY)])
        keys = pa.StructArray.from_arrays([names], ["customer"])
        mine = np.flatnonzero(partitions_of(operator, place.store, place.family, keys) == 0)[:rows]
        count = pa.array(mine.astype(np.int64))
        yield (
            keys.take(pa.array(mine)),
            pa.StructArray.from_arrays([count, count], ["count", "sum"]),
        )
        rows, start = rows - len(mine), start + _MANY


def _rewrite_in_this_process(folder: Path) -> None:
    """What a task of a rewrite does with partition 0."""
    files = LocalFiles(folder / "old")
    plan = make_plan(describe(files), None)
    old, new = plan.old.operators[0], plan.new.operators[0]
    family = plan.operators[0].families[0]
    change = change_task(family, {})
    assert family.old is not None
    assert change is not None
    written = Written(0, family.new.store.name, family.new.family.name)
    task = PartitionTask(new, (written,), plan.new.batch + 1, plan.new.conf, str(folder / "new"))
    store = family.old.store
    parts = stored_partitions(files, plan.old, old, store)
    stored = stored_family(files, plan.old, old, store, family.old.family, parts=parts)
    flow = StoredFlow(stored, change, Placing(0, new, family.new))
    (folder / "new").mkdir()
    *_, last = task.write(0, flow.staying(0))
    rows = json.loads(last["report"][0].as_py())["0"]["rows"]
    print(json.dumps({"peak": peak_of_this_process(), "rows": rows}))


if __name__ == "__main__":
    _rewrite_in_this_process(Path(sys.argv[1]))
