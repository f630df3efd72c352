"""Spark's stateful operators: what each is called, keeps, and lays its keys out by.

The partition of a row is ``pmod(hash(columns), partitions)``, Spark's public function, over the
columns named here. A struct's hash is that of its fields one after the other, so a struct stands
for its fields. Sources: ``StatefulOperatorsUtils``, ``StatePartitionKeyExtractor*.scala``,
``TimerStateUtils.scala``, ``StateStoreColumnFamilySchemaUtils.scala`` of apache/spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Literal

from statemigrate.checkpoint.operators.shapes import (
    GROUP_STATE,
    CheckpointShape,
    FamilyShape,
    OperatorShape,
    PrefixScan,
    StoreShape,
    StructJson,
    labelled,
    with_labels,
)
from statemigrate.errors import UnsupportedError

Path = tuple[str, ...]
"""A column of a key: the name of a field, and those within it."""

DEFAULT = "default"
"""The store of an operator that has one, and the family of a store that has none."""
NUM_VALUES = "keyToNumValues"
INDEX_TO_VALUE = "keyWithIndexToValue"
TS_TO_VALUES = "keyWithTsToValues"
TS_WITH_KEY = "tsWithKey"
JOIN_STORES = tuple(
    f"{s}-{kind}" for s in ("left", "right") for kind in (NUM_VALUES, INDEX_TO_VALUE)
)
"""The four stores of a join of state format 1 or 2, in the order of their ids in a commit."""
ROW_COUNTER = "$rowCounter_"
TTL = "$ttl_"
SOONEST = "$min_"
COUNT = "$count_"
_DERIVED = (ROW_COUNTER, TTL, SOONEST, COUNT)
_TIMERS = ("$eventTimers", "$procTimers")
_TIMESTAMP_TO_KEY = "_timestampToKey"


@dataclass(frozen=True)
class Kind:
    """What an operator is: its ``word`` for users, Spark's ``names`` of it, and facts of its state.

    ``partition`` gives the columns of a key whose hash gives the partition. Other modules ask for
    the facts and not for a kind, so that a new one is an entry of `KINDS`.
    """

    word: str
    names: tuple[str, ...]
    partition: Callable[[OperatorShape, StoreShape, FamilyShape], tuple[Path, ...]]
    _: KW_ONLY
    has_variables: bool = False
    """The state is the variables of a user's processor, each by its own name. It migrates live."""
    has_function: bool = False
    """The state is one value a key, of a type that a user's function declares."""
    has_sides: bool = False
    """The state is the rows of two sides, which are numbered, and counted or listed by time."""
    has_buffers: bool = False
    """A value has the buffers of aggregate functions."""
    has_sessions: bool = False
    """A key ends with the beginning of a session, and a value begins with the key's columns."""
    windows_in: Literal["key", "value", ""] = ""
    """Which part of a row has the window that it belongs to, if it has one."""
    has_expiry: bool = False
    """A value has the time at which its key expires."""
    is_set: bool = False
    """The keys are all that is stored: rows of equal keys are one."""

    @property
    def is_of_user_code(self) -> bool:
        """Whether code of the user's reads and writes the values."""
        return self.has_variables or self.has_function


def kind_of(name: str) -> Kind:
    """The kind of the operator that Spark calls ``name``.

    Raises `UnsupportedError` for one that is not known.
    """
    for kind in KINDS:
        if name in kind.names:
            return kind
    raise UnsupportedError(
        "SM-STATE-002",
        f"the stateful operator {name!r} is not known",
        expected=f"one of {', '.join(sorted(name for kind in KINDS for name in kind.names))}",
        found=name,
        next_action="such state cannot be described; statemigrate's changelog says whether a "
        "newer release knows it",
        operator=name,
    )


def partition_columns(
    operator: OperatorShape, store: StoreShape, family: FamilyShape
) -> tuple[Path, ...]:
    """The columns of a family's key whose hash gives the partition.

    None of them: all rows are in partition 0, as those of a limit, or an aggregation without keys.
    """
    return kind_of(operator.name).partition(operator, store, family)


def used_partitions(operator: OperatorShape) -> int:
    """How many partitions of an operator have files: 1 where its rows are all in partition 0.

    The metadata have the number of the query's partitions there too.
    """
    store = operator.stores[0]
    columns = partition_columns(operator, store, store.families[0])
    return store.partitions if columns else 1


def user_name(operator: OperatorShape, store: str, family: str) -> str | None:
    """How users call what is in a store's family; None for what only Spark itself looks at.

    The state of an operator goes by its kind and number (``aggregation-0``), a side of a join by
    ``join-1.left``, a variable of ``transformWithState`` by its own name.
    """
    kind = kind_of(operator.name)
    if kind.has_variables:
        return None if family == DEFAULT or is_internal(family) else family
    if not kind.has_sides:
        return f"{kind.word}-{operator.number}"
    side, _, content = _join_part(store, family).partition("-")
    is_rows = content in (INDEX_TO_VALUE, TS_TO_VALUES)
    return f"{kind.word}-{operator.number}.{side}" if is_rows else None


def user_stores(operator: OperatorShape) -> dict[str, tuple[StoreShape, FamilyShape]]:
    """What users know of an operator's state: by their name of it where it is kept."""
    return {name: (store, family) for name, store, family in _named(operator)}


def is_internal(family: str) -> bool:
    """Whether a family of ``transformWithState`` is Spark's own: a counter, an index, timers."""
    return family.startswith("$")


def is_derived(family: str) -> bool:
    """Whether a family only says again what a variable has: its length, or when it expires."""
    return family.startswith(_DERIVED)


def is_timers(family: str) -> bool:
    """Whether a family has timers, by key or by time."""
    return family.startswith(_TIMERS)


def _named(operator: OperatorShape) -> Iterator[tuple[str, StoreShape, FamilyShape]]:
    for store in operator.stores:
        for family in store.families:
            name = user_name(operator, store.name, family.name)
            if name is not None:
                yield name, store, family


def _join_part(store: str, family: str) -> str:
    """Formats 1 and 2 have a store for each part of a side, later ones a family."""
    return family if store == DEFAULT else store


def _names(family: FamilyShape) -> list[str]:
    return [str(field["name"]) for field in family.key["fields"]]


def _whole_key(_: OperatorShape, __: StoreShape, family: FamilyShape) -> tuple[Path, ...]:
    return tuple((name,) for name in _names(family))


def _all_but_last(_: OperatorShape, __: StoreShape, family: FamilyShape) -> tuple[Path, ...]:
    return tuple((name,) for name in _names(family)[:-1])


def _nothing(_: OperatorShape, __: StoreShape, ___: FamilyShape) -> tuple[Path, ...]:
    return ()


def _of_join(operator: OperatorShape, store: StoreShape, family: FamilyShape) -> tuple[Path, ...]:
    part = _join_part(store.name, family.name)
    whole = part.endswith(NUM_VALUES)
    return (_whole_key if whole else _all_but_last)(operator, store, family)


def _of_variable(
    operator: OperatorShape, store: StoreShape, family: FamilyShape
) -> tuple[Path, ...]:
    """A map's key is (key, user key), a timer's (key, time) or the reverse; see the families."""
    if is_timers(family.name):
        place = 1 if family.name.endswith(_TIMESTAMP_TO_KEY) else 0
        return ((_names(family)[place],),)
    if family.name.startswith(TTL):
        element = _names(family)[1]
        name = family.name.removeprefix(TTL)
        variable = next(each for each in store.families if each.name == name)
        return ((element, *_names(variable)[:1]),) if _is_map(variable) else ((element,),)
    if _is_map(family):
        return ((_names(family)[0],),)
    return _whole_key(operator, store, family)


def _is_map(family: FamilyShape) -> bool:
    return isinstance(family.encoder, PrefixScan)


# The second name is that of real-time mode, from Spark 4.3 on. Either trigger goes on with the
# state of the other, under the name of the one that began.
AGGREGATION = Kind(
    "aggregation",
    ("stateStoreSave", "StatefulStreamlineAggregate"),
    _whole_key,
    has_buffers=True,
    windows_in="key",
)
DEDUPLICATE = Kind("deduplicate", ("dedupe",), _whole_key, windows_in="key", is_set=True)
DEDUPLICATE_WITHIN_WATERMARK = Kind(
    "deduplicate-within-watermark",
    ("dedupeWithinWatermark",),
    _whole_key,
    windows_in="key",
    has_expiry=True,
)
SESSION_WINDOW = Kind(
    "session-window",
    ("sessionWindowStateStoreSaveExec",),
    _all_but_last,
    has_buffers=True,
    has_sessions=True,
    windows_in="value",
)
JOIN = Kind("join", ("symmetricHashJoin",), _of_join, has_sides=True)
GROUPS = Kind(
    "groups",
    ("flatMapGroupsWithState", "applyInPandasWithState"),
    _whole_key,
    has_function=True,
)
VARIABLES = Kind(
    "transform-with-state",
    (
        "transformWithStateExec",
        "transformWithStateInPandasExec",
        "transformWithStateInPySparkExec",
    ),
    _of_variable,
    has_variables=True,
)
LIMIT = Kind("limit", ("globalLimit",), _nothing)
KINDS = (
    AGGREGATION,
    DEDUPLICATE,
    DEDUPLICATE_WITHIN_WATERMARK,
    SESSION_WINDOW,
    JOIN,
    GROUPS,
    VARIABLES,
    LIMIT,
)
"""Every operator that is known."""


# What users know of the state of Spark's own operators: stores of keys and values.


_ENVELOPE = {"revision", "payload"}


@dataclass(frozen=True)
class OperatorStore:
    """The state of one operator, of one side of a join, or of a variable, as users call it.

    ``family`` is in Spark's ``store`` of the operator with this ``number``.
    """

    name: str
    number: int
    store: StoreShape
    family: FamilyShape
    is_join: bool
    is_variable: bool = False

    @property
    def is_list(self) -> bool:
        """Whether several values may have one key."""
        return self.is_join or self.family.is_list

    @property
    def side(self) -> str | None:
        """Of a join whose sides share a store, which one it is."""
        is_shared = self.is_join and self.store.name == DEFAULT
        return self.name.rpartition(".")[2] if is_shared else None

    @cached_property
    def key(self) -> StructJson:
        """The columns of a key as users know them; of a join without the number of the row."""
        if self.is_variable:
            return labelled(_columns_of_key(self.family, is_numbered=False))
        fields = self.family.key["fields"]
        return labelled({"type": "struct", "fields": fields[:-1] if self.is_join else fields})

    @cached_property
    def grouping(self) -> StructJson:
        """The columns that rows are grouped by: of a map's keys without its own."""
        if not self.is_variable or self.family.user_key is None:
            return self.key
        own = len(self.family.user_key["fields"])
        return {**self.key, "fields": self.key["fields"][:-own]}

    @cached_property
    def value(self) -> StructJson:
        """The columns of a value as users know them."""
        return labelled(self.family.content if self.is_variable else self.family.value)


def operator_stores(
    shape: CheckpointShape, names: Mapping[str, str] | None = None
) -> dict[str, OperatorStore]:
    """The stores of Spark's own operators by name; ``names`` has those that users give themselves.

    Not among them are the variables of ``transformWithState`` and envelopes, whose stores go by
    other names.
    """
    own = {store: name for name, store in (names or {}).items()}
    found = (each for operator in shape.operators for each in _stores(operator))
    return {own.get(each.name, each.name): each for each in found}


def variable_stores(shape: CheckpointShape) -> dict[str, OperatorStore]:
    """The variables of ``transformWithState`` by their names in Spark's state."""
    return {
        name: OperatorStore(name, each.number, store, family, is_join=False, is_variable=True)
        for each in shape.operators
        if kind_of(each.name).has_variables
        for name, (store, family) in user_stores(each).items()
        if not is_internal(family.name)
    }


def _stores(operator: OperatorShape) -> Iterator[OperatorStore]:
    kind = kind_of(operator.name)
    if kind.has_variables:
        return
    for name, (store, family) in user_stores(operator).items():
        if not (kind.has_function and has_envelopes(family.value)):
            yield OperatorStore(name, operator.number, store, family, kind.has_sides)


def has_envelopes(value: StructJson) -> bool:
    """Whether the values of a function are in envelopes, which name the revision of each."""
    first = value["fields"][:1]
    state = next((each["type"] for each in first if each["name"] == GROUP_STATE), None)
    fields = state.get("fields", ()) if isinstance(state, dict) else ()
    return {field["name"] for field in fields} >= _ENVELOPE


def in_envelopes(operator: OperatorShape) -> bool:
    """Whether an operator is a function whose values are in envelopes."""
    families = (family for store in operator.stores for family in store.families)
    return kind_of(operator.name).has_function and any(has_envelopes(f.value) for f in families)


# Keys as users know them: of a map its own key too, of a join's row not the number of the row.


def is_numbered(operator: OperatorShape, store: StoreShape, family: FamilyShape) -> bool:
    """Whether the last column of a key is the number of a row, as in a join's sides."""
    is_rows = user_name(operator, store.name, family.name) is not None
    return kind_of(operator.name).has_sides and is_rows


def key_paths(operator: OperatorShape, store: StoreShape, family: FamilyShape) -> list[Path]:
    """Where each column of a key that users know is, by the labels of the key's fields."""
    fields = with_labels(family.key)["fields"]
    if family.user_key is not None:
        return [
            (str(part["name"]), str(each["name"]))
            for part in fields
            for each in part["type"]["fields"]
        ]
    names: list[Path] = [(str(each["name"]),) for each in fields if each["type"] != "void"]
    return names[:-1] if is_numbered(operator, store, family) else names


def shown_key(operator: OperatorShape, store: StoreShape, family: FamilyShape) -> StructJson:
    """The struct of those columns, each by its label."""
    return _columns_of_key(family, is_numbered=is_numbered(operator, store, family))


def _columns_of_key(family: FamilyShape, *, is_numbered: bool) -> StructJson:
    fields = with_labels(family.key)["fields"]
    if family.user_key is not None:
        fields = [each for part in fields for each in part["type"]["fields"]]
    shown = [each for each in fields if each["type"] != "void"]
    return with_labels({"type": "struct", "fields": shown[:-1] if is_numbered else shown})
