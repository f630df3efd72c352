"""Reading state that a running query goes on changing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from statemigrate.errors import CheckpointError

T = TypeVar("T")

DEADLINE = 30.0
"""Seconds for which a read is tried again that met a file the query had just removed."""


def patiently(read: Callable[[], T], path: str, *, deadline: float = DEADLINE) -> T:
    """What ``read`` returns, tried again while a running query removes files under it.

    Raises `CheckpointError` when the deadline, in seconds, has passed.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    end, pause = time.monotonic() + deadline, 0.25
    while True:
        try:
            return read()
        except (PySparkException, Py4JJavaError) as error:
            if time.monotonic() + pause > end:
                raise _unreadable(path, error, deadline) from error
        time.sleep(pause)
        pause *= 2


def _unreadable(path: str, error: Exception, deadline: float) -> CheckpointError:
    return CheckpointError(
        f"the state in {path} cannot be read",
        expected=f"a readable state within {deadline:g} seconds",
        found=str(error).partition("\n")[0],
        next_action="if the query is running with very short batches, stop it and try again; "
        "otherwise restore the checkpoint from a copy",
        path=path,
    )
