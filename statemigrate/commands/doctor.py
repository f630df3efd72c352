"""`doctor`: what may keep a query or a command from working, and what to do about each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.commands.examination import (
    Diagnosis,
    Examined,
    examined_machine,
    examined_workers,
)
from statemigrate.errors import StatemigrateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.native.session import Spark


def doctor(
    checkpoint: str | Path | None = None,
    *,
    write: bool = True,
    operator: int | str | None = None,
    spark: Spark = None,
) -> Diagnosis:
    """Check the requirements of queries and commands, here, on the workers and at a checkpoint.

    Here: Java, PySpark, the packages and their versions, the temporary directory. On the workers of
    ``spark``, a session or a function that makes one, the active one by default: the same packages,
    by a task on each executor. Without any session the result is a warning. At ``checkpoint``, a
    path or a URI: whether its file system answers, and through which connector; what kind of
    checkpoint it is; whether this user may create, create only once and delete a file there (its
    own test file, which is removed; not with ``write=False``); whether Spark keeps batches as long
    as a look takes; the backfill's chunk files; and who uses it. The query may be running.
    ``operator`` is the number or name of the operator, if there are several.

    Problems raise no error: they are in the result, and in its ``verdict``.
    """
    named = None if checkpoint is None else str(checkpoint)
    return Diagnosis(named, tuple(_examined(named, write=write, operator=operator, spark=spark)))


def _examined(
    checkpoint: str | None, *, write: bool, operator: int | str | None, spark: Spark
) -> Iterator[Examined]:
    machine = tuple(examined_machine())
    yield from machine
    has_spark = all(each.verdict == "ok" for each in machine if each.subject in ("spark", "java"))
    session: SparkSession | None = None
    if has_spark:
        try:
            session = _session(spark)
        except Exception as error:
            # Whatever keeps Spark from starting is what was asked for.
            yield Examined(
                "workers",
                "problem",
                f"Spark does not start: {type(error).__name__}: {_first_line(error)}",
                "look at what Spark says: `--debug` of a command shows all of it",
            )
        else:
            yield _workers_not_asked(None) if session is None else examined_workers(session)
    else:
        yield _workers_not_asked("Spark cannot start here")
    if checkpoint is None:
        return
    from statemigrate.commands.doctor_checkpoint import examined_checkpoint

    yield from examined_checkpoint(checkpoint, write=write, operator=operator, session=session)


def _session(spark: Spark) -> SparkSession | None:
    from pyspark.sql import SparkSession

    if spark is None:
        return SparkSession.getActiveSession()
    return spark if not callable(spark) else spark()


def _workers_not_asked(why: str | None) -> Examined:
    return Examined(
        "workers",
        "warning",
        f"not asked: {why or 'there is no session'}",
        "correct what is above" if why else "pass spark=, the session that the query has",
    )


def _first_line(error: Exception) -> str:
    if isinstance(error, StatemigrateError):
        return f"{error.headline}: {error.found}"
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
