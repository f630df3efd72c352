"""The rows of a checkpoint's committed state, read from its files without Spark.

All of it, whatever operator keeps it, in both encodings and of both providers: for each family of
each operator the keys and values of a partition as columns of Arrow, some thousands at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.blocks import BYTES_IN_BLOCK
from statemigrate.checkpoint.logs import is_avro
from statemigrate.checkpoint.operators import (
    CheckpointShape,
    FamilyShape,
    OperatorShape,
    StoreShape,
    StructJson,
    labels,
    partition_columns,
    read_operator_entry,
    read_schema_files,
    row_json,
    used_partitions,
)
from statemigrate.checkpoint.rows import (
    FAMILY,
    KeyCodec,
    Rows,
    ValueCodec,
    families_of,
    partition_of,
)
from statemigrate.checkpoint.shape import describe
from statemigrate.checkpoint.stores import (
    StoredPartition,
    StoreVersion,
    provider_of,
    row_layout,
    store_folder,
)
from statemigrate.errors import CorruptFileError
from statemigrate.files import Files
from statemigrate.numpy_arrays import arrow_array

_MANY = 50_000
"""Rows that are decoded at once."""
Batch = tuple[pa.StructArray, pa.Array]
"""Keys, and for each a struct, or the list of a list's elements."""


@dataclass(frozen=True)
class Schemas:
    """The numbers of a family's newest schemas, which rows in Avro have with them.

    ``older`` are earlier schemas of its values by their numbers.
    """

    key: int = 0
    value: int = 0
    older: Mapping[int, StructJson] = field(default_factory=dict)


@dataclass(frozen=True)
class OperatorFamily:
    """A family of an operator's store in all partitions, which may be read one at a time.

    ``conf`` are the settings that are pinned to the query. With ``paths``, dotted names of fields
    of values, other fields need not be read, and may be null.
    """

    files: Files
    conf: Mapping[str, str]
    operator: OperatorShape
    store: StoreShape
    family: FamilyShape
    parts: tuple[StoredPartition, ...]
    schemas: Schemas = Schemas()
    paths: Collection[str] | None = None

    def rows(self, partition: int) -> Iterator[Batch]:
        """The rows in a partition, fields by their labels, a batch at a time.

        Raises `CorruptFileError` for files and rows that are not what Spark writes.
        """
        return self._decoded(partition, b"", None)

    def under(self, keys: pa.StructArray) -> Iterator[Batch]:
        """The rows of whole ``keys``, read from the partitions where Spark looks for them."""
        numbers = self.partitions_of(keys)
        for number in np.unique(numbers).tolist():
            found = keys.filter(arrow_array(numbers == number))
            encoded = self._codecs(number)[0].encode(found)
            for place in range(len(encoded)):
                key = encoded.row(place)
                yield from self._decoded(number, key, key + b"\0")

    def partitions_of(self, keys: pa.StructArray) -> npt.NDArray[np.int32]:
        """The partition in which Spark looks for each of the keys, fields by their labels."""
        return partitions_of(self.operator, self.store, self.family, keys)

    def raw(
        self,
        partition: int,
        start: bytes = b"",
        stop: bytes | None = None,
        *,
        has_values: bool = True,
    ) -> Iterator[tuple[Rows, Rows]]:
        """Keys and values as the store has them, with the number of the family before each key.

        ``start`` and ``stop``, which is left out, are keys as the store has them. Where not
        ``has_values`` the values may be empty.
        """
        part = self.parts[partition]
        number = self.number_in(partition)
        provider = provider_of(self.conf)
        if provider.has_families and self.store.has_families and number is None:
            self._check_numbers(partition)
            return
        if number is not None and not start:
            start = number.to_bytes(FAMILY, "little", signed=True)
            stop = _behind(start)
        stored = provider.open(self.files, part.version, self.conf)
        yield from stored.rows(start, stop, values=has_values)

    def decode(self, partition: int, keys: Rows, values: Rows) -> Batch:
        """Keys and values of a partition as a store has them, as `rows` gives them."""
        key_codec, value_codec = self._codecs(partition)
        try:
            found, owners = value_codec.decode(values, keys)
            if self.family.is_list:
                found = _lists(found, owners, len(keys))
            return key_codec.decode(keys), found
        except CorruptFileError as error:
            if error.data.get("path"):
                raise
            folder = f"{self.files.location}/{self.parts[partition].version.folder}"
            raise error.but(summary=f"{folder}: {error.summary}", path=folder) from error

    def _decoded(self, partition: int, start: bytes, stop: bytes | None) -> Iterator[Batch]:
        for keys, values in in_parts(self.raw(partition, start, stop)):
            yield self.decode(partition, keys, values)

    def _codecs(self, partition: int) -> tuple[KeyCodec, ValueCodec]:
        layout, family = row_layout(self.conf), self.family
        key = KeyCodec(
            row_json(family.key),
            family.encoder,
            layout,
            self.number_in(partition),
            schema_number=self.schemas.key,
        )
        older = {number: row_json(each) for number, each in self.schemas.older.items()}
        value = ValueCodec(
            row_json(family.value),
            layout,
            is_list=family.is_list,
            schema_number=self.schemas.value,
            older=older,
            paths=self.paths,
        )
        return key, value

    def number_in(self, partition: int) -> int | None:
        """The number of the family; None where the store has none, or has not made this one."""
        return self.parts[partition].families.get(self.family.name)

    def _check_numbers(self, partition: int) -> None:
        """Raise `CorruptFileError` where a change may be of a family without a known number.

        Spark writes a snapshot, with the numbers of all families, when it makes one. A family that
        the schemas have and no snapshot has was not made.
        """
        part = self.parts[partition]
        for changes in provider_of(self.conf).changes(self.files, part.version.changes, self.conf):
            found = set(np.unique(families_of(changes.keys)).tolist())
            if unknown := found - set(part.families.values()):
                path = f"{self.files.location}/{part.version.snapshot or part.version.folder}"
                raise CorruptFileError(
                    "SM-CHECKPOINT-035",
                    f"{path} does not say which keys are of the family {self.family.name}",
                    expected="the number of each column family, in the metadata of a snapshot",
                    found=f"keys of the families {unknown}, and the numbers of "
                    f"{', '.join(part.families) or 'none'}",
                    next_action="restore the folder of this partition from a copy of the "
                    "checkpoint",
                    path=path,
                    family=self.family.name,
                )


class CommittedState:
    """The state of a query of Spark's as of a committed batch, the newest one by default.

    ``operators`` has Spark's names of operators by number, for checkpoints of Spark before 4.0. The
    query may be running. Raises as `describe`.
    """

    def __init__(
        self,
        files: Files,
        batch: int | None = None,
        operators: Mapping[int, str] | None = None,
    ) -> None:
        self.files = files
        self._names = operators or {}
        self.shape: CheckpointShape = describe(files, batch, operators, restarts=False)

    @property
    def batch(self) -> int:
        """The batch whose state it is."""
        return self.shape.batch

    @cached_property
    def families(self) -> tuple[OperatorFamily, ...]:
        """All families of all operators. Raises `CorruptFileError` where a file is missing."""
        return tuple(
            each for operator in self.shape.operators for each in self.of_operator(operator)
        )

    def of_operator(self, operator: OperatorShape) -> Iterator[OperatorFamily]:
        """The families of one operator. Raises as `families`."""
        name = self._names.get(operator.number)
        for store in operator.stores:
            parts = stored_partitions(self.files, self.shape, operator, store)
            for family in store.families:
                yield stored_family(
                    self.files, self.shape, operator, store, family, parts=parts, name=name
                )


def stored_family(
    files: Files,
    shape: CheckpointShape,
    operator: OperatorShape,
    store: StoreShape,
    family: FamilyShape,
    *,
    parts: tuple[StoredPartition, ...],
    name: str | None = None,
) -> OperatorFamily:
    """A family of an operator's store, whose ``parts`` `stored_partitions` gives.

    ``name`` is Spark's name of the operator, for checkpoints of Spark before 4.0.
    """
    schemas = Schemas()
    if is_avro(shape.conf):
        schemas = _schemas(files, shape, operator, store.name, family.name, name)
    return OperatorFamily(files, shape.conf, operator, store, family, parts, schemas)


def stored_partitions(
    files: Files, shape: CheckpointShape, operator: OperatorShape, store: StoreShape
) -> tuple[StoredPartition, ...]:
    """All partitions of an operator's store. Raises as `stored_partition`."""
    place = [each.name for each in operator.stores].index(store.name)
    numbers = range(used_partitions(operator))
    return tuple(stored_partition(files, shape, operator, place, each) for each in numbers)


def _schemas(
    files: Files,
    shape: CheckpointShape,
    operator: OperatorShape,
    store: str,
    family: str,
    name: str | None,
) -> Schemas:
    entry, _ = read_operator_entry(files, operator.number, shape.batch, shape.conf, name)
    (found,) = (each for each in entry.stores if each.name == store)
    all_schemas = [
        each
        for schemas in read_schema_files(files, entry, found)
        for each in schemas
        if each.name == family
    ]
    newest = all_schemas[-1]
    older = {each.value_id: each.value for each in all_schemas[:-1]}
    older.pop(newest.value_id, None)
    return Schemas(newest.key_id, newest.value_id, older)


def stored_partition(
    files: Files, shape: CheckpointShape, operator: OperatorShape, place: int, partition: int
) -> StoredPartition:
    """The files of a partition of an operator's store, which is at ``place`` among its stores.

    Raises `CorruptFileError` where one is missing or is not what Spark writes.
    """
    version = store_version(files, shape, operator, place, partition)
    return provider_of(shape.conf).partition(files, version)


def store_version(
    files: Files, shape: CheckpointShape, operator: OperatorShape, place: int, partition: int
) -> StoreVersion:
    """Which files make a partition of an operator's store. Raises as `stored_partition`."""
    folder = store_folder(operator.number, partition, operator.stores[place].name)
    ids = shape.commits[shape.batch].state_ids
    unique = None if not ids else ids[operator.number][partition][place]
    return provider_of(shape.conf).version(files, folder, shape.batch + 1, shape.conf, unique)


# Where Spark looks for a key.


def partitions_of(
    operator: OperatorShape, store: StoreShape, family: FamilyShape, keys: pa.StructArray
) -> npt.NDArray[np.int32]:
    """The partitions of keys as Arrow has them, fields by their labels."""
    paths = partition_columns(operator, store, family)
    if not paths:
        return np.zeros(len(keys), np.int32)
    columns = [pc.struct_field(keys, list(path)) for path in labelled_paths(paths, family)]
    return partition_of(columns, store.partitions)


def labelled_paths(paths: Sequence[tuple[str, ...]], family: FamilyShape) -> list[tuple[str, ...]]:
    """The paths by labels of the key's fields; a name that repeats stands for each in turn."""
    fields = [str(each["name"]) for each in family.key["fields"]]
    named, found = labels(family.key), []
    for name, *rest in paths:
        at = fields.index(name)
        fields[at] = ""
        found.append((named[at], *rest))
    return found


def _lists(elements: pa.Array, owners: npt.NDArray[np.int64], count: int) -> pa.ListArray:
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(owners, minlength=count), out=offsets[1:])
    return pa.ListArray.from_arrays(arrow_array(offsets), elements, type=pa.list_(elements.type))


def _behind(start: bytes) -> bytes | None:
    """The first bytes that sort behind all that begin with ``start``; None where there are none."""
    kept = start.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def in_parts(found: Iterator[tuple[Rows, Rows]]) -> Iterator[tuple[Rows, Rows]]:
    """The same rows, so many at a time that memory has room for them once they are decoded."""
    for keys, values in found:
        start = 0
        while start < len(keys):
            end = _end_of_block(values, start)
            yield keys.slice(start, end), values.slice(start, end)
            start = end


def _end_of_block(values: Rows, start: int) -> int:
    """Where a block of rows ends: so many, or as many bytes as one has room for."""
    full = values.starts[start] + BYTES_IN_BLOCK
    end = int(np.searchsorted(values.starts, full, "left"))
    return min(max(end, start + 1), start + _MANY, len(values))
