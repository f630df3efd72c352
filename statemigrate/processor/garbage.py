"""Python's garbage collector, while many values pass by."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def few_collections() -> Iterator[None]:
    """Let Python look for reference cycles seldom.

    Every row is a container, so with the usual threshold a batch is searched hundreds of times for
    cycles that rows and values do not form.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


_KEPT_AFTER: set[str] = set()


def keep_what_is_loaded(step: str) -> None:
    """In a worker of Spark's: leave all that is there by now out of every search to come.

    After each task the worker looks through everything for cycles, modules and libraries included,
    which takes longer than a small task. ``step`` is what the worker has done for the first time.
    """
    from pyspark import TaskContext

    # Anywhere else the process belongs to the user.
    if step not in _KEPT_AFTER and TaskContext.get() is not None:
        _KEPT_AFTER.add(step)
        gc.freeze()
