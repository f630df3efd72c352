"""The variables of code that ran a batch again which other code had begun.

At the first batch of a run Spark writes ``state/<operator>/_metadata/v2/<batch>``, which names the
schema files of the code's variables. A batch that was killed has that file already; when other code
runs it again, Spark writes another schema file, and leaves the metadata as it is. So until the next
run a schema file that the metadata do not name is all that tells of the other code's variables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from statemigrate.checkpoint.logs import batches_in, names_in
from statemigrate.checkpoint.operators.catalogue import (
    COUNT,
    DEFAULT,
    ROW_COUNTER,
    TTL,
    is_internal,
)
from statemigrate.checkpoint.operators.metadata import (
    LARGEST,
    OperatorEntry,
    OperatorFile,
    operator_files,
    parse_properties,
)
from statemigrate.checkpoint.operators.schemas import FamilySchema, parse_schemas
from statemigrate.files import Files, whole_number

SCHEMAS = "state/{}/_stateSchema/default"
"""The folder of an operator's schema files, by its number."""


def schema_batches(files: Files, operator: int | str) -> dict[str, int]:
    """The names of an operator's schema files, and for each the batch in which it was written."""
    names = names_in(files, SCHEMAS.format(operator))
    batches = {name: schema_batch(name) for name in names}
    return {name: batch for name, batch in batches.items() if batch is not None}


def schema_batch(name: str) -> int | None:
    """The batch in which a schema file was written, by its name; None for another file."""
    return whole_number(name.partition("_")[0])


def with_reruns(files: Files, entry: OperatorEntry, run: int, batch: int) -> OperatorEntry:
    """The metadata of a ``run``, with the variables too of code that ran a batch of it again.

    ``run`` is its first batch; code that ran batches after ``batch`` does not count. What each
    such variable is, its schemas tell. Raises `CheckpointError` for a schema file that is not what
    Spark writes.
    """
    named = {each.rpartition("/")[2] for store in entry.stores for each in store.schemas}
    written = schema_batches(files, entry.number)
    unnamed = sorted(
        (name for name, at in written.items() if run <= at <= batch and name not in named),
        key=written.__getitem__,
    )
    if not unnamed:
        return entry
    path = f"{files.location}/state/{entry.number}/_metadata/v2/{run}"
    properties = dict(parse_properties(entry, path) or {})
    found = properties.get("stateVariables", [])
    if not isinstance(found, list):
        return entry
    paths = tuple(f"{SCHEMAS.format(entry.number)}/{name}" for name in unnamed)
    listed = [*found]
    known = {str(each.get("stateName")) for each in listed if isinstance(each, dict)}
    for schemas in paths:
        for each in _variables(read_schema_file(files, schemas)):
            if each["stateName"] not in known:
                listed.append(each)
                known.add(each["stateName"])
    stores = tuple(
        replace(each, reruns=paths) if each.name == DEFAULT else each for each in entry.stores
    )
    text = json.dumps({**properties, "stateVariables": listed}, ensure_ascii=False)
    return replace(entry, stores=stores, properties=text)


def known_variables(files: Files) -> frozenset[str] | None:
    """The state variables that any batch of the query was planned with; None if some are unknown.

    Raises `CheckpointError` for metadata that are not understood.
    """
    # All there are: Spark before 4.0 has noted of none what it is.
    operators = set(batches_in(names_in(files, "state")))
    described = operator_files(files)
    if operators != {_operator(each) for each in described}:
        return None
    written = {name for each in operators for name in schema_batches(files, each)}
    named = {each.rpartition("/")[2] for file in described for each in file.schemas}
    if written - named or any(each.variables is None for each in described):
        return None
    return frozenset(name for each in described for name in each.variables or ())


def with_families(
    listed: Sequence[FamilySchema], reruns: Sequence[Sequence[FamilySchema]]
) -> tuple[FamilySchema, ...]:
    """The families of the metadata's newest schema file, and those that only ``reruns`` have."""
    known = {each.name: each for each in listed}
    for families in reruns:
        for each in families:
            known.setdefault(each.name, each)
    return tuple(known.values())


def read_schema_file(files: Files, path: str) -> tuple[FamilySchema, ...]:
    """The families in the schema file at a path. Raises `CheckpointError` if it is not one."""
    return parse_schemas(files.get(path, most=LARGEST), f"{files.location}/{path}")


def _operator(file: OperatorFile) -> int:
    return int(file.path.split("/")[1])


def _variables(families: Sequence[FamilySchema]) -> Iterator[dict[str, Any]]:
    """The families that are variables, as an operator's properties have them.

    Spark counts the elements of each list in a family of its own.
    """
    names = {each.name for each in families}
    for each in families:
        if each.name == DEFAULT or is_internal(each.name):
            continue
        is_list = not names.isdisjoint((ROW_COUNTER + each.name, COUNT + each.name))
        kind = "MapState" if each.user_key else "ListState" if is_list else "ValueState"
        expires = TTL + each.name in names
        yield {"stateName": each.name, "stateVariableType": kind, "ttlEnabled": expires}
