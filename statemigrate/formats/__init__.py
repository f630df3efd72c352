"""Formats: how a store's values are written, and how one format differs from another.

Importing this package loads neither fastavro nor pyspark; they are loaded when a format is made
that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.formats.arrow_values import (
        array_of,
        has_floats,
        has_maps,
        is_utf8,
        nullable_type,
        plain_array,
        plain_rows,
        plain_values,
    )
    from statemigrate.formats.comparison import Comparison, compare, differences
    from statemigrate.formats.escaped_text import first_escaped, visible
    from statemigrate.formats.examples import MOST, made_up_values, samples
    from statemigrate.formats.format import Format, Value
    from statemigrate.formats.json_values import json_text, leaf_from_text, value_from_json
    from statemigrate.formats.masking import Mask, NamedColumn, SharedMask, columns_in
    from statemigrate.formats.merging import FieldDifference, MergeOutcome, merge
    from statemigrate.formats.schema import FieldChange, Verdict
    from statemigrate.formats.stored_formats import Avro, Struct, format_from_json, struct_from_json
    from statemigrate.formats.timestamps import (
        MICROSECOND,
        aware_of,
        local_of,
        microseconds_of,
        utc_of,
    )
else:
    make_face(
        __name__,
        {
            "arrow_values": (
                "array_of has_floats has_maps is_utf8 nullable_type plain_array plain_rows "
                "plain_values"
            ),
            "comparison": "Comparison compare differences",
            "escaped_text": "first_escaped visible",
            "examples": "MOST made_up_values samples",
            "format": "Format Value",
            "json_values": "json_text leaf_from_text value_from_json",
            "masking": "Mask NamedColumn SharedMask columns_in",
            "merging": "FieldDifference MergeOutcome merge",
            "schema": "FieldChange Verdict",
            "stored_formats": "Avro Struct format_from_json struct_from_json",
            "timestamps": "MICROSECOND aware_of local_of microseconds_of utc_of",
        },
    )

__all__ = [
    "MICROSECOND",
    "MOST",
    "Avro",
    "Comparison",
    "FieldChange",
    "FieldDifference",
    "Format",
    "Mask",
    "MergeOutcome",
    "NamedColumn",
    "SharedMask",
    "Struct",
    "Value",
    "Verdict",
    "array_of",
    "aware_of",
    "columns_in",
    "compare",
    "differences",
    "first_escaped",
    "format_from_json",
    "has_floats",
    "has_maps",
    "is_utf8",
    "json_text",
    "leaf_from_text",
    "local_of",
    "made_up_values",
    "merge",
    "microseconds_of",
    "nullable_type",
    "plain_array",
    "plain_rows",
    "plain_values",
    "samples",
    "struct_from_json",
    "utc_of",
    "value_from_json",
    "visible",
]
