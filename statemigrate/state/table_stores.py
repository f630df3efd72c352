"""Which stores a checkpoint has at a batch, and the rows of each, whichever engine wrote it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from statemigrate.checkpoint.operators import StructJson
from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, NamedColumn, plain_values
from statemigrate.state.project import Project
from statemigrate.state.protocol import State
from statemigrate.state.user_rows import UserRows

if TYPE_CHECKING:
    from statemigrate.migration import Lineage, MigrationPath


@dataclass(frozen=True)
class ValueFailure:
    """A stored value that does not migrate, and why."""

    stored: dict[str, Any]
    error: TransformError | ValueMismatchError


Failures = dict[int, ValueFailure]
"""Values that do not migrate, by their place in a batch of rows."""


class FamilyRows(Protocol):
    """The rows of one family; see `statemigrate.state.user_rows.UserRows`."""

    @property
    def key(self) -> StructJson:
        """The columns of a grouping key."""

    @property
    def user_key(self) -> StructJson | None:
        """The columns of a map's own key."""

    @property
    def value(self) -> StructJson:
        """The columns of a value."""

    @property
    def has_several(self) -> bool:
        """Whether a key may have several rows."""

    @property
    def partitions(self) -> int:
        """How many partitions there are."""

    @property
    def size(self) -> int | None:
        """About how many bytes of files are read for them, where that is known."""

    def count(self, partition: int) -> int:
        """How many rows a partition has; values are not decoded for it."""

    def batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""

    def under(self, key: Sequence[pa.Array]) -> Iterator[pa.RecordBatch]:
        """The rows whose keys begin with ``key``."""


@dataclass(frozen=True)
class FormatConversion:
    """Brings values of one format into another one, by a path of scripts."""

    source: Format
    path: MigrationPath | None
    target: Format

    def __call__(self, rows: pa.RecordBatch, failures: Failures | None = None) -> pa.StructArray:
        """The values of rows in the target's format.

        A value that does not migrate is null, and ``failures`` get the reason. Without them it
        raises `TransformError`.
        """
        from statemigrate.processor import TupleCodec
        from statemigrate.state.plain_rows import values_array

        read = TupleCodec(self.source.struct_type()).to_value
        values: list[dict[str, Any] | None] = []
        for place, value in enumerate(plain_values(rows["value"])):
            try:
                found = read(value) if self.path is None else self.path.apply(read(value))
                values.append(self.target.conform(found))
            except (TransformError, ValueMismatchError) as error:
                if failures is None:
                    raise _at_key(error, rows["key"][place : place + 1]) from error.__cause__
                values.append(None)
                # A transform may have changed what it was given.
                (stored,) = plain_values(rows["value"][place : place + 1])
                failures[place] = ValueFailure(read(stored), error)
        return values_array(values, self.target)


def _at_key(
    error: TransformError | ValueMismatchError, keys: pa.StructArray
) -> TransformError | ValueMismatchError:
    """The same error of the value under the one of ``keys``, with the way to read the others."""
    if isinstance(error, ValueMismatchError):
        return error
    (key,) = plain_values(keys)
    way = 'on_error="null", or `statemigrate sql` with --on-error null, reads the other rows'
    return error.at(tuple(key.values())).but(next_action=f"{error.next_action}; {way}")


@dataclass(frozen=True)
class StorePart:
    """The rows of a store that are of one ``revision``."""

    rows: FamilyRows
    revision: str
    conversion: FormatConversion | None = None

    def values_of(self, rows: pa.RecordBatch, failures: Failures | None = None) -> pa.StructArray:
        """The values of a batch, in the format of the store's target; see `FormatConversion`."""
        return rows["value"] if self.conversion is None else self.conversion(rows, failures)

    def reading(self, fields: Collection[str]) -> StorePart:
        """The same rows, where only these fields of values count, and others may be null."""
        if self.conversion is not None or not isinstance(self.rows, UserRows):
            return self
        return replace(self, rows=self.rows.reading(fields))


@dataclass(frozen=True)
class PartCount:
    """How many rows a part of a store has in one partition."""

    part: StorePart
    partition: int
    count: int


@dataclass(frozen=True)
class StoreRows:
    """All rows of a store: the parts have the same keys, and values of one format in the end."""

    parts: tuple[StorePart, ...]
    value: StructJson

    @property
    def key(self) -> StructJson:
        """The columns of a grouping key."""
        return self.parts[0].rows.key

    @property
    def user_key(self) -> StructJson | None:
        """The columns of a map's own key."""
        return self.parts[0].rows.user_key

    @property
    def has_several(self) -> bool:
        """Whether a key may have several rows."""
        return self.parts[0].rows.has_several

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return max(each.rows.partitions for each in self.parts)

    def reading(self, fields: Collection[str]) -> StoreRows:
        """The same rows, where only these fields of values count, and others may be null."""
        return replace(self, parts=tuple(each.reading(fields) for each in self.parts))

    def batches(self, partition: int) -> Iterator[tuple[StorePart, pa.RecordBatch]]:
        """The rows of a partition, each batch with the part that it is of."""
        for part in self.parts:
            for batch in part.rows.batches(partition):
                yield part, batch

    def under(self, key: Sequence[pa.Array]) -> Iterator[tuple[StorePart, pa.RecordBatch]]:
        """The rows whose keys begin with ``key``."""
        for part in self.parts:
            for batch in part.rows.under(key):
                yield part, batch

    def count(self) -> int:
        """How many rows there are."""
        return sum(each.count for each in self.counts())

    def counts(self) -> Iterator[PartCount]:
        """How many rows each part has in each partition."""
        for part in self.parts:
            for number in range(part.rows.partitions):
                yield PartCount(part, number, part.rows.count(number))


class Catalog(Protocol):
    """The stores of a checkpoint at a batch."""

    @property
    def batch(self) -> int:
        """The batch."""

    @property
    def batches(self) -> tuple[int, ...]:
        """The committed batches whose state may be there."""

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of the stores."""

    @property
    def internal(self) -> tuple[str, ...]:
        """The names of what the engine keeps for itself."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all of them."""

    @property
    def state(self) -> State:
        """The stores with their families, which a processor would access at this batch."""

    def fields(self) -> Iterator[NamedColumn]:
        """The columns of all of them, and the fields in these, as far as metadata name them."""

    def rows(self, name: str) -> StoreRows:
        """The rows of one of them."""

    def close(self) -> None:
        """Remove what reading has copied."""


def joined_parts(
    store: str,
    parts: Sequence[tuple[FamilyRows, str, Format]],
    lineage: Lineage | None,
    project: Project,
    checkpoint: str,
) -> StoreRows:
    """The rows of a store whose families these are, each with its revision and its format.

    Raises `StartupError` for families of several formats without scripts, or of a revision that no
    way leads from, and `LineageError` for an unknown target.
    """
    if lineage is None:
        value = parts[0][0].value
        if any(rows.value != value for rows, _, _ in parts):
            from statemigrate.state.protocol import unscripted

            raise unscripted(checkpoint, store)
        return StoreRows(tuple(StorePart(rows, revision) for rows, revision, _ in parts), value)
    from statemigrate.deployment import live_path
    from statemigrate.state.plain_rows import struct_of, value_json

    target = lineage.resolve(project.targets.get(store, "head"))
    fmt = lineage.format_of(target)
    wanted, made = value_json(fmt), []
    for rows, revision, source in parts:
        path = None if revision == target else live_path(lineage, revision, target)
        is_same = path is None and struct_of(rows.value) == struct_of(wanted)
        conversion = None if is_same else FormatConversion(source, path, fmt)
        made.append(StorePart(rows, revision, conversion))
    return StoreRows(tuple(made), wanted)
