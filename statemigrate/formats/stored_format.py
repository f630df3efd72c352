"""Formats as checkpoints store them."""

from __future__ import annotations

from typing import Any

from statemigrate.errors import FormatError
from statemigrate.formats.avro_format import Avro
from statemigrate.formats.format import Format
from statemigrate.formats.struct_format import struct_from_json


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
