"""Rows of PySpark and plain values, converted into each other.

Between PySpark's view of a state value and a plain value.

A processor passes tuples and gets tuples, nested structs as Rows, timestamps as naive local time; a
plain value is a dictionary by field name with aware UTC timestamps. Converters are made once a
schema; a struct of plain columns takes the short way.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row

from statemigrate.errors import ValueMismatchError
from statemigrate.formats import Format, Value, local_of, utc_of
from statemigrate.formats.avro import (
    DirectConversion,
    GeneratedSource,
    StructConverter,
    direct_conversion,
)
from statemigrate.processor.intake import row_taker

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


# Two functions for a struct type, of plain lines: from its tuples to dictionaries, and back.
#
# A tuple of three columns becomes a dictionary in 0.15 microseconds so, and took 0.3 by ``zip``.


def dictionary_maker(
    names: Sequence[str], converters: Sequence[Convert | None]
) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """What makes a dictionary of a tuple of as many values; None is never converted."""
    source = GeneratedSource()
    fields = [source.name("v") for _ in names]
    with source.function("def make(row):"):
        if fields:
            source.line(f"{''.join(f'{field}, ' for field in fields)} = row")
        for field, converter in zip(fields, converters, strict=True):
            source.convert(field, converter)
        pairs = zip(names, fields, strict=True)
        entries = [f"{source.constant(name)}: {field}" for name, field in pairs]
        source.line(f"return {{{', '.join(entries)}}}")
    make: Callable[[Sequence[Any]], dict[str, Any]] = source.compiled("make")
    return make


def tuple_maker(
    names: Sequence[str], converters: Sequence[Convert | None]
) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """What makes a tuple of a dictionary's values; None is never converted."""
    source = GeneratedSource()
    fields = [source.name("v") for _ in names]
    with source.function("def make(value):"):
        for name, field in zip(names, fields, strict=True):
            source.line(f"{field} = value[{source.constant(name)}]")
        for field, converter in zip(fields, converters, strict=True):
            source.convert(field, converter)
        source.line(f"return ({''.join(f'{field}, ' for field in fields)})")
    make: Callable[[dict[str, Any]], tuple[Any, ...]] = source.compiled("make")
    return make


Convert = Callable[[Any], Any]
Make = Callable[[Any], "Convert | None"]


def output_type(output: StructType | str) -> StructType:
    """The type of a processor's output rows, given as it is or as DDL."""
    # Spark's own parser: an output column may have any name, a state field may not.
    from pyspark.sql.types import StructType

    return StructType.fromDDL(output) if isinstance(output, str) else output  # type: ignore[return-value]


class TupleCodec:
    """Converts between the tuples of one struct type and plain values.

    Nested structs become Rows and timestamps naive local time, as PySpark hands them out; or, with
    ``rows=False``, what Spark's own variables are given: tuples, since PySpark 4.1 cannot write a
    Row within a state value, and aware timestamps, since PySpark takes every naive one for the same
    side of a clock change.
    """

    def __init__(self, schema: StructType, *, rows: bool = True) -> None:
        self.schema = schema
        self.names = tuple(schema.fieldNames())
        self._name_set = frozenset(self.names)
        self._width = len(self.names)
        self._rows = rows
        self._dictionary = dictionary_maker(self.names, _converters(schema, _plain))
        self._tuple = tuple_maker(self.names, _converters(schema, _row if rows else _tuple))

    def __reduce__(self) -> tuple[Any, ...]:
        return _codec, (self.schema, self._rows)

    def to_value(self, row: Sequence[Any] | Value) -> Value:
        """The plain value of a tuple or Row, or of a dictionary by field name.

        Raises `ValueMismatchError` for anything that does not have exactly the fields.
        """
        if type(row) is tuple and len(row) == self._width:
            return self._dictionary(row)
        return self._dictionary(self._fields(row))

    def take(self, row: Any) -> Any:
        """A row as PySpark would take it, in Python's own values; see `row_taker`."""
        return self._taker(row)

    @cached_property
    def _taker(self) -> Convert:
        return row_taker(self.schema)

    def _fields(self, row: Sequence[Any] | Value) -> Sequence[Any]:
        if isinstance(row, dict) and row.keys() == self._name_set:
            return [row[name] for name in self.names]
        # A string has a length too, and a dictionary's elements are its keys.
        if isinstance(row, list | tuple) and len(row) == self._width:
            return row
        raise ValueMismatchError(
            "SM-VALUE-010",
            "a state value does not have the fields of its schema",
            expected=f"a tuple of {len(self.names)} fields: {', '.join(self.names)}",
            found=repr(row),
            next_action="pass a tuple with one element for each field of the state's schema",
            field="",
        )

    def direct_conversion(self, fmt: Format) -> DirectConversion | None:
        """What writes a tuple in a format, and what reads one, as the two do by plain values.

        Either raises any `Exception` for what goes by plain values alone; None where all does.
        """
        written = _columns(self.schema, _plain, rows=False)
        read = _columns(self.schema, _row if self._rows else _tuple, rows=self._rows)
        return direct_conversion(fmt.schema, written, read)

    def to_tuple(self, value: Value) -> tuple[Any, ...]:
        """The tuple PySpark hands to a processor for ``value``."""
        return self._tuple(value)


def _codec(schema: StructType, rows: bool) -> TupleCodec:
    return TupleCodec(schema, rows=rows)


def _converters(
    schema: StructType, make: Callable[[DataType], Convert | None]
) -> list[Convert | None]:
    return [make(field.dataType) for field in schema.fields]


def _columns(
    schema: StructType, make: Make, *, rows: bool
) -> list[tuple[str, Convert | StructConverter | None]]:
    """The columns with their converters, in which a codec finds the columns of nested structs."""
    return [(field.name, _column_converter(field.dataType, make, rows)) for field in schema.fields]


def _column_converter(data_type: Any, make: Make, rows: bool) -> Convert | StructConverter | None:
    convert = make(data_type)
    if convert is None or data_type.typeName() != "struct":
        return convert
    columns = _columns(data_type, make, rows=rows)
    if not rows:
        return StructConverter(convert, columns)
    from pyspark.sql import Row

    return StructConverter(convert, columns, Row, Row(*data_type.fieldNames()))


def _plain(data_type: DataType) -> Convert | None:
    name = data_type.typeName()
    if name == "struct":
        return TupleCodec(data_type).to_value  # type: ignore[arg-type]
    if name == "timestamp":
        return _to_utc
    if name == "binary":
        return _to_bytes
    if name == "variant":
        return _parts
    return _container(data_type, _plain, _plain_key)


def _row(data_type: DataType) -> Convert | None:
    name = data_type.typeName()
    if name == "struct":
        return _row_maker(data_type)  # type: ignore[arg-type]
    if name == "timestamp":
        return local_of
    if name == "variant":
        return _variant
    return _container(data_type, _row, _row_key)


def _tuple(data_type: DataType) -> Convert | None:
    name = data_type.typeName()
    if name == "struct":
        return TupleCodec(data_type, rows=False).to_tuple  # type: ignore[arg-type]
    if name == "timestamp":
        return _aware
    if name == "variant":
        return _variant
    return _container(data_type, _tuple, _tuple_key)


def _row_maker(schema: StructType) -> Convert:
    from pyspark.sql import Row

    codec = TupleCodec(schema)
    make = Row(*codec.names)
    return lambda value: make(*codec.to_tuple(value))


def _container(data_type: Any, make: Make, make_key: Make) -> Convert | None:
    if data_type.typeName() == "array":
        element = _optional(make(data_type.elementType))
        return element and (
            lambda values: (
                [element(value) for value in values] if isinstance(values, Iterable) else values
            )
        )
    if data_type.typeName() == "map":
        return _map(make_key(data_type.keyType), _optional(make(data_type.valueType)))
    return None


def _map(key: Convert | None, item: Convert | None) -> Convert | None:
    if key is None and item is None:
        return None
    keys, items = key or _same, item or _same
    return lambda values: (
        {keys(each): items(value) for each, value in values.items()}
        if isinstance(values, dict)
        else values
    )


def _plain_key(data_type: DataType) -> Convert | None:
    return _tuple_of(data_type, _plain_key, tuple) if _is_nested(data_type) else _plain(data_type)


def _tuple_key(data_type: DataType) -> Convert | None:
    return _tuple_of(data_type, _tuple_key, tuple) if _is_nested(data_type) else _tuple(data_type)


def _row_key(data_type: DataType) -> Convert | None:
    if not _is_nested(data_type):
        return _row(data_type)
    from pyspark.sql import Row

    is_row = data_type.typeName() == "struct"
    make = Row(*data_type.fieldNames()) if is_row else None  # type: ignore[attr-defined]
    return _tuple_of(data_type, _row_key, lambda found: make(*found) if make else tuple(found))


def _is_nested(data_type: DataType) -> bool:
    return data_type.typeName() in ("struct", "array")


def _tuple_of(data_type: Any, make: Make, finish: Callable[[list[Any]], Any]) -> Convert:
    """A map's key of several parts: what cannot be hashed is a tuple, on either side."""
    if data_type.typeName() == "array":
        item = _optional(make(data_type.elementType)) or _same
        parts: Callable[[Any], list[Any]] = lambda key: [item(each) for each in key]  # noqa: E731
    else:
        fields = [_optional(make(field.dataType)) or _same for field in data_type.fields]
        parts = lambda key: [f(each) for f, each in zip(fields, key, strict=True)]  # noqa: E731
    fits = len(data_type) if data_type.typeName() == "struct" else None

    def convert(key: Any) -> Any:
        whole = isinstance(key, tuple) and fits in (None, len(key))
        return finish(parts(key)) if whole else key

    return convert


def _same(value: Any) -> Any:
    return value


def _parts(value: Any) -> Any:
    """The two parts of PySpark's VariantVal, whatever its module."""
    if type(value).__name__ != "VariantVal":
        return value
    return {"value": bytes(value.value), "metadata": bytes(value.metadata)}


def _variant(value: dict[str, bytes]) -> Any:
    from pyspark.sql.types import VariantVal

    return VariantVal(value["value"], value["metadata"])


def _optional(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)


# What is not of the column's type is left as it is, for the format to refuse.
def _to_utc(moment: Any) -> Any:
    return utc_of(moment) if type(moment) is dt.datetime else moment


def _aware(moment: dt.datetime) -> dt.datetime:
    # What UTC has no year for, PySpark can write only as local time.
    return moment if moment.tzinfo is dt.UTC else local_of(moment)


def _to_bytes(value: Any) -> Any:
    # bytes(5) would be five zero bytes.
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


# PySpark's Row with the names of its columns in the class, not in each row.
#
# A column is found by its name in a third of the time, by attribute in a tenth, and a row is made
# in half of it.


_value_at = tuple.__getitem__


def row_class(names: Sequence[str]) -> type[Row]:
    """A Row for columns of these names; pickled or copied, its rows are plain Rows.

    A row is made by ``tuple.__new__`` of it and of as many values. What there is no column for
    raises as it does of a plain Row.
    """
    # Of several columns of one name PySpark gives the first, and a method before any column.
    first: dict[Any, int] = {name: at for at, name in reversed(list(enumerate(names)))}
    columns = {name: _column(at) for name, at in first.items() if not hasattr(Row, name)}
    own = {"__fields__": Row(*names), "__getitem__": _getter(first), "__module__": Row.__module__}
    return type("Row", (Row,), {**columns, **own})


def _column(at: int) -> property:
    return property(lambda row: _value_at(row, at))


def _getter(places: dict[Any, int]) -> Callable[[Any, Any], Any]:
    plain = Row.__getitem__

    def get(row: Any, item: Any) -> Any:
        if type(item) is int:
            return _value_at(row, item)
        try:
            return _value_at(row, places[item])
        except (KeyError, TypeError):
            return plain(row, item)

    return get
