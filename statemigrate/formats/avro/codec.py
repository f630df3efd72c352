"""The codec of a format: plain values and tuples of fields as bytes, and back.

A value is written by the function made for its format: in compiled code where that is installed,
else in Python. What that refuses goes type by type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from statemigrate.formats.avro.compiled_reading import compiled_row_reader
from statemigrate.formats.avro.compiled_writing import (
    Columns,
    Encode,
    compiled_row_writer,
    compiled_writer,
    writer_by_type,
)
from statemigrate.formats.avro.extension import (
    are_fields_of,
    extension_row_reader,
    extension_row_writer,
    extension_writer,
    from_fastest,
    in_python,
)
from statemigrate.formats.avro.logical import contains_arrays_without_bytes, stored_as
from statemigrate.formats.schema import Record

EncodeMany = Callable[[Sequence[Any]], list[bytes]]


def encoders_of(record: Record) -> tuple[Encode, EncodeMany]:
    """Compile what makes the bytes of a value, or of many; both raise `Unfit`."""
    return from_fastest(
        lambda: extension_writer(record), lambda: compiled_writer(record), writer_by_type(record)
    )


# Tuples of a record's fields, made of its bytes and turned into them without plain values.


Write = Callable[[Any], bytes]
Read = Callable[[bytes], tuple[Any, ...]]
DirectConversion = tuple[Callable[[], Write], Callable[[], Read]]
"""What makes, once it is needed, the writer of a tuple, and the reader of one.

Either raises any `Exception` for what is irregular.
"""


def direct_conversion(record: Record, written: Columns, read: Columns) -> DirectConversion | None:
    """Both ways; None where there is none, since the columns are others than the fields.

    ``written`` and ``read`` are the columns in their order, each with what converts its value on
    that way, None aside.
    """
    if not are_fields_of(record, written) or contains_arrays_without_bytes(stored_as(record)):
        return None

    def make_write() -> Write:
        fast = extension_row_writer(record, written)
        return fast or compiled_row_writer(record, in_python(written))

    def make_read() -> Read:
        fast = extension_row_reader(record, read)
        return fast or compiled_row_reader(record, in_python(read))

    return make_write, make_read
