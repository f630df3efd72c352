"""The command that ``make soak`` runs."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from soak.runner import soak

ENGINES = ("embedded", "native", "paged", "embedded_queries", "ways_back", "s3", "rivals")


def main() -> int:
    """Parse, run, and tell with the exit code whether anything was wrong."""
    parser = argparse.ArgumentParser(prog="make soak", description="Histories at random.")
    parser.add_argument("--engine", choices=ENGINES, default="embedded")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first history")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    memory = "/dev/shm"  # noqa: S108 - files that live for a second each
    place = memory if os.access(memory, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="statemigrate-soak-", dir=place))
    # Ended from outside, it leaves nothing behind either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    engine = importlib.import_module(f"soak.{options.engine}").engine(folder)
    try:
        figures = soak(engine, options.engine, options.minutes * 60, seed, _say)
    finally:
        engine.close()
    return 1 if figures.wrong else 0


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
