"""First scripts for stores that have state and no script yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators.user_stores import OperatorStore
from statemigrate.commands.writing.new import NewScript
from statemigrate.commands.writing.operators import notes_on, stores_in_files
from statemigrate.deployment import StoredStore
from statemigrate.errors import LineageError
from statemigrate.formats import Format
from statemigrate.formats.struct_format import struct_from_json
from statemigrate.native.spark_state.retrying import looks_again
from statemigrate.scripts import ScriptFolder
from statemigrate.scripts.survey import Survey
from statemigrate.state.opening import open_state
from statemigrate.state.protocol import State, stored_store, told_stores

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark

MESSAGE = "the format the state has today"


@dataclass(frozen=True)
class _Found:
    """What a script of a store records: its value, of an operator's state the key, and notes."""

    value: Format
    key: Format | None = None
    notes: str = ""


def baseline(
    checkpoint: str | Path,
    message: str = MESSAGE,
    *,
    store: str | None = None,
    migrations: str | Path = "migrations",
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> tuple[NewScript, ...]:
    """Write a baseline for ``store``, or for every store that has no script, as the state is.

    The format is what the checkpoint really holds: the embedded engine's own note of it, or the
    schema of Spark's state. Of Spark's own operators, called by kind and number or as ``stores``
    says, it is in the checkpoint's files. Spark's other state is read with ``spark``, the active
    session unless given, or a function that makes one.

    Raises `LineageError` for a store that has scripts, and `CheckpointError` for one that the
    checkpoint does not hold, or for what is no checkpoint.
    """
    folder = ScriptFolder(migrations)
    scripts = folder.survey()
    found = _in_files(checkpoint, scripts, store, operator, stores or {})
    if found is None:
        chosen = _in_state(checkpoint, scripts, store, operator, stores, spark)
        found = {name: _Found(_only_format(name, each)) for name, each in chosen.items()}
    return tuple(_written(folder, scripts, name, each, message) for name, each in found.items())


def _in_files(
    checkpoint: str | Path,
    scripts: Survey,
    store: str | None,
    operator: int | str | None,
    names: Mapping[str, str],
) -> Mapping[str, _Found] | None:
    """What the files alone tell; None where they do not tell it."""
    there, is_all = stores_in_files(checkpoint, names, operator)
    if store is not None and store in there:
        wanted = {store}
    elif store is None and is_all:
        wanted = there.keys() - set(scripts.stores)
    else:
        return None
    return {name: _described(each) for name, each in there.items() if name in wanted}


@looks_again
def _in_state(
    checkpoint: str | Path,
    scripts: Survey,
    store: str | None,
    operator: int | str | None,
    stores: Mapping[str, str] | None,
    spark: Spark,
) -> Mapping[str, StoredStore]:
    with closing(
        open_state(str(checkpoint), {}, operator=operator, stores=stores, spark=spark)
    ) as state:
        return dict(_chosen(scripts, state, store))


def _described(store: OperatorStore) -> _Found:
    # No script changes the keys of a join: both sides would have to change alike.
    key = None if store.is_join else struct_from_json(store.key)
    return _Found(struct_from_json(store.value), key, notes_on(store))


def _chosen(scripts: Survey, state: State, store: str | None) -> Iterator[tuple[str, StoredStore]]:
    scripted = scripts.stores
    if store is not None:
        yield store, stored_store(state, store)
        return
    told = told_stores(state, ())
    yield from ((name, each) for name, each in told.items() if name not in scripted)


def _only_format(store: str, stored: StoredStore) -> Format:
    if len(stored.families) > 1:
        raise LineageError(
            "SM-LINEAGE-005",
            f"store {store} has been migrated already: it has {len(stored.families)} families",
            expected="state in one format, from before the first migration",
            found=", ".join(each.name for each in stored.families),
            next_action="check out the scripts that this checkpoint was last run with",
            store=store,
        )
    return stored.target.format


def _written(
    folder: ScriptFolder, scripts: Survey, store: str, found: _Found, message: str
) -> NewScript:
    path = folder.new(
        store,
        message,
        new=found.value,
        new_key=found.key,
        notes=found.notes,
        baseline=True,
        scripts=scripts,
    )
    return NewScript(store, path, True)
