"""Opening a checkpoint of either engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal

from statemigrate.deployment import is_family_of, store_of
from statemigrate.errors import CheckpointError, LineageError, UnsupportedError, did_you_mean
from statemigrate.migration import Lineage
from statemigrate.native.seen.seen import directory_of
from statemigrate.shell import argument
from statemigrate.state.embedded import EmbeddedState
from statemigrate.state.protocol import State, no_such_store

if TYPE_CHECKING:
    from pathlib import Path

    from statemigrate.native.spark_state.session import Spark

Engine = Literal["embedded", "native"]


def engine_of(checkpoint: str | Path) -> Engine:
    """What keeps the state of this checkpoint.

    Raises `CheckpointError` for what is not the checkpoint of a query that keeps state.
    """
    if is_embedded(checkpoint):
        return "embedded"
    directory = directory_of(str(checkpoint))
    has_commits = directory.has("commits")
    if has_commits and directory.has("state"):
        return "native"
    raise CheckpointError(
        "SM-CHECKPOINT-032",
        f"{checkpoint} is not the checkpoint of a stateful query",
        expected="a checkpoint directory of Spark's, with state/ or statemigrate/versions/ in it",
        found=_found(has_commits, directory.exists),
        next_action="name the directory that the query has as its checkpointLocation; "
        "its first batch makes the state",
        path=str(checkpoint),
    )


def is_embedded(checkpoint: str | Path) -> bool:
    """Whether the embedded engine keeps its state in this directory."""
    return directory_of(str(checkpoint)).is_embedded


def open_state(
    checkpoint: str,
    lineages: Mapping[str, Lineage],
    *,
    targets: Mapping[str, str] | None = None,
    operator: int | str | None = None,
    spark: Spark = None,
    stores: Mapping[str, str] | None = None,
) -> State:
    """The committed state of a checkpoint, read without disturbing a query that may be running.

    ``spark`` is needed for Spark's own state, a session or a function that makes one; the active
    session is used unless it is given.
    ``operator`` is the number or name of the operator, where several could be meant;
    ``stores`` has the operators' stores that have a name of the user's own, by that name.
    Raises `CheckpointError` where there is nothing to read, `LineageError` for a target of a store
    that ``lineages`` do not have.
    """
    if lineages:
        require_scripted(targets or {}, lineages)
    if engine_of(checkpoint) == "embedded":
        return EmbeddedState(checkpoint)
    from statemigrate.native.spark_state.session import session_of
    from statemigrate.state.opening_spark import open_spark_state

    session = session_of(spark, checkpoint)
    return open_spark_state(
        checkpoint, lineages, targets or {}, operator=operator, stores=stores or {}, session=session
    )


def require_scripted(targets: Mapping[str, str], stores: Collection[str]) -> None:
    """Raise `LineageError` for a target that is of none of the stores with scripts."""
    for store in sorted(targets.keys() - set(stores)):
        meant = did_you_mean(store, stores)
        raise LineageError(
            "SM-LINEAGE-028",
            f"A target is named for {store}, which has no scripts, or broken ones.",
            expected=f"one of {', '.join(sorted(stores))}",
            found=f"{store}={targets[store]}",
            next_action=f"correct the store in targets, or --target{meant}; for broken ones, "
            "`statemigrate check`",
            store=store,
        )


def _found(has_commits: bool, exists: bool) -> str:
    if has_commits:
        return "a query's checkpoint without state: no batch has kept any"
    return "a directory without either" if exists else "no such directory"


def require_store(checkpoint: str, store: str) -> None:
    """Raise `CheckpointError` if the files of a checkpoint alone tell that it has no such store."""
    if engine_of(checkpoint) == "embedded":
        return
    from statemigrate.checkpoint.operators.metadata import known_variables
    from statemigrate.pages.record import is_marker, is_paged, records

    files = directory_of(checkpoint).files
    variables = known_variables(files)
    if variables is not None and is_paged(files):
        # Another operator of the query may have variables of its own.
        own = {name for name in variables if not is_marker(name)}
        known = [store for each in records(files).values() for store in each.stores]
        variables = frozenset({*own, *known}) if known else None
    if variables is None or any(is_family_of(store, name) for name in variables):
        return
    # Spark keeps variables of its own, with a dollar in front.
    stores = sorted({store_of(name) for name in variables if not name.startswith("$")})
    raise no_such_store(checkpoint, store, stores)


def require_own_state(checkpoint: str) -> None:
    """Raise `UnsupportedError` for state that only Spark's own operators keep.

    No running query migrates it. What a function of ``applyInPandasWithState`` keeps may be.
    """
    from statemigrate.checkpoint.operators.catalogue import GROUPS, VARIABLES
    from statemigrate.checkpoint.operators.metadata import operator_names

    names = set(operator_names(directory_of(checkpoint).files).values())
    own = set(VARIABLES.names) | set(GROUPS.names)
    if names and not names & own:
        raise UnsupportedError(
            "SM-REWRITE-061",
            f"no running query migrates the state in {checkpoint}: it is that of Spark's operators",
            expected="state of a processor or function of yours",
            found=", ".join(sorted(names)),
            next_action=f"stop the query and `statemigrate rewrite {argument(checkpoint)} NEW "
            "--code "
            "MODULE:FUNCTION`, which makes a new checkpoint from it",
            path=checkpoint,
        )
