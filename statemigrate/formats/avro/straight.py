"""Tuples of a record's fields, made of its bytes and turned into them without plain values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from statemigrate.formats.avro.compiled.reading import compiled_row_reader
from statemigrate.formats.avro.compiled.writing import Columns, compiled_row_writer
from statemigrate.formats.avro.lifting import stored_as
from statemigrate.formats.avro.zero_size import holds_such_arrays
from statemigrate.formats.schema.nodes import Record

Write = Callable[[Any], bytes]
Read = Callable[[bytes], tuple[Any, ...]]
Straight = tuple[Callable[[], Write], Callable[[], Read]]
"""What makes, once it is needed, the writer of a tuple, and the reader of one.

Either raises any `Exception` for what is irregular.
"""


def straight_ways(record: Record, written: Columns, read: Columns) -> Straight | None:
    """Both ways; None where there is none, since the columns are others than the fields.

    ``written`` and ``read`` are the columns in their order, each with what converts its value on
    that way, None aside.
    """
    fields = {field.name for field in record.fields}
    if not fields or len(written) != len(fields) or {name for name, _ in written} != fields:
        return None
    if holds_such_arrays(stored_as(record)):
        return None
    return partial(compiled_row_writer, record, written), partial(compiled_row_reader, record, read)
