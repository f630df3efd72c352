"""The committed state in Spark's own store, of any kind of operator, read without Spark."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Protocol

from statemigrate.deployment import StoredFamily, StoredStore, StorePlan, store_of
from statemigrate.embedded import cores, shared_out
from statemigrate.errors import TransformError
from statemigrate.files import Files
from statemigrate.formats import Format, Value, visible
from statemigrate.migration import MigrationPath
from statemigrate.processor import few_collections
from statemigrate.state.protocol import (
    ALL,
    Block,
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
    ticking,
)
from statemigrate.state.spark_operators import KeyRows, arrow_rows, combined_stores
from statemigrate.state.user_rows import one_value

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


# A family as its files have it: rows, and what of a row is its key and its value.


class ValueReader(Protocol):
    """Reads what a row has as its value; it can travel to other processes."""

    @property
    def format(self) -> Format:
        """The family's format."""

    def stored(self, column: Any) -> tuple[Sequence[bytes], Callable[[], Sequence[Value]] | None]:
        """The bytes that the format writes of each in a column, and what makes the values."""

    def plain(self, held: Any) -> Value:
        """The plain value alone, also where no format can hold it."""


class StoredRows(Protocol):
    """The rows of one family, a partition at a time; they can travel to other processes.

    A batch of Arrow has the columns ``key``, ``value``, ``partition_id``, and ``user_key`` for a
    map. The rows of a list, or of what equals one, stand together, in their order.
    """

    @property
    def partitions(self) -> int:
        """How many partitions there are."""

    @property
    def size(self) -> int:
        """About how many bytes of files are read for them."""

    @property
    def key_types(self) -> Mapping[str, Any]:
        """The columns of a key, a map's own included, with Arrow's types of them."""

    def batches(self, partition: int) -> Iterator[Any]:
        """The rows of a partition, some thousands at a time."""

    def under(self, key: Sequence[Any]) -> Iterator[Any]:
        """The rows whose keys begin with ``key``: for each column an array of one value."""

    def count(self, partition: int) -> int:
        """How many rows a partition has."""


_AT_ONCE = 4_096
"""Rows that a task gets at once."""
_SMALL = 2 << 20
"""Bytes of files for which no other process is worth its start."""


@dataclass(frozen=True)
class Reading:
    """The rows of a family, how their keys are read, and how their values are."""

    family: str
    rows: StoredRows
    key_of: KeyRows
    value_of: ValueReader

    def entries(self, key: Sequence[Any] | None = None) -> Iterator[Entry]:
        """Keys and values to be shown, of list state an element each.

        Only keys that begin with ``key``. Bytes of a text that are not UTF-8 are escaped visibly.
        """
        for batch in self._batches(key):
            for row in arrow_rows(batch):
                yield self.key_of(row), visible(self.value_of.plain(row["value"]))

    def map(self, task: Task, shares: Mapping[int, Share], tick: Tick) -> Iterator[Document]:
        """Run a task over the rows of each partition, in several processes; see `Values.map`."""
        with ticking(tick) as ticks:
            work = partial(_worked, reading=self, task=task, shares=shares, ticks=ticks)
            numbers = range(self.rows.partitions)
            processes = 1 if self.rows.size < _SMALL else cores()
            with closing(shared_out(work, numbers, processes)) as reports:
                for _, document in reports:
                    yield document

    def part(self, partition: int, shares: Mapping[int, Share], ticks: Ticks) -> Part:
        """What a task sees of a partition."""
        part = Part(self.family, self.value_of.format, self.key_of)
        part.blocks = _picked(part, self.rows.batches(partition), self.value_of, shares, ticks)
        return part

    def all_batches(self) -> Iterator[Any]:
        """The rows of all partitions."""
        return chain.from_iterable(map(self.rows.batches, range(self.rows.partitions)))

    def _batches(self, key: Sequence[Any] | None) -> Iterator[Any]:
        if key is None:
            return self.all_batches()
        types = self.rows.key_types.items()
        columns = zip(key, types, strict=False)
        return self.rows.under([one_value(value, kind, name) for value, (name, kind) in columns])


@dataclass(frozen=True)
class Readings:
    """See `Values`: family by family, its partitions in several processes."""

    readings: tuple[Reading, ...]

    def map(
        self, task: Task, *, shares: Shares | None = None, tick: Tick = no_tick
    ) -> Iterator[tuple[str, Document]]:
        """See `Values`."""
        for each in self.readings:
            share = (shares or {}).get(each.family, {})
            for document in each.map(task, share, tick):
                yield each.family, document


def _worked(
    number: int, *, reading: Reading, task: Task, shares: Mapping[int, Share], ticks: Ticks
) -> Iterator[Document]:
    with few_collections():
        # As it comes from another process, also where it does not.
        yield json.loads(json.dumps(task(reading.part(number, shares, ticks))))


def _picked(
    part: Part,
    batches: Iterator[Any],
    value_of: ValueReader,
    shares: Mapping[int, Share],
    ticks: Ticks,
) -> Iterator[Block]:
    import numpy as np

    from statemigrate.numpy_arrays import arrow_array

    for batch in chain.from_iterable(map(_in_slices, batches)):
        number = batch["partition_id"][0].as_py()
        first, share = part.seen, shares.get(number, ALL)
        part.seen += batch.num_rows
        places = [each for each in range(batch.num_rows) if share.picks(first + each)]
        is_all = len(places) == batch.num_rows
        rows = batch if is_all else batch.take(arrow_array(np.array(places, np.int64)))
        yield Block(_RowKeys(rows), *value_of.stored(rows["value"]))
        for index in range(first, part.seen):
            ticks.count(number, index)


def _in_slices(batch: Any) -> Iterator[Any]:
    for start in range(0, batch.num_rows, _AT_ONCE):
        yield batch.slice(start, _AT_ONCE)


class _RowKeys(Sequence[Any]):
    """The rows of a batch for their keys: many at once, or one where few are asked for."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch.drop_columns("value")

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def __getitem__(self, place: Any) -> Any:
        return next(arrow_rows(self._batch.slice(place, 1)))

    def __iter__(self) -> Iterator[Any]:
        return arrow_rows(self._batch)


# How many keys are the same once scripts have changed them.


Keys = Callable[[Iterator[Any]], Iterator[bytes]]
_BYTES = 16
_EXAMPLES = 3


def collisions(reading: Reading, keys: Keys) -> Collisions:
    """Of what ``keys`` gives for the rows and plain values of a family; see `State.keys_after`.

    A hash of each key is in memory.
    """
    import numpy as np

    hashes = b"".join(map(_hash, _keys(reading, keys)))
    found, counts = np.unique(np.frombuffer(hashes, f"V{_BYTES}"), return_counts=True)
    several = np.flatnonzero(counts > 1)
    whole = Collisions(int(counts.sum()), len(found), len(several))
    if not whole.met:
        return whole
    most = sorted(several.tolist(), key=lambda at: (-counts[at], found[at].tobytes()))[:_EXAMPLES]
    numbers = {found[at].tobytes(): int(counts[at]) for at in most}
    named = {key for key in _keys(reading, keys) if _hash(key) in numbers}
    examples = ((key, numbers[_hash(key)]) for key in named)
    return replace(whole, examples=tuple(sorted(examples, key=lambda each: (-each[1], each[0]))))


def _keys(reading: Reading, keys: Keys) -> Iterator[bytes]:
    rows = chain.from_iterable(map(arrow_rows, reading.all_batches()))
    return keys((row, reading.value_of.plain(row["value"])) for row in rows)


def _hash(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_BYTES).digest()


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
    return lists(entries) if plan.declared.variable_kind.has_several_values else entries


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


def _migrated(plan: StorePlan, path: MigrationPath, entries: Iterator[Entry]) -> Iterator[Entry]:
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

    def rows(self, family: StoredFamily) -> StoredRows | None:
        """A family's rows; None for one that is still to be made."""

    def value_of(self, family: StoredFamily) -> ValueReader:
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

    def rows(self, family: StoredFamily) -> StoredRows | None:
        """See `OperatorState`."""
        return self._of(family.name).rows(family)

    def value_of(self, family: StoredFamily) -> ValueReader:
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
        files: Files,
        batch: int,
        operator_state: OperatorState,
        operator_stores: Iterable[str] = (),
    ) -> None:
        self.checkpoint = checkpoint
        self.files = files
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
        found = {each.name: self._operator_state.rows(each) for each in wanted}
        return {name: _counted(rows) for name, rows in found.items() if rows is not None}

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


def _counted(rows: StoredRows) -> dict[int, int]:
    """The rows by partition, of those that have any."""
    numbers = {each: rows.count(each) for each in range(rows.partitions)}
    return {number: count for number, count in numbers.items() if count}
