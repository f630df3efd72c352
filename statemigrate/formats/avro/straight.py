"""Tuples of a record's fields, made of its bytes and turned into them without plain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statemigrate.formats.avro.compiled.reading import compiled_row_reader
from statemigrate.formats.avro.compiled.writing import Columns, compiled_row_writer
from statemigrate.formats.avro.lifting import stored_as
from statemigrate.formats.avro.zero_size import holds_such_arrays
from statemigrate.formats.schema.nodes import Record

Straight = tuple[Callable[[Any], bytes], Callable[[bytes], tuple[Any, ...]]]
"""What writes a tuple, and what reads one; either raises any `Exception` for what is irregular."""


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
    return compiled_row_writer(record, written), compiled_row_reader(record, read)
