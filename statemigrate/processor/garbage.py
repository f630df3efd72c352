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
