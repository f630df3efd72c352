"""`rewrite`: a new checkpoint from an old one or from tables, and whether everything is in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from statemigrate.commands.arguments import require_alone, required

if TYPE_CHECKING:
    from statemigrate.commands.new_code import NewCode
    from statemigrate.commands.rewrite import Rewriting
    from statemigrate.commands.seed import Seeding
    from statemigrate.native import Spark
    from statemigrate.rewrite import Progress, RewriteAnswers, RewriteOptions, Verified


@overload
def rewrite(
    old: str | Path,
    new: str | Path,
    *,
    target: NewCode | None = ...,
    options: RewriteOptions | None = ...,
    answers: RewriteAnswers | None = ...,
    migrations: str | Path | None = ...,
    targets: Mapping[str, str] | None = ...,
    stores: Mapping[str, str] | None = ...,
    apply: bool = ...,
    spark: Spark = ...,
    progress: Progress | None = ...,
) -> Rewriting: ...


@overload
def rewrite(
    old: None,
    new: str | Path,
    *,
    tables: Mapping[str, str | Path] | str | Path,
    revisions: Mapping[str, str] | str | None = ...,
    target: NewCode,
    options: RewriteOptions | None = ...,
    answers: RewriteAnswers | None = ...,
    migrations: str | Path | None = ...,
    targets: Mapping[str, str] | None = ...,
    stores: Mapping[str, str] | None = ...,
    apply: bool = ...,
    spark: Spark = ...,
    progress: Progress | None = ...,
) -> Seeding: ...


@overload
def rewrite(
    old: str | Path | None,
    new: str | Path,
    *,
    verify: Literal[True],
    migrations: str | Path | None = ...,
    spark: Spark = ...,
) -> Verified: ...


def rewrite(  # noqa: PLR0913 - all but two by name
    old: str | Path | None,
    new: str | Path,
    *,
    tables: Mapping[str, str | Path] | str | Path | None = None,
    revisions: Mapping[str, str] | str | None = None,
    verify: bool = False,
    target: NewCode | None = None,
    options: RewriteOptions | None = None,
    answers: RewriteAnswers | None = None,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    stores: Mapping[str, str] | None = None,
    apply: bool = False,
    spark: Spark = None,
    progress: Progress | None = None,
) -> Rewriting | Seeding | Verified:
    """Plan the rewrite of the checkpoint ``old`` to a ``new`` one, and make it with ``apply``.

    The old checkpoint is only read. The last file completes the new one: before that no query can
    start on it, and the same call continues after an interruption. ``options`` are the changes
    next to the code, ``answers`` the answers to the plan's questions. Scripts of the folder
    ``migrations`` change a store's values and keys, up to its head or the revision in ``targets``.
    ``stores`` has the project's names for the stores of operators.

    With ``tables`` the new checkpoint is that of a query that has not run, and ``old`` is None. The
    tables are folders of Parquet or JSON, by the names of stores, as in ``aggregation-0``; or a
    single one, if the query has only one state. Columns go into the fields with the same names, or
    as in ``answers.take``. ``target`` is the code of the query, or a checkpoint that it made
    elsewhere. ``revisions`` has the revisions of tables in an older format, which the scripts of
    their stores migrate. The state is that of batch 1: the query continues with batch 2, at
    ``options.offsets`` for each source.

    With ``verify`` this makes nothing, and compares ``new``, which a rewrite has made, with
    ``old``, by default the checkpoint in the record of the rewrite. It reads both again through
    Spark, as of the batch of the rewrite. The rows of ``old`` are compared with the record of the
    rows that the rewrite read, and those of the new one with the record of the rows that it wrote.
    The partition of every key is compared with Spark's hash of it, and the counts of joins with
    their rows. Then the new rows are made again from the old ones, with the scripts of the folder
    ``migrations`` if the rewrite ran some, and must be the same. This detects a script that was
    edited since, or that gives another result each time. The new query may have continued, as long
    as Spark keeps the state of that batch.

    Raises `CheckpointError` and `UnsupportedError` if a checkpoint is not understood, or was not
    made by a rewrite, `CodeError` for the new code, and `RewriteError` for an impossible change,
    for tables that do not fit the state, for open questions with ``apply``, and if this Spark
    itself runs a query on the old checkpoint. Raises `CheckpointInUseError` if another command
    makes a checkpoint in the new place.
    """
    made: dict[str, Any] = {
        "target": target,
        "options": options,
        "answers": answers,
        "migrations": migrations,
        "targets": targets,
        "stores": stores,
        "apply": apply,
        "spark": spark,
        "progress": progress,
    }
    if verify:
        require_alone("rewrite", "verify", tables=tables, target=target, apply=apply or None)
        from statemigrate.commands.rewrite import verify as compare

        return compare(old, new, migrations=migrations, spark=spark)
    if tables is not None:
        require_alone("rewrite", "tables", old=old)
        required("rewrite", target, "the code of the query, as target")
        from statemigrate.commands.seed import seed

        return seed(new, tables, revisions=revisions, **made)
    from statemigrate.commands.rewrite import rewrite as rewritten

    return rewritten(required("rewrite", old, "an old checkpoint, or tables"), new, **made)
