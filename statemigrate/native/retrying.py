"""Reading state that a running query goes on changing: what it overtakes is read again.

Spark keeps the state of its last batches only. A read that takes longer than those last, or that
began at one of the oldest, finds files gone. It is made again as a whole: with another reader, at
the batch that is the newest by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from statemigrate.checkpoint.logs import batches_in, names_in
from statemigrate.errors import CheckpointError, StorageError
from statemigrate.files import files_to_read

P = ParamSpec("P")
T = TypeVar("T")

ATTEMPTS = 4
"""How often a read is made at least that a running query overtakes each time."""
DEADLINE = 30.0
"""Seconds for which it is made again, however many attempts that are."""
RETAINED = "spark.sql.streaming.minBatchesToRetain"
"""The query's setting that says of how many batches Spark keeps the state."""
_PAUSE = 0.25
_MISSING = ("SM-CHECKPOINT-017", "SM-CHECKPOINT-022", "SM-CHECKPOINT-023")
"""The codes of the errors for a file that is not there."""


def looks_again(look: Callable[P, T]) -> Callable[P, T]:
    """The same function of a ``checkpoint``, called again where a running query overtook it.

    It has to open the checkpoint itself. Raises what it raises, and `CheckpointError` as `retried`.
    """
    parameters = signature(look)

    @wraps(look)
    def again(*args: P.args, **kwargs: P.kwargs) -> T:
        path = str(parameters.bind(*args, **kwargs).arguments["checkpoint"])
        return retried(lambda: look(*args, **kwargs), path)

    return again


def retried(read: Callable[[], T], path: str) -> T:
    """What ``read`` returns of the checkpoint ``path``; it opens a reader of its own each time.

    It is called again while the query goes on committing, `ATTEMPTS` times or for `DEADLINE`
    seconds, whichever is more, and as often where the store broke off what Spark read. Raises
    `CheckpointError` then, and where Spark cannot read the newest batch of all; `StorageError`
    for what the store did.
    """
    end, attempt, before = time.monotonic() + DEADLINE, 0, -1
    while True:
        attempt, began = attempt + 1, time.monotonic()
        try:
            return read()
        except Exception as error:
            if not _is_of_a_read(error, path):
                raise
            newest, now = _newest(path), time.monotonic()
            if attempt > 1 and newest == before:
                # Nobody has taken anything away meanwhile: another attempt would find the same.
                if _is_of_python(error):
                    raise
                failure = _of_store(error, path)
                if failure is None:
                    raise _unreadable(path, newest, error) from error
                if attempt >= ATTEMPTS or not _is_broken_off(failure):
                    raise failure from error
            if attempt >= ATTEMPTS and now + _PAUSE > end:
                raise _overtaken(path, attempt, newest - before, now - began, error) from error
        before = newest
        time.sleep(_PAUSE)


def whole(read: Callable[[], T], path: str) -> T:
    """What ``read`` returns of the checkpoint ``path`` while nobody takes files away.

    It is called again where the store broke off what Spark read. Raises `StorageError` for what a
    store does else, and for that after `ATTEMPTS`; all other errors are left as they are.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return read()
        except Exception as error:
            failure = _of_store(error, path) if _is_of_java(error) else None
            if failure is None:
                raise
            if attempt == ATTEMPTS or not _is_broken_off(failure):
                raise failure from error
            time.sleep(_PAUSE)
    raise AssertionError("unreachable")


def _of_store(error: Exception, path: str) -> StorageError | None:
    from statemigrate.files import failure_of_store

    return failure_of_store("reading", path, error)


def _is_broken_off(failure: StorageError) -> bool:
    from statemigrate.files import CutOffError

    return isinstance(failure, CutOffError)


def _newest(path: str) -> int:
    return max(batches_in(names_in(files_to_read(path), "commits")), default=-1)


def _is_of_a_read(error: Exception, path: str) -> bool:
    """Whether it is Spark's, or that of a file of the checkpoint that is not there."""
    if isinstance(error, FileNotFoundError):
        return path.rstrip("/").rpartition("/")[2] in str(error)
    return _is_of_java(error) or is_missing(error)


def is_missing(error: BaseException) -> bool:
    """Whether a file of a checkpoint was not there, which a running query may have removed."""
    return isinstance(error, FileNotFoundError) or getattr(error, "code", None) in _MISSING


def _is_of_java(error: Exception) -> bool:
    # By name: nothing of Spark is loaded for state that it does not keep.
    modules = {each.__module__.partition(".")[0] for each in type(error).__mro__}
    return bool(modules & {"py4j", "pyspark"})


def _is_of_python(error: Exception) -> bool:
    """Whether it comes from code in Python, here or on a worker, and tells nothing of the state."""
    return type(error).__name__ == "PythonException" or is_missing(error)


def _overtaken(
    path: str, attempts: int, batches: int, seconds: float, error: Exception
) -> CheckpointError:
    # Twice as many as were committed while it was read, since reads are not alike.
    enough = max(2 * batches, 2) + 2
    return CheckpointError(
        "SM-STATE-029",
        f"the running query of {path} removes its state faster than it can be read",
        expected="a batch whose state Spark keeps until it is read",
        found=f"{attempts} attempts, each at the newest batch; {batches} batches were committed in "
        f"the {seconds:.1f} seconds of the last: {_first_line(error)}",
        next_action=f"start the query with {RETAINED} of {enough} or more (100 unless it was set "
        "lower), or with longer triggers; of a stopped query everything can be read",
        path=path,
        attempts=attempts,
        batches=batches,
    )


def _unreadable(path: str, newest: int, error: Exception) -> CheckpointError:
    return CheckpointError(
        "SM-STATE-030",
        f"the state in {path} cannot be read",
        expected=f"a readable state of batch {newest}, the newest",
        found=_first_line(error),
        next_action="no query has removed it meanwhile: look at the cause above; where a file is "
        "missing or damaged, restore the checkpoint from a copy",
        path=path,
        batch=newest,
    )


def _first_line(error: Exception) -> str:
    """What Java says of an error; of one that others enclose what the innermost says."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    if lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        lines = lines[1:]
    return causes[-1].removeprefix("Caused by: ") if causes else lines[0].removeprefix(": ")
