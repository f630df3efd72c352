"""Avro binary: values checked, written and read. The only importer of fastavro."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.formats.avro.checks import check_of
    from statemigrate.formats.avro.codec import (
        DirectConversion,
        Read,
        Write,
        direct_conversion,
        encoders_of,
    )
    from statemigrate.formats.avro.column_types import arrow_type, has_columns
    from statemigrate.formats.avro.columns_writing import has_nulls_only_where_allowed
    from statemigrate.formats.avro.compiled_columns import read_columns, write_columns
    from statemigrate.formats.avro.extension import StructConverter
    from statemigrate.formats.avro.generated import GeneratedSource
    from statemigrate.formats.avro.leaves import Unfit
    from statemigrate.formats.avro.reading import read_container, readers_of, write_container
else:
    make_face(
        __name__,
        {
            "checks": "check_of",
            "codec": "DirectConversion Read Write direct_conversion encoders_of",
            "column_types": "arrow_type has_columns",
            "columns_writing": "has_nulls_only_where_allowed",
            "compiled_columns": "read_columns write_columns",
            "extension": "StructConverter",
            "generated": "GeneratedSource",
            "leaves": "Unfit",
            "reading": "read_container readers_of write_container",
        },
    )
