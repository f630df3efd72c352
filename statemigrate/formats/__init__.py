"""Formats: how a store's values are written, and how one format differs from another.

Importing this package loads neither fastavro nor pyspark; they are loaded when a format is made
that needs them.
"""

from statemigrate.formats.avro_format import Avro
from statemigrate.formats.comparison import Comparison, compare
from statemigrate.formats.format import Format, Value
from statemigrate.formats.schema.resolution import FieldChange, Verdict
from statemigrate.formats.stored import format_from_json
from statemigrate.formats.struct_format import Struct

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
