"""The state of Spark's own operators, as of one committed batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators import OperatorStore
from statemigrate.deployment import StoredFamily, StoredStore, revision_of, store_of
from statemigrate.errors import StartupError, ValueMismatchError, shown
from statemigrate.formats import (
    Format,
    Value,
    differences,
    first_escaped,
    plain_values,
    struct_from_json,
    visible,
)
from statemigrate.formats.struct import shape_of
from statemigrate.migration import BASE, FEW, Lineage
from statemigrate.native import StoreRecord, read_record
from statemigrate.quoting import argument
from statemigrate.state.stored_checkpoint import StoredCheckpoint
from statemigrate.state.user_rows import UserRows

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


# Which revision the state of one of Spark's own operators has.


def stored_revision(lineage: Lineage, value: Format, key: Format, record: StoreRecord) -> str:
    """The revision of the state whose rows have these keys and values.

    It is the one that a rewrite noted in ``record``. State that none has made is of the oldest
    revision with its formats. Raises `StartupError` where there is none, and where the oldest does
    not say what its keys are and a later one does: then the keys of both may be these.
    """
    noted = record.target and revision_of(lineage, record.target)
    if noted in lineage:
        return str(noted)
    fitting = list(_fitting(lineage, value, key))
    if not fitting:
        raise _none(lineage, value)
    certain = [revision for revision in fitting if lineage.key_of(revision) is not None]
    if certain and fitting[0] not in certain:
        raise _unclear(lineage, key, fitting[0], certain[0])
    return fitting[0]


def _fitting(lineage: Lineage, value: Format, key: Format) -> Iterator[str]:
    for revision, format in zip(lineage.revisions, lineage.formats, strict=True):
        given = lineage.key_of(revision)
        if _is_same(format, value) and (given is None or _is_same(given, key)):
            yield revision


def _is_same(one: Format, other: Format) -> bool:
    return bool(shape_of(one.struct_type()) == shape_of(other.struct_type()))


def _unclear(lineage: Lineage, key: Format, older: str, newer: str) -> StartupError:
    return StartupError(
        "SM-START-029",
        f"store {lineage.store}: its state may be of revision {older}, or of {newer} already",
        expected="scripts whose keys or values differ from one revision to the next",
        found=f"the keys {key!r}, as at {newer}; {older} does not say what its keys are",
        next_action=f"say `new_key` in the baseline of store {lineage.store}: what its keys were "
        "before they changed",
        store=lineage.store,
    )


def _none(lineage: Lineage, value: Format) -> StartupError:
    head = lineage.format_of(lineage.head)
    return StartupError(
        "SM-START-030",
        f"store {lineage.store}: its state has the format, and the keys, of no revision",
        expected=f"one of {', '.join(lineage.revisions)}; the head is {head!r}",
        found="\n".join([*differences(head, value), repr(value)]),
        next_action=f"`statemigrate history {argument(lineage.store)}` lists the scripts; write "
        "one whose "
        "`old` is the format that is found",
        store=lineage.store,
    )


# Rows of Spark's own state as plain values, from Arrow or from Rows.


class StructValues:
    """Reads the structs of a state variable; they are written first: a transform may change one."""

    def __init__(self, fmt: Format) -> None:
        self.format = fmt
        # It loads PySpark, which takes longer than a look at little state.
        from statemigrate.processor import TupleCodec

        self._codec = TupleCodec(fmt.struct_type())

    def __reduce__(self) -> tuple[Any, ...]:
        return StructValues, (self.format,)

    def stored(self, column: Any) -> tuple[Sequence[bytes], Callable[[], Sequence[Value]]]:
        """The bytes that the format writes of each, and what makes the plain values.

        Raises `ValueMismatchError` for text that is not UTF-8, which no format can hold.
        """
        found = self.format.encode_columns(column) if len(column) >= FEW else None
        if found is not None:
            return found, lambda: list(map(self._codec.to_value, plain_values(column)))
        values = list(map(self._codec.to_value, plain_values(column)))
        return list(map(self._written, values)), lambda: values

    def _written(self, value: Value) -> bytes:
        try:
            return self.format.encode(value)
        except ValueMismatchError as error:
            found = first_escaped(value)
            if found is None:
                raise
            raise _not_text(*found) from error

    def plain(self, held: Any) -> Value:
        """The plain value; text that is not UTF-8 as `text_of` gives it."""
        return self._codec.to_value(held)


@dataclass(frozen=True)
class EnvelopeValues:
    """Reads envelopes, which hold the format's bytes."""

    format: Format

    def stored(self, column: Any) -> tuple[Sequence[bytes], None]:
        """The bytes of each envelope's value."""
        return [bytes(each["payload"]) for each in plain_values(column)], None

    def plain(self, held: Any) -> Value:
        """The plain value."""
        return self.format.decode(bytes(held["payload"]))


@dataclass(frozen=True)
class KeyRows:
    """Keys of Spark's own state as tuples: the grouping columns, for map state the map's own.

    They are to be shown: bytes of a text that are not UTF-8 are escaped visibly.
    """

    key: StructType
    user_key: StructType | None

    def __call__(self, row: Any) -> tuple[Any, ...]:
        """The key of a row, or of what Arrow makes of one."""
        parts = [_part(row["key"][name]) for name in self.key.fieldNames()]
        if self.user_key is not None:
            parts += [row["user_key"][name] for name in self.user_key.fieldNames()]
        return tuple(visible(each) if isinstance(each, str | dict) else each for each in parts)


def _part(part: Any) -> Any:
    # A window is a struct: one is a dictionary from Arrow, and a Row otherwise.
    return part.asDict(recursive=True) if hasattr(part, "asDict") else part


def _not_text(path: str, text: str) -> ValueMismatchError:
    return ValueMismatchError(
        "SM-VALUE-013",
        f"{path} is text that is not UTF-8, as `CAST(binary AS STRING)` can give",
        expected="UTF-8, which is what a str of Python's can be",
        found=shown(visible(text)),
        next_action="a rewrite carries it as it is where no script reads it, as a script's "
        "`upgrade_table` does; cast the column to binary in the query to have its bytes",
        field=path,
    )


def arrow_rows(batch: Any) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow record batch as dictionaries, maps as dictionaries too."""
    columns = [plain_values(column) for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, values, strict=True))


class OperatorRows:
    """See `statemigrate.state.spark.Kept`; a store has one family, of the store's name.

    A side of a join is a store of lists: the rows under what is equal on both sides, in the order
    in which they came.
    """

    def __init__(
        self,
        reader: StoredCheckpoint,
        found: Mapping[str, OperatorStore],
        lineages: Mapping[str, Lineage],
    ) -> None:
        self._reader = reader
        self._found = found
        self._lineages = lineages

    @cached_property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `Kept`: each is looked at when it is asked for, as its scripts may not fit it."""
        return _Stores(self._found, self._stored)

    def key_of(self, store: str) -> StructType:
        """See `Kept`."""
        return struct_from_json(self._found[store].key).struct_type()

    def rows(self, family: StoredFamily) -> UserRows | None:
        """See `Kept`: they are of one revision, whose family may have a name of its own."""
        name = store_of(family.name)
        (held,) = self.stores[name].families
        if held.revision != family.revision:
            return None
        store = self._found[name]
        stored = self._reader.family(store.number, store.store.name, store.family.name)
        return UserRows(stored, grouped=store.is_join)

    def value_of(self, family: StoredFamily) -> StructValues:
        """See `Kept`."""
        return StructValues(family.format)

    @cached_property
    def _record(self) -> Mapping[str, StoreRecord]:
        return read_record(self._reader.files)

    def _stored(self, name: str) -> StoredStore:
        store, record = self._found[name], self._record.get(name, StoreRecord())
        held: Format = struct_from_json(store.value)
        revision, lineage = BASE, self._lineages.get(name)
        if lineage is not None:
            revision = stored_revision(lineage, held, struct_from_json(store.key), record)
            held = lineage.format_of(revision)
        family = StoredFamily(name, revision, held)
        return StoredStore("list" if store.is_join else "value", (family,), record.applied)


class _Stores(Mapping[str, StoredStore]):
    def __init__(self, names: Collection[str], stored: Callable[[str], StoredStore]) -> None:
        self._names = names
        self._stored = stored

    def __getitem__(self, name: str) -> StoredStore:
        if name not in self._names:
            raise KeyError(name)
        return self._stored(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def combined_stores(
    one: Mapping[str, StoredStore], other: Mapping[str, StoredStore]
) -> Mapping[str, StoredStore]:
    """The stores of both."""
    return _Stores([*one, *other], lambda name: one[name] if name in one else other[name])
