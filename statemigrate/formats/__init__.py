"""Formats: how a store's values are written, and how one format differs from another.

Importing this package loads neither fastavro nor pyspark; they are loaded when a format is made
that needs them.
"""

from __future__ import annotations

from typing import Any

from statemigrate.errors import FormatError
from statemigrate.formats.avro_format import Avro
from statemigrate.formats.comparison import Comparison, compare
from statemigrate.formats.format import Format, Value
from statemigrate.formats.schema.resolution import FieldChange, Verdict
from statemigrate.formats.struct_format import Struct, struct_from_json

__all__ = [
    "Avro",
    "Comparison",
    "FieldChange",
    "Format",
    "Struct",
    "Value",
    "Verdict",
    "compare",
    "format_from_json",
]


# Formats as checkpoints store them.


def format_from_json(document: dict[str, Any]) -> Format:
    """Return the format that ``to_json`` wrote. Raises FormatError if ``document`` is not one."""
    match document:
        case {"kind": "avro", "schema": dict() as schema}:
            return Avro(schema)
        case {"kind": "struct", "schema": dict() as schema}:
            return struct_from_json(schema)
    raise FormatError(
        "SM-FORMAT-012",
        "This is not a stored format.",
        expected='{"kind": "avro" or "struct", "schema": {...}}',
        found=f"{document!r:.200}",
        next_action="check that the checkpoint was written by this version or an older one",
    )
