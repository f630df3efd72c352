"""First scripts for stores that have state and no script yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.commands.writing.new import NewScript
from statemigrate.deployment import StoredStore
from statemigrate.errors import LineageError
from statemigrate.scripts import ScriptFolder
from statemigrate.scripts.survey import Survey
from statemigrate.state.opening import open_state
from statemigrate.state.protocol import State, stored_store

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark

MESSAGE = "the format the state has today"


def baseline(
    checkpoint: str | Path,
    message: str = MESSAGE,
    *,
    store: str | None = None,
    migrations: str | Path = "migrations",
    operator: int | None = None,
    spark: Spark = None,
) -> tuple[NewScript, ...]:
    """Write a baseline for ``store``, or for every store that has no script, as the state is.

    The format is what the checkpoint really holds: the embedded engine's own note of it, or the
    schema of Spark's state. Spark's own state is read with ``spark``, the active session unless
    given, or a function that makes one.

    Raises `LineageError` for a store that has scripts, and `CheckpointError` for one that the
    checkpoint does not hold, or for what is no checkpoint.
    """
    folder = ScriptFolder(migrations)
    scripts = folder.survey()
    with closing(open_state(str(checkpoint), {}, operator=operator, spark=spark)) as state:
        chosen = list(_chosen(scripts, state, store))
    return tuple(_written(folder, scripts, name, stored, message) for name, stored in chosen)


def _chosen(scripts: Survey, state: State, store: str | None) -> Iterator[tuple[str, StoredStore]]:
    scripted = scripts.stores
    if store is not None:
        yield store, stored_store(state, store)
        return
    yield from ((name, each) for name, each in state.stores.items() if name not in scripted)


def _written(
    folder: ScriptFolder, scripts: Survey, store: str, stored: StoredStore, message: str
) -> NewScript:
    if len(stored.families) > 1:
        raise LineageError(
            f"store {store} has been migrated already: it has {len(stored.families)} families",
            expected="state in one format, from before the first migration",
            found=", ".join(each.name for each in stored.families),
            next_action="check out the scripts that this checkpoint was last run with",
            store=store,
        )
    path = folder.new(store, message, new=stored.target.format, baseline=True, scripts=scripts)
    return NewScript(store, path, True)
