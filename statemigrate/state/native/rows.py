"""Rows of Spark's own state as plain values, from Arrow or from Rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statemigrate.errors import ValueMismatchError, shown
from statemigrate.formats import Format, Value
from statemigrate.formats.arrow_values import plain_values
from statemigrate.formats.escaped_text import first_escaped, visible
from statemigrate.formats.struct.words import quoted
from statemigrate.processor.rows.codec import RowCodec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import DataType, StructType


class StructValues:
    """Reads the structs of a state variable; they are written first: a transform may change one."""

    def __init__(self, fmt: Format) -> None:
        self._format = fmt
        self._codec = RowCodec(fmt.struct_type())

    def __reduce__(self) -> tuple[Any, ...]:
        return StructValues, (self._format,)

    def __call__(self, held: Any) -> tuple[bytes, Value]:
        """The bytes that the format writes, and the plain value.

        Raises `ValueMismatchError` for text that is not UTF-8, which no format can hold.
        """
        value = self._codec.to_value(held)
        try:
            return self._format.encode(value), value
        except ValueMismatchError as error:
            found = first_escaped(value)
            if found is None:
                raise
            raise _not_text(*found) from error


@dataclass(frozen=True)
class EnvelopeValues:
    """Reads envelopes, which hold the format's bytes."""

    format: Format

    def __call__(self, held: Any) -> tuple[bytes, Value]:
        """The bytes that the format writes, and the plain value."""
        payload = bytes(held["payload"])
        return payload, self.format.decode(payload)


@dataclass(frozen=True)
class Keys:
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

    def begins_with(self, key: Sequence[Any]) -> Any:
        """The condition that a row's key begins with ``key``."""
        from pyspark.sql import functions

        columns = [functions.col("key")[name] for name in self.key.fieldNames()]
        if self.user_key is not None:
            columns += [functions.col("user_key")[name] for name in self.user_key.fieldNames()]
        condition = functions.lit(True)
        for column, value in zip(columns, key, strict=False):
            condition = condition & _equals(column, value)
        return condition


def _part(part: Any) -> Any:
    # A window is a struct: one is a dictionary from Arrow, and a Row otherwise.
    return part.asDict(recursive=True) if hasattr(part, "asDict") else part


def _equals(column: Any, value: Any) -> Any:
    from pyspark.sql import functions

    if not isinstance(value, dict):
        return column.eqNullSafe(functions.lit(value))
    condition = functions.lit(True)
    for name, each in value.items():
        condition = condition & _equals(column[name], each)
    return condition


def shown_rows(frame: DataFrame) -> Iterator[Row]:
    r"""The rows of a frame, to be shown: bytes of a text that are not UTF-8 are ``\xff`` and so on.

    Spark itself would give Python one and the same character for each of them. What is in a map it
    gives so all the same.
    """
    from pyspark.sql import functions

    columns = [
        functions.col(quoted(field.name)).cast(_with_bytes(field.dataType)).alias(field.name)
        for field in frame.schema
    ]
    read = _text_reader(frame.schema)
    rows = frame.select(*columns).toLocalIterator(prefetchPartitions=True)
    return rows if read is None else map(read, rows)


def _with_bytes(kind: DataType) -> DataType:
    """The type with binaries for texts, but in maps: Python has no key that is a bytearray."""
    from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

    if isinstance(kind, StringType):
        return BinaryType()
    if isinstance(kind, ArrayType):
        return ArrayType(_with_bytes(kind.elementType), kind.containsNull)
    if isinstance(kind, StructType):
        fields = [StructField(f.name, _with_bytes(f.dataType), f.nullable) for f in kind.fields]
        return StructType(fields)
    return kind


def _text_reader(kind: DataType) -> Callable[[Any], Any] | None:
    """What makes texts of the binaries of `_with_bytes`; None where there is none."""
    from pyspark.sql import Row
    from pyspark.sql.types import ArrayType, StringType, StructType

    if isinstance(kind, StringType):
        return lambda data: None if data is None else data.decode("utf-8", "backslashreplace")
    if isinstance(kind, ArrayType):
        element = _text_reader(kind.elementType)
        if element is None:
            return None
        return lambda values: None if values is None else [element(each) for each in values]
    if isinstance(kind, StructType):
        readers = [_text_reader(field.dataType) for field in kind.fields]
        if not any(readers):
            return None
        make = Row(*kind.fieldNames())
        return lambda row: (
            row
            if row is None
            else make(
                *(
                    each if read is None else read(each)
                    for read, each in zip(readers, row, strict=True)
                )
            )
        )
    return None


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
