"""Whether the embedded engine is as fast and as small with a hundred times the state."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.backfilling import backfill_all, peak_of_this_process
from benchmarks.lenses import ORDERS
from benchmarks.measuring import Result, seconds
from benchmarks.peers.counting import run_batch, stores_of
from benchmarks.records import KINDS
from benchmarks.states import OLD_FAMILY, filled, place
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition

_ROWS_A_BATCH = 10_000
_RESTORED = 10.0
"""Seconds that a restore of 3,000,000 records may take."""


def measure(records: int = 1_000_000, rounds: int = 3) -> list[Result]:
    """The rate of a backfill by size, the memory of the process loop by size, and a restore."""
    return [_rate(records, rounds), _memory(records), _restore(3 * records, rounds)]


def _rate(records: int, rounds: int) -> Result:
    """Of processor time, without opening and committing, of which little state has more."""
    small = records // 100
    few = [_seconds(small) / small for _ in range(5 * rounds)]
    many = [_seconds(records) / records for _ in range(rounds)]
    figures = {"records": records, "few_seconds_a_record": few, "many_seconds_a_record": many}
    compared = f"records/s of a processor, {records:,} records against {small:,}, after the start"
    ratio = statistics.median(few) / statistics.median(many)
    return Result("backfill rate by size", compared, ratio, "at least", 0.9, figures)


def _seconds(records: int) -> float:
    with place() as at:
        return backfill_all(at, filled(at, OLD_FAMILY, records), records)


def _memory(keys: int) -> Result:
    small, large = _peak(keys // 10), _peak(keys)
    figures = {"small_bytes": small, "large_bytes": large, "keys": keys}
    compared = f"peak memory of a partition's batch, {keys:,} keys against {keys // 10:,}"
    return Result("process loop memory", compared, large / small, "at most", 1.2, figures)


def _peak(keys: int) -> int:
    command = [sys.executable, "-m", "benchmarks.sizes", str(keys)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(json.loads(done.stdout)["peak"])


def _restore(records: int, rounds: int) -> Result:
    """A partition of a worker that has no copy of it, from a snapshot that nobody has read back."""
    found = []
    with place() as at:
        state = filled(at, ORDERS, records, KINDS[1].value)
        for _ in range(rounds):
            shutil.rmtree(at.working)
            found.append(seconds(lambda: Partition(at, state, 1).abandon()))
        size = sum(each.stat().st_size for each in at.directory.rglob("*") if each.is_file())
    compared = f"seconds, {records:,} records of 20 fields in a partition, against {_RESTORED:g}"
    figures = {"seconds": found, "bytes": size, "records": records}
    ratio = statistics.median(found) / _RESTORED
    return Result("restore", compared, ratio, "at most", 1, figures)


def _rows(keys: int, amount: int) -> Iterator[Any]:
    import pyarrow as pa

    for start in range(0, keys, _ROWS_A_BATCH):
        numbers = range(start, min(start + _ROWS_A_BATCH, keys))
        columns = {
            "key": [f"key-{number:09d}" for number in numbers],
            "amount": pa.array([amount] * len(numbers), pa.int64()),
            "name": [f"name {number % 1000}" for number in numbers],
        }
        yield pa.RecordBatch.from_pydict(columns)


def _main(keys: int) -> None:
    """Two batches that touch every key, one that writes them and one that reads them too."""
    state, stores = PartitionState(), stores_of()
    with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
        for version in range(2):
            rows = _rows(keys, version)
            found, state = run_batch(Path(folder), version, state, stores, rows)
            assert found == keys
        print(json.dumps({"peak": peak_of_this_process()}))


if __name__ == "__main__":
    _main(int(sys.argv[1]))
