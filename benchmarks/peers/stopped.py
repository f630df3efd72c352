"""A stopped query's backfill, of the checkpoint in a folder, in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from benchmarks.measuring import processor_seconds
from statemigrate import backfill


def main(folder: Path) -> None:
    """Print the seconds that it took, and those of processors, in all of its processes."""
    began, processor = time.perf_counter(), processor_seconds()
    done = backfill(folder / "checkpoint", migrations=folder / "migrations")
    passed = time.perf_counter() - began
    assert sum(done.left.values()) == 0, done
    print(json.dumps({"seconds": passed, "processor": processor_seconds() - processor}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
