"""Spark's own types: DDL, their JSON, and the rules between them and Avro."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.formats.struct.ddl import ddl_of, parse_ddl, quoted
    from statemigrate.formats.struct.rules import check_avro, record_of, shape_of, spark_json
else:
    make_face(
        __name__,
        {
            "ddl": "ddl_of parse_ddl quoted",
            "rules": "check_avro record_of shape_of spark_json",
        },
    )
