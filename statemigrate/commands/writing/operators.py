"""The state of Spark's own operators, as a checkpoint's files alone describe it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from statemigrate.checkpoint.operators.aggregates import meanings
from statemigrate.checkpoint.operators.catalogue import VARIABLES
from statemigrate.checkpoint.operators.metadata import operator_names
from statemigrate.checkpoint.operators.user_stores import OperatorStore, operator_stores
from statemigrate.checkpoint.shape import describe
from statemigrate.native.seen.seen import directory_of
from statemigrate.state.opening import engine_of


def stores_in_files(
    checkpoint: str | Path, names: Mapping[str, str], operator: int | str | None = None
) -> tuple[Mapping[str, OperatorStore], bool]:
    """The stores of Spark's own operators, and whether the query has no other state.

    None of the embedded engine's. Raises `CheckpointError` for what is no checkpoint, and
    `UnsupportedError` for an operator that is not known.
    """
    if engine_of(checkpoint) == "embedded":
        return {}, False
    directory = directory_of(str(checkpoint))
    names_of_operators = operator_names(directory.files).values()
    if names_of_operators and all(name in VARIABLES.names for name in names_of_operators):
        return {}, False
    shape = describe(directory.files, directory.last_commit())
    found = operator_stores(shape, names)
    chosen = {name: each for name, each in found.items() if operator in (None, each.number)}
    known = {each.number for each in found.values()}
    is_all = all(each.number in known for each in shape.operators)
    return chosen, is_all


def notes_on(store: OperatorStore) -> str:
    """What a script says of a store's columns; nothing where their names say it."""
    told = meanings(store.value) if store.name.startswith("aggregation") else ()
    lines = [f"- {each}" for each in told]
    if not lines:
        return ""
    return "\n".join(["The columns of a value are what Spark's functions keep:", "", *lines])
