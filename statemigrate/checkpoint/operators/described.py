"""The shape of one operator, from its metadata and the schema files of its stores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from statemigrate.checkpoint.logs import (
    AGGREGATION_FORMAT,
    GROUPS_FORMAT,
    PARTITIONS,
    batches_in,
    names_in,
    pinned,
)
from statemigrate.checkpoint.operators.catalogue import (
    AGGREGATION,
    DEFAULT,
    JOIN_STORES,
    TS_TO_VALUES,
    TS_WITH_KEY,
    kind_of,
)
from statemigrate.checkpoint.operators.metadata import (
    LARGEST,
    OperatorEntry,
    StoreEntry,
    parse_operator,
    parse_properties,
    schema_uri_parts,
)
from statemigrate.checkpoint.operators.reruns import (
    read_schema_file,
    with_families,
    with_reruns,
)
from statemigrate.checkpoint.operators.schemas import FamilySchema, parse_schemas
from statemigrate.checkpoint.operators.shapes import (
    FamilyShape,
    NoPrefix,
    OperatorShape,
    PrefixScan,
    StoreShape,
    StructJson,
    labels,
    shown_paths,
)
from statemigrate.errors import CheckpointError, CorruptFileError, UnsupportedError
from statemigrate.files import Files

# Which operator a state is of, where Spark has not noted it: before 4.0.
#
# Spark 3.5 and older note the schemas of a store, and have no operator but those distinguished
# here, by names that Spark itself gives to columns and stores. What two of them could have written
# is distinguished no further: then there is no description.


_SESSION_START, _SESSION = "sessionStartTime", "session_window"


def recognised(stores: Mapping[str, FamilySchema], conf: Mapping[str, str]) -> str | None:
    """Spark's name of the operator that has these stores; None where it is not certain.

    ``conf`` are the pinned settings. A function on groups is given the name of Scala's, since
    nothing in its state tells it from Python's.
    """
    if set(stores) == set(JOIN_STORES):
        return "symmetricHashJoin"
    if set(stores) != {DEFAULT}:
        return None
    schema = stores[DEFAULT]
    keys, values = _columns(schema.key), _columns(schema.value)
    signs = {
        "globalLimit": keys == {"key": "void"} and values == {"value": "long"},
        "dedupe": set(values) == {"__dummy__"},
        "dedupeWithinWatermark": set(values) == {"expiresAtMicros"},
        "sessionWindowStateStoreSaveExec": [*keys][-1:] == [_SESSION_START] and _SESSION in values,
        "flatMapGroupsWithState": set(values) <= {"groupState", "timeoutTimestamp"},
        "stateStoreSave": _is_aggregation(set(keys), set(values), conf),
    }
    return next((name for name, holds in signs.items() if holds), None)


def _is_aggregation(keys: set[str], values: set[str], conf: Mapping[str, str]) -> bool:
    """Nothing else is left but what old releases wrote with the input's columns in the value.

    These are dropDuplicates, whose keys are among them, and functions of state format 1.
    """
    formats = pinned(conf, AGGREGATION_FORMAT), pinned(conf, GROUPS_FORMAT)
    return formats == ("2", "2") and not (keys and keys <= values)


def _columns(struct: StructJson) -> dict[str, object]:
    return {str(each["name"]): each["type"] for each in struct["fields"]}


def read_operator(
    files: Files, number: int, batch: int, conf: Mapping[str, str], name: str | None = None
) -> OperatorShape:
    """The operator ``state/<number>`` as of a batch.

    ``name`` is Spark's name of it, for a checkpoint that does not say it. Raises `CheckpointError`
    for files that are missing or not understood, `UnsupportedError` for an unknown operator.
    """
    entry, path = read_operator_entry(files, number, batch, conf, name)
    kind_of(entry.name)
    properties = parse_properties(entry, path)
    lists, expiring = _lists(properties), _expiring(properties)
    is_first = kind_of(entry.name) is AGGREGATION and pinned(conf, AGGREGATION_FORMAT) == "1"
    stores = tuple(
        StoreShape(
            each.name,
            entry.version == 2,
            each.partitions,
            tuple(
                replace(
                    _family(schema, each, entry.name, is_list=schema.name in lists),
                    wrapping="expiry" if schema.name in expiring else "key" if is_first else "none",
                )
                for schema in read_schemas(files, entry, each)
            ),
        )
        for each in entry.stores
    )
    version = entry.version if entry.noted else 0
    return OperatorShape(number, entry.name, version, stores, properties)


def read_operator_entry(
    files: Files,
    number: int,
    batch: int,
    conf: Mapping[str, str],
    name: str | None = None,
    *,
    as_listed: bool = False,
) -> tuple[OperatorEntry, str]:
    """The metadata of an operator as of a batch, and the file that has them.

    They have all variables, or ``as_listed`` those alone that Spark's own reader knows. Raises
    `CheckpointError` where there is no file and no ``name`` is given.
    """
    folder = f"state/{number}/_metadata"
    changes = [each for each in batches_in(names_in(files, f"{folder}/v2")) if each <= batch]
    path = f"{folder}/v2/{max(changes)}" if changes else f"{folder}/metadata"
    try:
        entry = parse_operator(files.get(path, most=LARGEST), f"{files.location}/{path}")
    except FileNotFoundError as error:
        return _without_metadata(files, number, conf, name, error), path
    if entry.number != number or not entry.stores:
        raise CheckpointError(
            "SM-CHECKPOINT-010",
            f"{files.location}/{path} is of another operator",
            expected=f"operator {number} and its stores",
            found=f"operator {entry.number} with {len(entry.stores)} stores",
            next_action="restore the file from a copy of the checkpoint",
            path=f"{files.location}/{path}",
        )
    if changes and not as_listed and kind_of(entry.name).has_variables:
        entry = with_reruns(files, entry, max(changes), batch)
    return entry, path


def read_schemas(files: Files, entry: OperatorEntry, store: StoreEntry) -> tuple[FamilySchema, ...]:
    """The newest schemas of a store's families. Raises `CheckpointError` where they are missing."""
    return read_schema_files(files, entry, store)[-1]


def read_schema_files(
    files: Files, entry: OperatorEntry, store: StoreEntry
) -> list[tuple[FamilySchema, ...]]:
    """All schemas that a store has had, oldest first; rows of Avro name theirs by its number.

    Raises `CheckpointError` where a file is missing or not understood.
    """
    found = [
        parse_schemas(_content(files, path, entry), f"{files.location}/{path}")
        for path in schema_files(entry, store)
    ]
    reruns = [read_schema_file(files, path) for path in store.reruns]
    return [*found[:-1], with_families(found[-1], reruns)]


def schema_files(entry: OperatorEntry, store: StoreEntry) -> list[str]:
    """The schema files of a store, below the checkpoint, oldest first."""
    if entry.version == 2:
        return [schema_uri_parts(f"operator {entry.number}", each)[1] for each in store.schemas]
    inner = "" if store.name == DEFAULT else f"{store.name}/"
    return [f"state/{entry.number}/0/{inner}_metadata/schema"]


def _content(files: Files, path: str, entry: OperatorEntry) -> bytes:
    try:
        return files.get(path, most=LARGEST)
    except FileNotFoundError as error:
        if not entry.noted and not _has_schemas(files):
            raise _before_schemas(files) from error
        raise CorruptFileError(
            "SM-CHECKPOINT-011",
            f"{files.location}/{path} is missing",
            expected="the schema of the state's rows, which Spark writes since 3.1",
            found="no such file",
            next_action="start the query on a Spark from 3.1 on for one batch, which writes it, "
            "or restore the file from a copy of the checkpoint",
            path=f"{files.location}/{path}",
        ) from error


def _has_schemas(files: Files) -> bool:
    """Whether any operator of the query has a schema file of Spark 3.1 to 3.5."""
    stores = ["", *(f"{name}/" for name in JOIN_STORES)]
    return any(
        files.find(f"state/{number}/0/{store}_metadata/schema") is not None
        for number in batches_in(names_in(files, "state"))
        for store in stores
    )


def _before_schemas(files: Files) -> UnsupportedError:
    return UnsupportedError(
        "SM-STATE-003",
        f"{files.location} is of a Spark before 3.1, which does not say what its state is",
        expected="a checkpoint of Spark 3.1 or newer, with a schema for each store",
        found="state without any schema",
        next_action="start the query on a Spark from 3.1 on for one batch, which writes them",
        path=files.location,
    )


def _family(
    schema: FamilySchema, store: StoreEntry, operator: str, *, is_list: bool
) -> FamilyShape:
    prefix = store.prefix_columns
    if kind_of(operator).has_sessions:
        # Where there are no metadata: all columns but the start of the session.
        prefix = len(schema.key["fields"]) - 1
    plain = PrefixScan(prefix) if prefix else NoPrefix()
    return FamilyShape(
        schema.name,
        schema.key,
        schema.value,
        schema.encoder or plain,
        is_list or _has_several(schema),
        schema.user_key,
    )


def _has_several(schema: FamilySchema) -> bool:
    """Whether a family of a join of state format 4 has several values under a key.

    Its rows do, and so has the index of their times, unless it says how many rows there are.
    """
    values = {each["type"] for each in schema.value["fields"] if isinstance(each["type"], str)}
    is_index = schema.name.endswith(f"-{TS_WITH_KEY}") and values == {"void"}
    return is_index or schema.name.endswith(f"-{TS_TO_VALUES}")


def _expiring(properties: Mapping[str, Any] | None) -> set[str]:
    variables = (properties or {}).get("stateVariables", [])
    return {
        str(each.get("stateName"))
        for each in variables
        if isinstance(each, dict) and each.get("ttlEnabled") is True
    }


def _lists(properties: Mapping[str, Any] | None) -> set[str]:
    variables = (properties or {}).get("stateVariables", [])
    return {
        str(each.get("stateName"))
        for each in variables
        if isinstance(each, dict) and each.get("stateVariableType") == "ListState"
    }


def _without_metadata(
    files: Files, number: int, conf: Mapping[str, str], name: str | None, error: Exception
) -> OperatorEntry:
    """What Spark before 4.0 would have noted, from the schemas of the stores."""
    partitions = conf.get(PARTITIONS, "")
    stores = tuple(_stores(files, number, partitions))
    entry = OperatorEntry(number, name or "", stores, noted=False)
    name = name or recognised(
        {s.name: read_schemas(files, entry, s)[0] for s in entry.stores}, conf
    )
    if name is None or not partitions.isdecimal():
        raise CheckpointError(
            "SM-STATE-004",
            f"{files.location}/state/{number} does not say which operator it is of",
            expected="_metadata/metadata, which Spark writes since 4.0, or schemas that only one "
            "operator has",
            found="no such file, and schemas that several might have written",
            next_action="start the query on Spark 4.0 or newer for one batch, which writes it",
            path=f"{files.location}/state/{number}",
        ) from error
    return replace(entry, name=name)


def _stores(files: Files, number: int, partitions: str) -> Iterator[StoreEntry]:
    there = {each.base_name for each in files.list(f"state/{number}/0") if each.kind == "folder"}
    names = set(JOIN_STORES) if there >= set(JOIN_STORES) else {DEFAULT}
    for name in sorted(names):
        yield StoreEntry(name, 0, int(partitions) if partitions.isdecimal() else 0)


# Which of Spark's functions keeps which columns of an aggregation's state.
#
# An aggregation keeps buffers, not results, in the order of its functions. The names are those of
# ``aggBufferAttributes`` in ``sql/catalyst/.../expressions/aggregate`` of apache/spark, and several
# functions may keep the same.


@dataclass(frozen=True)
class Meaning:
    """Columns, by their labels, and the functions that keep such."""

    columns: tuple[str, ...]
    functions: str

    def __str__(self) -> str:
        names = self.columns
        listed = names if len(names) <= _MANY else (names[0], "...", names[-1])
        return f"{', '.join(listed)}: {self.functions}"


_ANY = ""
_MANY = 6
_NUMBER = re.compile(r"_\d+$")
# By Spark's names and types of consecutive columns, the longest first; any type without one.
_BUFFERS: tuple[tuple[tuple[tuple[str, str], ...], str], ...] = (
    (
        tuple((name, _ANY) for name in ("n", "avg", "m2", "m3", "m4")),
        "kurtosis: count, mean and sums of powers of the differences from it",
    ),
    (
        tuple((name, _ANY) for name in ("n", "xAvg", "yAvg", "ck", "xMk", "yMk")),
        "corr: count, means, and sums of products of the differences from them",
    ),
    (
        tuple((name, _ANY) for name in ("n", "xAvg", "yAvg", "ck")),
        "covar_pop or covar_samp: count, means, and the sum of products of the differences",
    ),
    (
        tuple((name, _ANY) for name in ("n", "avg", "m2", "m3")),
        "skewness: count, mean and sums of powers of the differences from it",
    ),
    (
        tuple((name, _ANY) for name in ("n", "avg", "m2")),
        "stddev or variance: count, mean, sum of the squared differences from it",
    ),
    (
        (("sum", "decimal"), ("isEmpty", "boolean")),
        "sum of decimals: the sum, and whether there was no value yet",
    ),
    (
        (("sum", _ANY), ("count", "long")),
        "avg: sum and count of the values that are not null; or a sum, and a count after it",
    ),
    ((("first", _ANY), ("valueSet", "boolean")), "first or any_value: the value, and if one came"),
    ((("last", _ANY), ("valueSet", "boolean")), "last: the value, and whether one came"),
    (
        (("valueWithExtremumOrdering", _ANY), ("extremumOrdering", _ANY)),
        "max_by or min_by: the value, and what it is ordered by",
    ),
    ((("count", "long"),), "count"),
    ((("sum", _ANY),), "sum"),
    ((("max", _ANY),), "max"),
    ((("min", _ANY),), "min"),
    ((("bit_and", _ANY),), "bit_and"),
    ((("bit_or", _ANY),), "bit_or"),
    ((("bit_xor", _ANY),), "bit_xor"),
    (
        (("buf", "binary"),),
        "collect_list, collect_set, percentile, a sketch or an aggregator of your own: bytes that "
        "only the function itself can read",
    ),
)
_SKETCH = "MS["


def meanings(value: StructJson) -> tuple[Meaning, ...]:
    """What the columns of an aggregation's value are, as far as their names tell."""
    return tuple(_meanings(value))


def _meanings(value: StructJson) -> Iterator[Meaning]:
    names, fields = labels(value), value["fields"]
    places = shown_paths(value)
    while places:
        # A number tells it from another column of its name, and has no meaning.
        held = [(_NUMBER.sub("", names[at]), _type(fields[at]["type"])) for at in places]
        length, functions = _first(held)
        if functions:
            yield Meaning(tuple(names[at] for at in places[:length]), functions)
        places = places[length:]


def _first(held: list[tuple[str, str]]) -> tuple[int, str]:
    sketch = next((n for n, (name, _) in enumerate(held) if not name.startswith(_SKETCH)), None)
    if sketch != 0:
        return sketch or len(held), "approx_count_distinct: the registers of a HyperLogLog sketch"
    for pattern, functions in _BUFFERS:
        pairs = list(zip(pattern, held, strict=False))
        if len(pairs) == len(pattern) and all(_fits(*pair) for pair in pairs):
            return len(pattern), functions
    return 1, ""


def _fits(wanted: tuple[str, str], held: tuple[str, str]) -> bool:
    return wanted[0] == held[0] and held[1].startswith(wanted[1])


def _type(found: object) -> str:
    return found if isinstance(found, str) else "nested"
