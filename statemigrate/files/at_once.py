"""Several files at a time, since each waits for a disk or a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

_THREADS = 8


def done_at_once(tasks: Mapping[str, Callable[[], None]]) -> Iterator[str]:
    """Do all ``tasks``; each name is given when its own is done. Raises what a task raises."""
    with ThreadPoolExecutor(_THREADS) as threads:
        found = {name: threads.submit(task) for name, task in tasks.items()}
        try:
            for name, each in found.items():
                each.result()
                yield name
        finally:
            # After a failure nothing more is begun.
            threads.shutdown(cancel_futures=True)
