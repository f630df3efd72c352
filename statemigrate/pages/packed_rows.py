"""Many rows in one value, on their way to a page's visit and back.

Between Java and Python a value costs microseconds and a column next to nothing. So the rows of a
bucket travel as one value in a binary column, and what the processor made of them as a list. Rows
of plain types are written as Python writes its own, which costs a tenth of an Arrow batch where a
bucket has a row or two; those of other types are an Arrow batch.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from statemigrate.blocks import arrow_blocks
from statemigrate.processor import TupleKeyCodec, exact_values, keep_what_is_loaded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


BUCKET = "statemigrate_page"
"""The column that the query groups by: the number of the page."""
PACKED = f"{BUCKET} INT, layout BINARY, rows BINARY"
PACKED_COLUMNS = ("layout", "rows")
"""The columns of `PACKED` that have the rows."""
_PLAIN = b"plain"
"""The layout where the rows are columns of Python's values. Else it is a schema of Arrow's."""
_MARSHAL = 2
"""The version of Python's format that looks for no value twice: most are there once."""
_FLAT = ("boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary")


_TAKEN_APART = frozenset(".`*")
"""What PySpark takes for more than a part of a column's name, where it looks one up."""


def under_plain_names(frame: DataFrame) -> DataFrame:
    """The frame with names that PySpark can look up; the rows get their own names back in Python.

    A frame of plain names stays as it is: with another plan it would be another query.
    """
    names = frame.columns
    if not any(_TAKEN_APART.intersection(name) for name in names):
        return frame
    return frame.toDF(*(f"column_{number}" for number in range(len(names))))


def pack(batches: Iterator[Any]) -> Iterator[Any]:
    """Rows whose last column is the bucket, as one row a bucket: see `PACKED`."""
    for batch in batches:
        yield from map(_packed, arrow_blocks(batch))
    keep_what_is_loaded("pack")


def _packed(batch: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    buckets = batch.column(batch.num_columns - 1).to_numpy()
    order = np.argsort(buckets, kind="stable")
    ordered = buckets[order]
    rows = batch.select(batch.schema.names[:-1]).take(pa.array(order))
    starts = np.flatnonzero(np.diff(ordered, prepend=-1)).tolist()
    spans = list(zip(starts, [*starts[1:], batch.num_rows], strict=True))
    plain = all(map(_is_plain, rows.schema.types))
    layout, parts = (_in_python if plain else _in_arrow)(rows, spans)
    columns = [pa.array(ordered[starts]), pa.array([layout] * len(parts)), pa.array(parts)]
    return pa.RecordBatch.from_arrays(columns, names=[BUCKET, "layout", "rows"])


def _in_python(rows: Any, spans: Sequence[tuple[int, int]]) -> tuple[bytes, list[bytes]]:
    columns = [_values(column) for column in rows.columns]
    parts = [
        marshal.dumps([column[start:end] for column in columns], _MARSHAL) for start, end in spans
    ]
    return _PLAIN, parts


def _in_arrow(rows: Any, spans: Sequence[tuple[int, int]]) -> tuple[bytes, list[bytes]]:
    parts = [rows.slice(start, end - start).serialize().to_pybytes() for start, end in spans]
    return rows.schema.serialize().to_pybytes(), parts


def _is_plain(kind: Any) -> bool:
    from pyarrow import types

    is_one = (types.is_string, types.is_integer, types.is_boolean, types.is_floating)
    return any(each(kind) for each in (*is_one, types.is_large_string, types.is_binary))


class Unpacking:
    """The rows of a bucket, in Python's own values as ``transformWithState`` hands them out.

    ``names`` are those of the columns for the user.
    """

    def __init__(
        self, key_columns: tuple[int, ...], keys: TupleKeyCodec, names: Sequence[str]
    ) -> None:
        self._key_columns = key_columns
        self._keys = keys
        self._names = list(names)
        self._layout = b""
        self._schema: Any = None

    def by_key(self, packed: Iterable[Any]) -> Iterable[tuple[bytes, list[Any]]]:
        """The bytes of each key with its Rows, from rows of `PACKED`."""
        groups: dict[Any, list[Any]] = {}
        for _, layout, data, *_ in packed:
            columns, keys = self._read(layout, data)
            identities = keys[0] if len(keys) == 1 else zip(*keys, strict=True)
            for identity, row in zip(identities, rows_of(columns, self._names), strict=True):
                held = groups.get(identity)
                if held is None:
                    groups[identity] = [row]
                else:
                    held.append(row)
        return ((self._encoded(rows[0]), rows) for rows in groups.values())

    def _encoded(self, row: Any) -> bytes:
        # A Row looks into every index that it is asked for.
        values = tuple(row)
        return self._keys.encode([values[at] for at in self._key_columns])

    def _read(self, layout: bytes, data: bytes) -> tuple[list[list[Any]], list[list[Any]]]:
        """The columns, and those of the key as values that are equal where their bytes are."""
        if layout != self._layout:
            self._turn(layout)
        if self._schema is None:
            # Not state: `pack` wrote it for this very batch, with the same Python.
            columns = marshal.loads(data)  # noqa: S302
            return columns, [columns[at] for at in self._key_columns]
        return self._read_arrow(data)

    def _read_arrow(self, data: bytes) -> tuple[list[list[Any]], list[list[Any]]]:
        import pyarrow as pa

        batch = pa.ipc.read_record_batch(pa.py_buffer(data), self._schema)
        columns = [_values(column) for column in batch.columns]
        return columns, [exact_values(batch.column(at), columns[at]) for at in self._key_columns]

    def _turn(self, layout: bytes) -> None:
        import pyarrow as pa

        self._layout, self._schema = layout, None
        if layout != _PLAIN:
            self._schema = pa.ipc.read_schema(pa.py_buffer(layout))


def rows_of(columns: Sequence[list[Any]], names: Sequence[str]) -> Iterator[Any]:
    """PySpark's Rows of some columns, as Spark makes them: all share one list of the names."""
    from pyspark.sql import Row

    shared = list(names)
    make: Callable[[Any], Any] = partial(tuple.__new__, Row)
    for row in map(make, zip(*columns, strict=True)):
        row.__fields__ = shared
        yield row


def unpacked(layout: bytes, data: bytes, schema: Any) -> Any:
    """The rows of a bucket as a batch of Arrow, with the names, and plain types, of ``schema``."""
    import pyarrow as pa

    if layout != _PLAIN:
        batch = pa.ipc.read_record_batch(
            pa.py_buffer(data), pa.ipc.read_schema(pa.py_buffer(layout))
        )
        return batch.rename_columns(schema.names)
    # Not state: `pack` wrote it for this very batch, with the same Python.
    columns = zip(marshal.loads(data), schema, strict=True)  # noqa: S302
    arrays = [pa.array(values, field.type) for values, field in columns]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


class Arriving:
    """Rows that come one by one, for what Spark does with each: it drops those that are late.

    Their last column is the bucket, which the processor does not see. ``names`` are those of the
    others for the user.
    """

    def __init__(
        self, key_columns: tuple[int, ...], keys: TupleKeyCodec, names: Sequence[str]
    ) -> None:
        self._key_columns = key_columns
        self._keys = keys
        self._names = list(names)

    def by_key(self, rows: Iterable[Any]) -> Iterable[tuple[bytes, list[Any]]]:
        """The bytes of each key with its Rows."""
        from pyspark.sql import Row

        groups: dict[bytes, list[Any]] = {}
        for row in rows:
            user_row = tuple.__new__(Row, row[:-1])
            user_row.__fields__ = self._names
            key = self._keys.encode(tuple([user_row[at] for at in self._key_columns]))
            groups.setdefault(key, []).append(user_row)
        return groups.items()


def _values(column: Any) -> list[Any]:
    """What ``to_pylist`` gives, at a tenth of its price where NumPy has the same values."""
    import pyarrow as pa

    kind = column.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    plain = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind)
    if text or (plain and not column.null_count):
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    listed: list[Any] = column.to_pylist()
    return listed


class Packing:
    """The rows a processor yields, as one that has them in a list: Java takes them out of it."""

    def __init__(self, output: StructType) -> None:
        self._is_flat = all(field.dataType.typeName() in _FLAT for field in output.fields)

    def given(self, rows: list[Any]) -> list[Any]:
        """Some rows as Spark gets them."""
        from pyspark.sql import Row

        # A tuple, as PySpark goes through a list, value by value, for the Rows in it.
        return [Row(rows=tuple(self._plain(rows)))]

    def _plain(self, rows: list[Any]) -> list[dict[str, Any]]:
        if self._is_flat:
            return [dict(zip(row.__fields__, row, strict=True)) for row in rows]
        return [row.asDict(True) for row in rows]


class Giving:
    """The rows a processor yields as they are, for what Spark does with each of them."""

    def given(self, rows: list[Any]) -> list[Any]:
        """Some rows as Spark gets them."""
        return rows


def packed_output(output: StructType) -> StructType:
    """The type of the rows that `Packing` gives."""
    from pyspark.sql.types import ArrayType, StructType

    return StructType().add("rows", ArrayType(output, containsNull=False), nullable=False)


def arrow_schema(struct: StructType) -> Any:
    """The Arrow schema that PySpark's workers give rows of that type."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # PySpark 4.1 has UTC as its default, and no argument of this name.
    named = "timezone" in signature(to_arrow_schema).parameters
    zone: dict[str, Any] = {"timezone": "UTC"} if named else {}
    return to_arrow_schema(struct, **zone)
