"""The committed state in Spark's own store, of any kind of operator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Protocol

from statemigrate.deployment import StoredFamily, StoredStore, StorePlan, store_of
from statemigrate.errors import TransformError
from statemigrate.formats import Value
from statemigrate.migration import Path
from statemigrate.processor.garbage import few_collections
from statemigrate.state.protocol import (
    ALL,
    CarriesErrors,
    Collisions,
    Document,
    Entry,
    Part,
    Share,
    Shares,
    Suspect,
    Task,
    Tick,
    Ticks,
    no_tick,
    reraising_worker_errors,
    ticking,
)
from statemigrate.state.spark_operators import KeyRows, arrow_rows, combined_stores, shown_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


# A family as Spark's state reader gives it: rows, and what of a row is its key and its value.


Read = Callable[[Any], tuple[bytes, Value]]
"""Of what a row has as its value: the bytes the family's format writes, and the plain value."""


@dataclass(frozen=True)
class Reading:
    """The rows of a family, how their keys are read, and how their values are."""

    family: str
    frame: DataFrame
    key_of: KeyRows
    value_of: Read

    def entries(self, key: Sequence[Any] | None = None) -> Iterator[Entry]:
        """Keys and values, of list state an element each; only keys that begin with ``key``."""
        rows = self.frame if key is None else self.frame.where(self.key_of.begins_with(key))
        with reraising_worker_errors():
            for row in shown_rows(rows):
                yield self.key_of(row), self.value_of(row["value"])[1]

    def map(self, task: Task, shares: Mapping[int, Share], tick: Tick) -> Iterator[Document]:
        """Run a task in the tasks that read the rows; see `Values.map`."""
        with reraising_worker_errors(), ticking(tick) as ticks:
            run = partial(
                _run,
                task=task,
                family=self.family,
                key_of=self.key_of,
                value_of=self.value_of,
                shares=shares,
                ticks=ticks,
            )
            rows = self.frame.mapInArrow(CarriesErrors(run), "document string").collect()
        return (json.loads(row.document) for row in rows)


@dataclass(frozen=True)
class Readings:
    """See `Values`: a Spark job a family, its tasks those of Spark's state reader."""

    readings: tuple[Reading, ...]

    def map(
        self, task: Task, *, shares: Shares | None = None, tick: Tick = no_tick
    ) -> Iterator[tuple[str, Document]]:
        """See `Values`."""
        for each in self.readings:
            share = (shares or {}).get(each.family, {})
            for document in each.map(task, share, tick):
                yield each.family, document


def _run(
    batches: Iterator[Any],
    *,
    task: Task,
    family: str,
    key_of: KeyRows,
    value_of: Read,
    shares: Mapping[int, Share],
    ticks: Ticks,
) -> Iterator[Any]:
    import pyarrow as pa

    part = Part(family, key_of)
    part.values = _picked(part, batches, value_of, shares, ticks)
    with few_collections():
        document = task(part)
    yield pa.RecordBatch.from_pydict({"document": [json.dumps(document)]})


def _picked(
    part: Part,
    batches: Iterator[Any],
    value_of: Read,
    shares: Mapping[int, Share],
    ticks: Ticks,
) -> Iterator[tuple[Any, bytes, Value]]:
    seen: dict[int, int] = {}
    for row in chain.from_iterable(map(arrow_rows, batches)):
        number = row["partition_id"]
        index = seen.get(number, 0)
        seen[number] = index + 1
        part.seen += 1
        if shares.get(number, ALL).picks(index):
            yield row, *value_of(row["value"])
        ticks.count(number, index)


# How many keys are the same once scripts have changed them: counted by Spark, in its tasks.


Keys = Callable[[Iterator[Any]], Iterator[bytes]]
_BYTES = 16
_EXAMPLES = 3


@reraising_worker_errors()
def collisions(reading: Reading, keys: Keys) -> Collisions:
    """Of what ``keys`` gives for the rows and plain values of a family; see `State.keys_after`."""
    from pyspark.sql import functions

    task = partial(_hashed, keys=keys, value_of=reading.value_of)
    counts = reading.frame.mapInArrow(task, "hash binary").groupBy("hash").count()
    met = functions.count_if(functions.col("count") > 1)
    row = counts.agg(functions.sum("count"), functions.count("*"), met).collect()[0]
    found = Collisions(int(row[0] or 0), int(row[1]), int(row[2]))
    if not found.met:
        return found
    most = counts.where("count > 1").orderBy(functions.desc("count"), "hash").limit(_EXAMPLES)
    numbers = {bytes(each["hash"]): each["count"] for each in most.collect()}
    named = partial(_named, keys=keys, value_of=reading.value_of, wanted=frozenset(numbers))
    rows = reading.frame.mapInArrow(named, "key binary").distinct().collect()
    several = ((bytes(each["key"]), numbers[_hash(bytes(each["key"]))]) for each in rows)
    return replace(found, examples=tuple(sorted(several, key=lambda each: (-each[1], each[0]))))


def _hashed(batches: Iterator[Any], *, keys: Keys, value_of: Read) -> Iterator[Any]:
    return _column("hash", map(_hash, _keys(batches, keys, value_of)))


def _named(
    batches: Iterator[Any], *, keys: Keys, value_of: Read, wanted: frozenset[bytes]
) -> Iterator[Any]:
    """The keys whose hash is ``wanted``."""
    found = _keys(batches, keys, value_of)
    return _column("key", (each for each in found if _hash(each) in wanted))


def _keys(batches: Iterator[Any], keys: Keys, value_of: Read) -> Iterator[bytes]:
    rows = chain.from_iterable(map(arrow_rows, batches))
    return keys((row, value_of(row["value"])[1]) for row in rows)


def _hash(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_BYTES).digest()


def _column(name: str, values: Iterator[bytes]) -> Iterator[Any]:
    import pyarrow as pa

    for block in _blocks(values):
        yield pa.RecordBatch.from_pydict({name: pa.array(block, pa.binary())})


def _blocks(values: Iterator[bytes]) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    for each in values:
        block.append(each)
        if len(block) == 8_192:
            yield block
            block = []
    if block:
        yield block


# The logical view of families that are read one after the other.
#
# At every commit a key is in one family only, so their entries need no merging.


def in_target(plan: StorePlan, family: StoredFamily, entries: Iterator[Entry]) -> Iterator[Entry]:
    """The entries of a family in the target's format.

    Raises `TransformError` for a value that does not migrate, and `StartupError` for one in a
    family that no way leads from.
    """
    if family is plan.target:
        return entries
    path = plan.paths[plan.sources.index(family)]
    return _refused(plan, family, entries) if path is None else _migrated(plan, path, entries)


def arranged(plan: StorePlan, entries: Iterator[Entry]) -> Iterator[Entry]:
    """The entries as a user knows them: of list state, the elements under a key as one list."""
    return lists(entries) if plan.declared.kind == "list" else entries


def lists(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Entries of list state, an element each, as one entry a key."""
    # Keys as text: a NaN equals nothing, and the two times of a repeated hour equal each other.
    for _, elements in groupby(entries, key=lambda entry: repr(entry[0])):
        held = list(elements)
        yield held[0][0], [value for _, value in held]


def _refused(plan: StorePlan, family: StoredFamily, entries: Iterator[Entry]) -> Iterator[Entry]:
    for _ in entries:
        plan.refuse(family)
    return iter(())


def _migrated(plan: StorePlan, path: Path, entries: Iterator[Entry]) -> Iterator[Entry]:
    conform = plan.target.format.conform
    for key, value in entries:
        try:
            migrated = path.apply(value)
        except TransformError as error:
            raise error.at(key) from error.__cause__
        yield key, conform(migrated)


class OperatorState(Protocol):
    """What an operator keeps: state variables, or one envelope a key."""

    def key_of(self, store: str) -> StructType:
        """The type of a store's keys."""

    @property
    def stores(self) -> Mapping[str, StoredStore]:
        """What is stored, by name."""

    def rows(self, family: StoredFamily) -> DataFrame | None:
        """A family's rows; None for one that is still to be made."""

    def value_of(self, family: StoredFamily) -> Read:
        """How its values are read."""


class CombinedState:
    """State variables or envelopes, and the state of other operators of the query."""

    def __init__(self, main: OperatorState, operators: OperatorState) -> None:
        self._main = main
        self._operators = operators

    def key_of(self, store: str) -> StructType:
        """See `OperatorState`."""
        return self._of(store).key_of(store)

    @property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `OperatorState`."""
        return combined_stores(self._main.stores, self._operators.stores)

    def rows(self, family: StoredFamily) -> DataFrame | None:
        """See `OperatorState`."""
        return self._of(family.name).rows(family)

    def value_of(self, family: StoredFamily) -> Read:
        """See `OperatorState`."""
        return self._of(family.name).value_of(family)

    def _of(self, name: str) -> OperatorState:
        return self._operators if store_of(name) in self._operators.stores else self._main


class SparkState:
    """See `statemigrate.state.protocol.State`; as of ``batch``, the last committed one."""

    engine = "native"
    operator: str | None = None
    can_be_rewritten = counts_target = True
    target_is_deployed = keeps_control_source = False

    def __init__(
        self,
        checkpoint: str,
        batch: int,
        operator_state: OperatorState,
        operator_stores: Iterable[str] = (),
    ) -> None:
        self.checkpoint = checkpoint
        self.batch = batch
        self.operator_stores = frozenset(operator_stores)
        self._operator_state = operator_state

    def key_of(self, store: str) -> StructType:
        """See `State`."""
        return self._operator_state.key_of(store)

    @property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `State`."""
        return self._operator_state.stores

    def counts(self, store: str, *, but: str = "") -> Mapping[str, Mapping[int, int]]:
        """See `State`."""
        wanted = [each for each in self.stores[store].families if each.name != but]
        frames = {each.name: self._operator_state.rows(each) for each in wanted}
        return {name: _counted(rows) for name, rows in frames.items() if rows is not None}

    def pages_with(self, families: Sequence[str]) -> int | None:  # noqa: ARG002
        """See `State`: there are none."""
        return None

    def quarantined(self, store: str) -> Mapping[str, int] | None:  # noqa: ARG002
        """See `State`: Spark's own state has no note of them."""
        return None

    def earlier(self, families: Sequence[str]) -> tuple[float, int] | None:  # noqa: ARG002
        """See `State`: counting the state of an earlier batch takes as long as this one's."""
        return None

    def entries(self, plan: StorePlan, key: tuple[Any, ...] | None = None) -> Iterator[Entry]:
        """See `State`; family by family."""
        for family in (plan.target, *plan.sources):
            reading = self._reading(plan, family)
            if reading is not None:
                yield from arranged(plan, in_target(plan, family, reading.entries(key)))

    def values(self, plan: StorePlan, families: Sequence[StoredFamily]) -> Readings:
        """See `State`."""
        found = (self._reading(plan, each) for each in families)
        return Readings(tuple(each for each in found if each is not None))

    def keys_after(
        self,
        plan: StorePlan,
        family: StoredFamily,
        keys: Callable[[Iterator[Any]], Iterator[bytes]],
    ) -> Collisions:
        """See `State`."""
        reading = self._reading(plan, family)
        return Collisions(0, 0, 0) if reading is None else collisions(reading, keys)

    def suspects(self, plan: StorePlan) -> Iterator[Suspect]:
        """See `State`: all that is left."""
        for reading in self.values(plan, plan.sources).readings:
            for key, value in arranged(plan, reading.entries()):
                yield reading.family, key, value, False

    def close(self) -> None:
        """See `State`."""

    def _reading(self, plan: StorePlan, family: StoredFamily) -> Reading | None:
        rows = self._operator_state.rows(family)
        if rows is None:
            return None
        keys = KeyRows(self.key_of(plan.declared.store), plan.declared.user_key)
        return Reading(family.name, rows, keys, self._operator_state.value_of(family))


def _counted(rows: DataFrame) -> dict[int, int]:
    """The rows by partition."""
    counts = rows.groupBy("partition_id").count().collect()
    return {int(number): int(count) for number, count in map(tuple, counts)}
