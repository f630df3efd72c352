"""`doctor`: what may keep a query or a command from working, and what to do about each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from statemigrate.commands.arguments import required
from statemigrate.commands.examination import (
    Diagnosis,
    Examined,
    examined_machine,
    examined_workers,
)
from statemigrate.commands.repair import Repair
from statemigrate.commands.repair import repair as repaired
from statemigrate.errors import StatemigrateError
from statemigrate.native import WATCHED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.commands.new_code import NewCode
    from statemigrate.native import Spark


@overload
def doctor(
    checkpoint: str | Path | None = ...,
    *,
    write: bool = ...,
    operator: int | str | None = ...,
    spark: Spark = ...,
) -> Diagnosis: ...


@overload
def doctor(
    checkpoint: str | Path,
    *,
    repair: Literal[True],
    apply: bool = ...,
    back_to: int | None = ...,
    working_directory: str | Path | None = ...,
    new: str | Path | None = ...,
    accept: Sequence[str] = ...,
    wait: float = ...,
    migrations: str | Path = ...,
    accept_edited: Sequence[str] = ...,
    operator: int | str | None = ...,
    target: NewCode | None = ...,
    sources: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> Repair: ...


def doctor(  # noqa: PLR0913 - all but one by name
    checkpoint: str | Path | None = None,
    *,
    write: bool = True,
    repair: bool = False,
    apply: bool = False,
    back_to: int | None = None,
    working_directory: str | Path | None = None,
    new: str | Path | None = None,
    accept: Sequence[str] = (),
    wait: float = WATCHED,
    migrations: str | Path = "migrations",
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    target: NewCode | None = None,
    sources: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Diagnosis | Repair:
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

    With ``repair`` this finds damage in the checkpoint of a stopped query, and repairs it. Without
    ``apply`` nothing is changed: the result lists the damage and the possible repairs. With it,
    they are made.

    **The embedded engine**: every durable file of every kept version is compared with its checksum.
    A partition with damaged files is made from a proven working copy, from its base, or from the
    files of older versions. It is stored again, read back and compared. ``working_directory`` is
    the query's own, if it has one. If the last committed version cannot be made, the query can go
    ``back_to`` an older complete one. The batches after it run again, so their output reaches the
    sink a second time. Entries that are removed from Spark's logs are set aside.

    **Spark's own state**: the state of the newest batch is read. If it is damaged, the code of the
    query, in ``target``, computes it again: from the newest batch whose state is whole, on the
    input of the batches since, with their time and watermarks and without the sink. It is as in
    `preview`, which describes ``sources``. The ``new`` checkpoint goes on after the newest batch.
    The code runs twice: its watermarks, and all state that can still be read, must be the same.

    Where the state is whole, forgotten families come back. Spark forgets families that code without
    statemigrate does not declare. They are read as of the last batch that had them, and restored in
    the ``new`` checkpoint, by default next to the old one, which is only read. A key with a newer
    value keeps it, and a key that was deleted since stays deleted. ``accept`` answers questions
    that no file answers; ``accept_edited`` names families to give up. ``wait`` is the number of
    seconds for which the checkpoint is watched. ``migrations``, ``operator`` and ``spark`` are as
    in `backfill`.

    A repair raises `CheckpointInUseError` while the query runs, and `CheckpointError` if
    ``checkpoint`` is not the checkpoint of a query with state. Nothing is changed then.
    """
    if repair:
        return repaired(
            required("doctor", checkpoint),
            apply=apply,
            back_to=back_to,
            working_directory=working_directory,
            new=new,
            accept=accept,
            wait=wait,
            migrations=migrations,
            accept_edited=accept_edited,
            operator=operator,
            target=target,
            sources=sources,
            spark=spark,
        )
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
