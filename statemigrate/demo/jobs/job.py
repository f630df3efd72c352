"""What the demonstration's processes do, one Spark session each.

Run as ``python -m statemigrate.demo.jobs.job FOLDER ROLE``: ``before``, ``after``, ``retire`` and
``finish`` are deployments of the streaming query, ``rewrite`` makes a new checkpoint of it,
``first try`` and ``second try`` preview a change, and ``expected`` is the independent batch
computation.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pyarrow.parquet as pq

from statemigrate.demo.jobs.embedded import run_embedded
from statemigrate.demo.jobs.native import run_native, state_rows
from statemigrate.demo.jobs.output import EXPECTED, EXPECTED_OF_REWRITTEN, compute_expected
from statemigrate.demo.jobs.paged import paged_state_rows, run_paged
from statemigrate.demo.jobs.previewed_aggregation import run_previewing
from statemigrate.demo.jobs.rewritten_aggregation import rewritten_rows, run_rewriting
from statemigrate.demo.paths import DemoFolder
from statemigrate.demo.stage import spark_session
from statemigrate.errors import StatemigrateError


def run_job(folder: DemoFolder, role: str) -> None:
    """Do what ``role`` says; a deployment ends when input and backfill are both done."""
    spark = spark_session(folder)
    engine = folder.options.engine
    if role == "expected":
        query = EXPECTED_OF_REWRITTEN if engine == "rewrite" else EXPECTED
        pq.write_table(compute_expected(spark, folder.events, query), folder.expected)
        if engine in _STATES:
            pq.write_table(_STATES[engine](spark, folder), folder.state)
        return
    _DEPLOYMENTS[engine](spark, folder, role)


_DEPLOYMENTS = {
    **{"embedded": run_embedded, "native": run_native},
    **{"paged": run_paged, "rewrite": run_rewriting, "preview": run_previewing},
}
_STATES = {"native": state_rows, "paged": paged_state_rows, "rewrite": rewritten_rows}


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
