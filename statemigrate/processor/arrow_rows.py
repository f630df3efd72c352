"""Arrow tables that users make, in the types that are wanted of them.

Libraries have several Arrow types for the same values: Polars' text is a ``large_string``, pandas'
timestamps have nanoseconds. A column is taken if its type means the same, and if each of its values
is one of the wanted type. Nothing is rounded, cut or parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types

from statemigrate.blocks import size_of
from statemigrate.errors import ProcessorError, ValueMismatchError, values_hidden
from statemigrate.formats import plain_array, plain_values

_TEXTS = (types.is_string, types.is_large_string, types.is_string_view)
_BINARIES = (
    *(types.is_binary, types.is_large_binary, types.is_binary_view),
    types.is_fixed_size_binary,
)
_LISTS = (types.is_list, types.is_large_list, types.is_fixed_size_list)
_ALIKE: tuple[tuple[Callable[[Any], bool], ...], ...] = (
    (types.is_integer,),
    (types.is_boolean,),
    _TEXTS,
    _BINARIES,
    (types.is_decimal,),
    (types.is_date,),
    (types.is_time,),
    (types.is_duration,),
)
"""Kinds of types. One of a kind becomes another, if its values are values of that."""


_AS_THEY_ARE = ("boolean", "byte", "short", "integer", "long", "float", "double")
"""Types whose values PySpark hands to Arrow without a look at them."""
_OF_ONE_SIZE = (*_AS_THEY_ARE, "date", "timestamp", "timestamp_ntz", "decimal")
_TEXT = "string"


class UnfitColumn(Exception):  # noqa: N818 - a signal between two parts of this package
    """A column at ``place`` is not what is ``expected``; the ``detail`` may quote a value."""

    def __init__(self, place: str, expected: object, found: object, detail: object = None) -> None:
        super().__init__(place, expected, found)
        self.place, self.expected, self.found = place, str(expected), str(found)
        self.detail = detail


def table_of(given: Any) -> pa.Table:
    """A table of Arrow, of pandas or of Polars as Arrow's, each column in one piece.

    Raises TypeError for something else, and ``pyarrow.ArrowException`` for a column of mixed types.
    """
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    if not isinstance(given, pa.Table):
        is_pandas = type(given).__module__.partition(".")[0] == "pandas"
        if not is_pandas and not hasattr(given, "__arrow_c_stream__"):
            raise TypeError(f"{type(given).__name__} is no table")
        given = pa.Table.from_pandas(given, preserve_index=False) if is_pandas else pa.table(given)
    return given.combine_chunks()


def column_of(table: pa.Table, which: str | int) -> pa.Array:
    """A column of a table, by its name or its place, as one array."""
    column = table.column(which)
    if column.num_chunks == 1:
        return column.chunk(0)
    made = column.combine_chunks()
    return made.chunk(0) if isinstance(made, pa.ChunkedArray) else made


def fitted(array: pa.Array, wanted: pa.DataType, place: str) -> pa.Array:
    """The array in the type that is wanted. Raises `UnfitColumn`, with the place within it."""
    if array.type == wanted:
        return array
    if types.is_dictionary(array.type):
        return fitted(array.dictionary_decode(), wanted, place)
    if types.is_struct(wanted) and types.is_struct(array.type):
        return _struct(array, wanted, place)
    if types.is_map(wanted) and _is(array.type, _LISTS):
        # Polars has no maps: a list of entries stands for one.
        entry = pa.struct([wanted.key_field, wanted.item_field])
        return fitted(array, pa.list_(entry), place).view(wanted)
    _check(array.type, wanted, place)
    try:
        if _has_order(array.type, wanted):
            return array.cast(wanted)
        return plain_array(plain_values(array), wanted)
    except (pa.ArrowException, OverflowError) as error:
        raise UnfitColumn(place, wanted, array.type, error) from error


def _struct(array: pa.StructArray, wanted: pa.StructType, place: str) -> pa.Array:
    _check_names(array.type, wanted, place)
    fields = [fitted(array.field(each.name), each.type, f"{place}.{each.name}") for each in wanted]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=mask)


def _check_names(found: pa.StructType, wanted: pa.StructType, place: str) -> None:
    names, expected = [each.name for each in found], [each.name for each in wanted]
    if sorted(names) != sorted(expected):
        raise UnfitColumn(place, f"a struct of {_named(expected)}", f"one of {_named(names)}")


def _named(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"


def _check(found: pa.DataType, wanted: pa.DataType, place: str) -> None:
    """Raise `UnfitColumn` for a type that means something else."""
    if types.is_null(found) or any(_is(found, kind) and _is(wanted, kind) for kind in _ALIKE):
        return
    if types.is_floating(wanted) and (types.is_floating(found) or types.is_integer(found)):
        return
    if types.is_timestamp(wanted) and types.is_timestamp(found):
        if (wanted.tz is None) == (found.tz is None):
            return
    elif types.is_struct(wanted) and types.is_struct(found):
        _check_names(found, wanted, place)
        for each in wanted:
            _check(found.field(each.name).type, each.type, f"{place}.{each.name}")
        return
    elif types.is_map(wanted) and types.is_map(found):
        _check(found.key_type, wanted.key_type, f"{place} key")
        _check(found.item_type, wanted.item_type, f"{place}{{}}")
        return
    elif _is(wanted, _LISTS) and _is(found, _LISTS):
        _check(found.value_type, wanted.value_type, f"{place}[]")
        return
    raise UnfitColumn(place, wanted, found)


def _is(kind: pa.DataType, checks: Sequence[Callable[[Any], bool]]) -> bool:
    return any(check(kind) for check in checks)


def _has_order(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the fields of structs within lists and maps stand in the order that is wanted.

    Arrow's own cast takes a field that stands elsewhere for one that is not there.
    """
    if types.is_struct(found) and types.is_struct(wanted):
        names = [each.name for each in found]
        return names == [each.name for each in wanted] and all(
            _has_order(one.type, other.type) for one, other in zip(found, wanted, strict=True)
        )
    if types.is_map(found) and types.is_map(wanted):
        pairs = ((found.key_type, wanted.key_type), (found.item_type, wanted.item_type))
        return all(_has_order(*each) for each in pairs)
    if _is(found, _LISTS) and _is(wanted, _LISTS):
        return _has_order(found.value_type, wanted.value_type)
    return True


# What a batch processor has returned, with the errors that its user sees.


def returned_table(what: str, given: Any) -> pa.Table:
    """`table_of` what a batch processor has returned as its ``what``. Raises `ProcessorError`."""
    try:
        return table_of(given)
    except (TypeError, pa.ArrowException) as error:
        raise _not_a_table(what, error) from error


def returned_column(what: str, table: pa.Table, name: str, wanted: pa.DataType) -> pa.Array:
    """A column of `returned_table` in the type that is wanted. Raises `ValueMismatchError`."""
    try:
        return fitted(column_of(table, name), wanted, name)
    except UnfitColumn as error:
        raise unfit(what, error) from error


def returned_output(given: Any, schema: pa.Schema, output: Any) -> pa.Table:
    """The output that a batch processor has returned, in the columns of ``schema``.

    ``output`` is Spark's type of its rows, by which a column may have no nulls. Raises
    `ProcessorError` for other columns, and `ValueMismatchError` for other types.
    """
    table = returned_table("output", given)
    if sorted(table.column_names) != sorted(schema.names):
        raise ProcessorError(
            "SM-PROCESSOR-009",
            "a batch processor returned output with other columns",
            expected=f"those of outputStructType: {', '.join(schema.names)}",
            found=", ".join(table.column_names) or "no column",
            next_action="return a table with these columns, in any order",
            columns=table.column_names,
        )
    arrays = [returned_column("output", table, each.name, each.type) for each in schema]
    for field, array in zip(output.fields, arrays, strict=True):
        if not field.nullable and array.null_count:
            error = UnfitColumn(field.name, f"{array.type} without nulls", "a null")
            raise unfit("output", error)
    return pa.Table.from_arrays(arrays, schema=schema)


def _not_a_table(what: str, error: Exception) -> ProcessorError:
    """The error for what a batch processor returned in place of a table."""
    return ProcessorError(
        "SM-PROCESSOR-003",
        f"a batch processor did not return its {what} as a table",
        expected="(state, output), each None or a table of pyarrow, Polars or pandas whose columns "
        "have one type each",
        found=_with_detail(type(error).__name__, error),
        next_action="return a pyarrow.Table, or None for no change or no rows",
    )


def unfit(what: str, error: UnfitColumn) -> ValueMismatchError:
    """The error for a column that a batch processor returned in another type."""
    return ValueMismatchError(
        "SM-PROCESSOR-006",
        f"a batch processor returned {what} whose column {error.place} has another type",
        expected=error.expected,
        found=_with_detail(error.found, error.detail),
        next_action="return the values in that type: pyarrow's cast() converts a column",
        field=error.place,
    )


def _with_detail(found: str, detail: object) -> str:
    """What was found, with a text of Arrow's, which may quote a value."""
    return found if detail is None or values_hidden() else f"{found}: {detail}"


class PlainColumns:
    """Columns of values that PySpark would hand to Arrow as they are, without going by rows."""

    def __init__(self, schema: Any) -> None:
        kinds = [field.dataType.typeName() for field in schema.fields]
        self._width = len(kinds)
        self._texts = [at for at, kind in enumerate(kinds) if kind == _TEXT]
        self._of_any_size = [at for at, kind in enumerate(kinds) if kind not in _OF_ONE_SIZE]
        self._are_plain = all(
            field.nullable and kind in (*_AS_THEY_ARE, _TEXT)
            for field, kind in zip(schema.fields, kinds, strict=True)
        )

    def size_of(self, rows: Sequence[Any]) -> int:
        """About how many bytes the columns have together that may have any number."""
        from pyspark.sql import Row

        if not set(map(type, rows)) <= {tuple, Row} or set(map(len, rows)) - {self._width}:
            return sum(map(size_of, rows))
        if not rows or not self._of_any_size:
            return 0
        columns = list(zip(*rows, strict=True))
        return sum(sum(map(size_of, columns[at])) for at in self._of_any_size)

    def of(self, rows: Sequence[Any]) -> Sequence[Sequence[Any]] | None:
        """A column for each field; None for rows that have to be converted one by one."""
        from pyspark.sql import Row

        if not (self._are_plain and self._width and set(map(type, rows)) <= {tuple, Row}):
            return None
        if set(map(len, rows)) != {self._width}:
            return None
        columns = list(zip(*rows, strict=True))
        for at in self._texts:
            if not set(map(type, columns[at])) <= {str, type(None)}:
                return None
        return columns
