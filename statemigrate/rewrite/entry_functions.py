"""What a task does with entries of a store: the author's functions on them, a batch at a time.

Each entry comes with two counts that it takes along: of how many old rows it is the first entry,
and how many entries have been merged into it. From both the report tells what was dropped and what
was merged, however often Spark runs a task again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from statemigrate.blocks import in_blocks, size_of
from statemigrate.checkpoint.operators import FamilyShape, StructJson
from statemigrate.checkpoint.rows import arrow_schema, normalized
from statemigrate.errors import TransformError
from statemigrate.formats import Format, Value, first_escaped, is_utf8, plain_array
from statemigrate.migration import Stage, Step, check_readable, stages_of
from statemigrate.processor import TupleCodec
from statemigrate.rewrite.arrow_types import (
    arrow_row,
    arrow_value,
    list_array,
    retyped,
    row_type,
    struct_array,
)
from statemigrate.rewrite.column_pairing import is_same
from statemigrate.rewrite.family_plans import MatchedFamily, MatchedRows, ScriptedRows
from statemigrate.rewrite.fields import FieldOrigin, StructChange
from statemigrate.rewrite.questions import plain_start
from statemigrate.state import Batches, CarriesErrors, arrow_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


ORIGINS, MERGED = "origins", "merged"
_MANY = 10_000
_WHOLE = ("byte", "short", "integer", "long")
_AS_ARROW_HAS_THEM = {*_WHOLE, "boolean", "float", "double", "string", "binary", "decimal", "date"}
EXPIRES = "expires"
"""A column that entries may take along: when they expire, in milliseconds since 1970."""
Carried = tuple[int | None, ...]
Entry = tuple[Value, Any, int, int, Carried]
"""A key, a value, or a list of values, both counts, and what else it takes along."""


def _entry_size(entry: Entry) -> int:
    return size_of(entry[0]) + size_of(entry[1])


@dataclass(frozen=True)
class EntryFormats:
    """The formats of keys and values; with ``is_list`` a value is a list of such.

    ``carried`` are columns of whole numbers that entries take along with both counts.
    """

    key: Format
    value: Format
    is_list: bool = False
    carried: tuple[str, ...] = ()

    @property
    def types(self) -> tuple[DataType, DataType]:
        """Spark's types of both."""
        from pyspark.sql.types import ArrayType

        single = self.value.struct_type()
        return self.key.struct_type(), ArrayType(single) if self.is_list else single

    @property
    def counted(self) -> tuple[str, ...]:
        """The columns other than key and value."""
        return (ORIGINS, MERGED, *self.carried)

    def plain(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Entry]:
        """Keys, values and counts of batches, one by one."""
        key_of, value_of = _converter(self.key), _converter(self.value)
        for batch in batches:
            for row in arrow_rows(batch):
                held = row["value"]
                value: Any = list(map(value_of, held)) if self.is_list else value_of(held)
                carried = tuple(row[name] for name in self.carried)
                yield key_of(row["key"]), value, row[ORIGINS], row[MERGED], carried

    def batches(self, entries: Iterable[Entry]) -> Iterator[pa.RecordBatch]:
        """The entries as batches of Arrow."""
        yield from map(self._batch, in_blocks(iter(entries), _MANY, _entry_size))

    def _batch(self, entries: list[Entry]) -> pa.RecordBatch:
        keys, values, origins, merged, carried = zip(*entries, strict=True)
        columns = [
            _structs(self.key, keys),
            _lists(self.value, values) if self.is_list else _structs(self.value, values),
            pa.array(origins, pa.int64()),
            pa.array(merged, pa.int64()),
        ]
        columns += [pa.array(each, pa.int64()) for each in zip(*carried, strict=True)]
        return pa.RecordBatch.from_arrays(columns, ["key", "value", *self.counted])


@dataclass(frozen=True)
class EntryTask:
    """Runs the functions of a stage on each entry.

    A function is given text in UTF-8 only; what it does not see may be any bytes.
    """

    stage: Stage
    before: EntryFormats
    after: EntryFormats

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the entries become. Raises TransformError."""
        return self.after.batches(self._entries(batches))

    def _entries(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Entry]:
        for key, value, origins, merged, carried in self.before.plain(self._readable(batches)):
            for number, (new_key, new_value) in enumerate(self._become(key, value)):
                is_first = number == 0
                yield new_key, new_value, origins * is_first, merged * is_first, carried

    def _readable(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches; the functions are given only what a str can hold."""
        takes_key = any(map(_takes_key, self.stage.steps))
        for batch in batches:
            if not is_utf8(batch["value"]) or (takes_key and not is_utf8(batch["key"])):
                for key, value, *_ in self.before.plain([batch]):
                    given = {"value": value, "key": key} if takes_key else {"value": value}
                    check_readable(self.stage.steps[0], key, given)
            yield batch

    def _become(self, key: Value, value: Any) -> list[tuple[Value, Any]]:
        if not self.before.is_list:
            return self.stage.entries(key, value)
        # A list migrates whole, each element by itself; keys of lists stay as they are.
        return [(key, [self.stage.entries(key, each)[0][1] for each in value])]


@dataclass(frozen=True)
class TableTask:
    """Runs the functions of a stage on tables of entries."""

    stage: Stage
    after: EntryFormats

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the tables become. Raises TransformError."""
        for batch in batches:
            table = pa.Table.from_batches([batch.select(["key", "value"])])
            made = self.stage.table(table).combine_chunks()
            yield from self._batches(batch, made)

    def _batches(self, before: pa.RecordBatch, made: pa.Table) -> Iterator[pa.RecordBatch]:
        rows = made.num_rows
        # Of a table whose keys change nobody can tell which row has become which.
        origins = before[ORIGINS] if rows == before.num_rows else _first(before, ORIGINS, rows)
        merged = before[MERGED] if rows == before.num_rows else _first(before, MERGED, rows)
        for name, fmt in (("key", self.after.key), ("value", self.after.value)):
            column = self._cast(made[name], fmt)
            if name == "key" and self.stage.key is not None:
                # As for keys of `rekey`: Spark looks for 0.0, and for one not a number.
                column = normalized(column.combine_chunks())
            made = made.set_column(made.schema.get_field_index(name), name, column)
        counted = made.append_column(ORIGINS, origins).append_column(MERGED, merged)
        for name in self.after.carried:
            counted = counted.append_column(name, before[name])
        yield from counted.combine_chunks().to_batches()

    def _cast(self, column: pa.ChunkedArray, fmt: Format) -> pa.ChunkedArray:
        wanted = _arrow_type(fmt)
        try:
            return column.cast(wanted)
        except pa.ArrowInvalid as cause:
            raise TransformError(
                "SM-TRANSFORM-017",
                f"Store '{self.stage.steps[-1].store}': upgrade_table returned values that the new "
                "format cannot hold.",
                expected=str(wanted),
                found=str(cause),
                next_action="correct upgrade_table, and rewrite again; no checkpoint was written",
            ) from cause


@dataclass(frozen=True)
class MergeTask:
    """Brings entries together that stand side by side under one key."""

    stage: Stage
    formats: EntryFormats

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One entry for each key. Raises TransformError where two meet and no rule is given."""
        return self.formats.batches(self._merged(batches))

    def _merged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Entry]:
        held: Entry | None = None
        name: bytes | str | None = None
        for entry in self.formats.plain(batches):
            key, value, origins, merged, carried = entry
            found = self._name(key)
            if held is None or found != name:
                if held is not None:
                    yield held
                held, name = entry, found
            else:
                given = {"first": held[1], "second": value}
                check_readable(self.stage.steps[-1], key, given)
                together = self.stage.merge(key, held[1], value)
                last = self._last(held[4], carried)
                held = key, together, held[2] + origins, held[3] + merged + 1, last
        if held is not None:
            yield held

    def _name(self, key: Value) -> bytes | str:
        """The same for equal keys, NaN included, and for no others."""
        return self.formats.key.encode(key) if first_escaped(key) is None else repr(key)

    def _last(self, held: Carried, other: Carried) -> Carried:
        """Of two that are merged the later expiration, and whatever else the first has."""
        pairs = zip(self.formats.carried, held, other, strict=True)
        return tuple(
            max((each for each in (one, two) if each is not None), default=None)
            if name == EXPIRES
            else one
            for name, one, two in pairs
        )


def _takes_key(step: Step) -> bool:
    return step.takes_key or step.rekey is not None


def _converter(fmt: Format) -> Callable[[Value], Value]:
    """From what Arrow gives, which often is the plain value already."""
    struct = fmt.struct_type()
    if all(field.dataType.typeName() in _AS_ARROW_HAS_THEM for field in struct.fields):
        return _itself
    return TupleCodec(struct).to_value


def _itself(value: Value) -> Value:
    return value


def _first(before: pa.RecordBatch, name: str, rows: int) -> pa.Array:
    """Counts for a table of another length: all of them with its first row."""
    total = sum(before[name].to_pylist())
    return pa.array([total, *([0] * (rows - 1))][:rows], pa.int64())


def _structs(fmt: Format, values: Sequence[Value]) -> pa.StructArray:
    return plain_array(values, _arrow_type(fmt))


def _lists(fmt: Format, held: Sequence[list[Value]]) -> pa.ListArray:
    elements = _structs(fmt, [each for values in held for each in values])
    ends = pa.array([0, *accumulate(map(len, held))], pa.int32())
    return pa.ListArray.from_arrays(ends, elements)


def _arrow_type(fmt: Format) -> pa.DataType:
    return pa.struct(list(arrow_schema(fmt.struct_type().jsonValue())))


# What becomes of rows whose fields go by name, a batch at a time as Arrow has them.
#
# There is no other rule for them: tasks that read files themselves follow it, and so do rows that
# Spark's reader gives.


Starts = Mapping[str, pa.Array]
"""By the dotted labels of new fields where they start: arrays of one value."""


@dataclass(frozen=True)
class FieldChanges:
    """Changes the fields of a ``key`` and of a ``value``, or of each element of a list.

    ``types`` are Arrow's of the new key and of the new content. What else is in a batch goes along.
    """

    key: StructChange
    value: StructChange
    types: tuple[pa.StructType, pa.StructType]
    starts: Starts
    is_list: bool = False

    @classmethod
    def of(
        cls, plan: MatchedFamily, given: Mapping[str, Any], key: StructJson, *, is_list: bool
    ) -> FieldChanges:
        """Those of a family to keys of the struct ``key``; ``given`` is by ``store.field``.

        Raises `RewriteError` for a start that a field cannot hold.
        """
        starts = {
            each.label: started(f"{plan.name}.{each.label}", each.type, given)
            for each in plan.value.added
        }
        types = arrow_row(key), arrow_row(plan.new.family.content)
        return cls(plan.key, plan.value, types, starts, is_list)

    @property
    def is_identity(self) -> bool:
        """Whether rows stay as they are."""
        return self.key.is_identity and self.value.is_identity

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with their new keys and values."""
        for batch in batches:
            changed = {
                "key": changed_struct(batch["key"], self.key, self.types[0], {}),
                "value": self._values(batch["value"]),
            }
            columns = [changed.get(name, batch[name]) for name in batch.schema.names]
            yield pa.RecordBatch.from_arrays(columns, batch.schema.names)

    def _values(self, values: pa.Array) -> pa.Array:
        kind = self.types[1]
        if not self.is_list:
            return changed_struct(values, self.value, kind, self.starts)
        lengths = values.value_lengths().to_numpy(zero_copy_only=False)
        elements = changed_struct(values.flatten(), self.value, kind, self.starts)
        return list_array(lengths, elements, pa.list_(kind))


def started(name: str, spark: Any, given: Mapping[str, Any]) -> pa.Array:
    """Where the field ``name`` of the type ``spark`` starts, as an array of one value."""
    (field,) = arrow_row({"type": "struct", "fields": [{"name": "x", "type": spark}]})
    return plain_array([plain_start(name, spark, given.get(name))], field.type)


def changed_struct(
    rows: pa.StructArray, change: StructChange, kind: pa.StructType, starts: Starts
) -> pa.StructArray:
    """Structs of the type ``kind`` from old ones; one that is null stays so."""
    if change.is_identity:
        return retyped(rows, kind)
    fields = [
        _field(rows, each, field.type, starts)
        for each, field in zip(change.fields, kind, strict=True)
    ]
    return struct_array(fields, kind, rows.is_null())


def _field(rows: pa.StructArray, change: FieldOrigin, kind: pa.DataType, starts: Starts) -> Any:
    if change.place is None:
        return starts[change.label].take(pa.array(np.zeros(len(rows), np.int64)))
    source = rows.field(change.place)
    if change.rule == "is null":
        return source.is_null()
    if change.rule == "zero if null":
        return retyped(source, kind).fill_null(pa.scalar(0).cast(kind))
    if change.nested is None:
        return retyped(source, kind)
    return changed_struct(source, change.nested, kind, starts)


def with_fields(
    rows: DataFrame, changes: FieldChanges, plan: MatchedFamily, key: StructJson
) -> DataFrame:
    """Rows of Spark's with new keys of the struct ``key``, and new contents."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, StructType

    content = row_type(plan.new.family.content)
    types = {"key": row_type(key), "value": ArrayType(content) if changes.is_list else content}
    if changes.is_identity:
        return rows.withColumns({name: F.col(name).cast(kind) for name, kind in types.items()})
    schema = StructType()
    for field in rows.schema.fields:
        schema = schema.add(field.name, types.get(field.name, field.dataType))
    return rows.mapInArrow(CarriesErrors(changes), schema)


# What tasks make of the rows of a family by themselves, a batch at a time as Arrow has them.
#
# That is for rows that stay as they are, for fields that go by name, and for scripts that neither
# change keys nor merge; all else needs Spark, which brings rows together.


_COLUMNS = ["key", "value", ORIGINS, MERGED]
_Types = tuple[pa.DataType, pa.DataType]


def change_task(plan: MatchedRows | ScriptedRows, starts: Mapping[str, Any]) -> Batches | None:
    """What changes batches of ``key`` and ``value``, which then have the counts of `entries`.

    ``starts`` has the author's answers for new fields, by ``store.field``. None where that takes
    Spark.
    """
    return _scripted(plan) if isinstance(plan, ScriptedRows) else _matched(plan, starts)


def _matched(plan: MatchedRows, starts: Mapping[str, Any]) -> Batches | None:
    old, new = plan.old.family, plan.new.family
    changes = FieldChanges.of(plan, starts, new.key, is_list=new.is_list)
    before, after = (arrow_row(old.key), arrow_value(old)), (arrow_row(new.key), arrow_value(new))
    if changes.is_identity and before == after:
        return _Changing((), before, after)
    # Rows that have lost a column of their key meet, and Spark takes off what is around a value.
    if changes.key.dropped or not (_is_bare(old) and _is_bare(new)):
        return None
    return _Changing((changes,), before, after)


def _scripted(plan: ScriptedRows) -> Batches | None:
    old, new = plan.old.family, plan.new.family
    if not (is_same(old.key, new.key) and _is_bare(old) and _is_bare(new)):
        return None
    formats = EntryFormats(plan.script.key, plan.script.value, is_list=new.is_list)
    tasks: list[Batches] = []
    before = formats
    for stage in stages_of(plan.script.path):
        if stage.key is not None or stage.merges:
            return None
        after = replace(before, value=stage.value)
        tasks.append(
            TableTask(stage, after) if stage.on_tables else EntryTask(stage, before, after)
        )
        before = after
    types = arrow_row(new.key), arrow_value(new)
    return _Changing(tuple(tasks), _types_of(formats), types)


def _is_bare(family: FamilyShape) -> bool:
    """Whether a value is its content."""
    return is_same(family.value, family.content)


@dataclass(frozen=True)
class _Changing:
    """Runs ``tasks`` on entries of the types ``before``, and gives those of the types ``after``."""

    tasks: tuple[Batches, ...]
    before: _Types
    after: _Types

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: Iterator[pa.RecordBatch] = (_counted(batch, self.before) for batch in batches)
        for task in self.tasks:
            found = task(found)
        for batch in found:
            counts = [batch[ORIGINS], batch[MERGED]]
            yield pa.RecordBatch.from_arrays([*_retyped(batch, self.after), *counts], _COLUMNS)


def _counted(batch: pa.RecordBatch, types: _Types) -> pa.RecordBatch:
    """Each entry is of one old row, and nothing is merged into it."""
    ones = pa.array(np.ones(batch.num_rows, np.int64))
    none = pa.array(np.zeros(batch.num_rows, np.int64))
    return pa.RecordBatch.from_arrays([*_retyped(batch, types), ones, none], _COLUMNS)


def _retyped(batch: pa.RecordBatch, types: _Types) -> list[pa.Array]:
    return [retyped(batch[name], kind) for name, kind in zip(_COLUMNS[:2], types, strict=True)]


def _types_of(formats: EntryFormats) -> _Types:
    from pyspark.sql.pandas.types import to_arrow_type

    key, value = formats.types
    return to_arrow_type(key, timezone="UTC"), to_arrow_type(value, timezone="UTC")
