"""Makes Spark's Python workers in place of PySpark's own module: a task may be told to end.

The file that the variable `ORDER` of the environment names has a point. A task that writes takes
the order to itself, so that the task which Spark makes instead lives; with ``again`` every one
obeys it. Workers must not be used for a second task.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pyspark import daemon

from support.crash.library import Point, arm

ORDER = "STATEMIGRATE_TEST_WORKERS"


def run(connection: Any, authenticated: bool) -> int:
    """What a worker does, once it is a process of its own."""
    from statemigrate.rewrite import rocksdb_writing as rocksdb_store
    from statemigrate.rewrite.store_writers import PartitionTask

    # As little as a test has becomes tables too.
    rocksdb_store.FEW = 0
    as_ever = PartitionTask.write

    def write(task: PartitionTask, *arguments: Any) -> Any:
        point = _point()
        if point is not None:
            arm(Path(os.environ["LD_PRELOAD"]), point)
        return as_ever(task, *arguments)

    PartitionTask.write = write  # type: ignore[method-assign]
    return _as_ever(connection, authenticated)


def _point() -> Point | None:
    path = Path(os.environ[ORDER])
    try:
        order = json.loads(path.read_text())
        if not order["again"]:
            path.unlink()
    except FileNotFoundError:
        return None
    return Point.from_json(order["point"])


if __name__ == "__main__":
    _as_ever = daemon.worker
    daemon.worker = run
    daemon.manager()
