"""Whether pages scale with executors: two workers of one core each against one."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.engines import session
from benchmarks.measuring import Result, processor_seconds
from benchmarks.pages import PagedQuery
from benchmarks.processor import Totals

_WARM = 6
"""Batches in which Java and Python warm up, on each executor."""
_MEMORY = 1_536
"""Megabytes of a worker."""
Round = dict[str, float]


def measure(keys: int = 200_000, pages: int = 400, rounds: int = 5) -> list[Result]:
    """Keys a second of batches that touch every key, in pages.

    One executor takes more than one core: Java and Python work at once. ``room`` is how many times
    as fast two can be at most on the cores of this machine; with more machines it is 2.
    """
    one, two = (_measured(workers, keys, pages, rounds) for workers in (1, 2))
    few, many = (statistics.median(each["seconds"] for each in side) for side in (one, two))
    busy = statistics.median(each["processor"] / each["seconds"] for each in one)
    room = (os.cpu_count() or 1) / busy
    figures = {"one": one, "two": two, "cores_busy_with_one": busy, "room": room}
    compared = f"keys/s of {keys:,} keys in {pages} pages, two workers of one core against one"
    return [Result("cluster: two workers", compared, few / many, "at least", 1.7, figures)]


def _measured(workers: int, keys: int, pages: int, rounds: int) -> list[Round]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.cluster",
        *map(str, (workers, keys, pages, rounds)),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: list[Round] = json.loads(done.stdout.splitlines()[-1])
    return found


class _InParts(PagedQuery):
    ROWS_A_GROUP = 10_000


def _main(workers: int, keys: int, pages: int, rounds: int) -> None:
    # Spark's own cluster within one machine: a process for each executor, with Python of its own.
    spark = session(
        f"local-cluster[{workers},1,{_MEMORY}]",
        **{
            "spark.executorEnv.PYTHONPATH": str(Path.cwd()),
            "spark.executor.memory": f"{_MEMORY}m",
            # So that both read the rows of a file.
            "spark.sql.files.maxPartitionBytes": "256k",
        },
    )
    try:
        with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
            query = _InParts(spark, Path(folder, "paged"), pages)
            with query.running(Totals()):
                found = [_round(query, keys) for _ in range(_WARM + rounds)][_WARM:]
    finally:
        spark.stop()
    print(json.dumps(found))


def _round(query: Any, keys: int) -> Round:
    query.write(range(keys))
    before = processor_seconds()
    milliseconds = sum(query.process())
    return {"seconds": milliseconds / 1000, "processor": processor_seconds() - before}


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
