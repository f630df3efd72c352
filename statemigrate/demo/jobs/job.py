"""What the demonstration's processes do, one Spark session each.

Run as ``python -m statemigrate.demo.jobs.job FOLDER ROLE``: ``before``, ``after`` and ``retire``
are the deployments of the streaming query, ``expected`` is the independent batch computation.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pyarrow.parquet as pq

from statemigrate.demo.jobs.embedded import run_embedded
from statemigrate.demo.jobs.expected import compute_expected
from statemigrate.demo.jobs.native import run_native, state_rows
from statemigrate.demo.stage.places import DemoFolder
from statemigrate.demo.stage.session import spark_session
from statemigrate.errors import StatemigrateError


def run_job(folder: DemoFolder, role: str) -> None:
    """Do what ``role`` says; a deployment ends when input and backfill are both done."""
    spark = spark_session(folder)
    is_native = folder.options.engine == "native"
    if role == "expected":
        pq.write_table(compute_expected(spark, folder.events), folder.expected)
        if is_native:
            pq.write_table(state_rows(spark, folder), folder.state)
        return
    run = run_native if is_native else run_embedded
    run(spark, folder, role)


def _end_with_parent() -> None:
    """Standard input ends when the demonstration does, however that happens."""

    def wait() -> None:
        # Not through sys.stdin: its lock would be held when the interpreter shuts down.
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main(arguments: list[str]) -> int:
    """Run one job; an error of this package goes into the folder as a JSON document."""
    root, role = arguments
    folder = DemoFolder(Path(root))
    _end_with_parent()
    try:
        run_job(folder, role)
    except StatemigrateError as error:
        folder.error(role).write_text(json.dumps(error.to_json()))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
