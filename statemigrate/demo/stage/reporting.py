"""From a running query to the lines its process reports, one a batch."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from statemigrate.demo.stage.batch import Batch

_POLL = 0.05  # seconds


@contextmanager
def reported(batches: Callable[[], Sequence[Batch]], path: Path) -> Iterator[None]:
    """Append what ``batches`` gives, which only grows, to ``path`` as it comes."""
    done = threading.Event()
    reporter = threading.Thread(target=_report, args=(batches, path, done))
    reporter.start()
    try:
        yield
    finally:
        done.set()
        reporter.join()


def _report(batches: Callable[[], Sequence[Batch]], path: Path, done: threading.Event) -> None:
    reported = 0
    with path.open("a") as lines:
        while True:
            last = done.wait(_POLL)
            for batch in batches()[reported:]:
                lines.write(json.dumps(asdict(batch)) + "\n")
                reported += 1
            lines.flush()
            if last:
                return
