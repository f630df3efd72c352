"""A schema as a tree, and everything that is decided on the tree alone."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.formats.schema.fingerprint import fingerprint, layout, plain_default
    from statemigrate.formats.schema.matching import (
        FieldAddress,
        FieldPair,
        Path,
        Reason,
        field_addresses,
        field_paths,
        fits_all_values,
        fits_integers,
        is_within,
        kind_of,
        replaced,
        unpaired,
        values_at,
    )
    from statemigrate.formats.schema.nodes import (
        INTEGER_RANGES,
        NULL,
        Array,
        Decimals,
        Enum,
        Field,
        Fixed,
        Map,
        Node,
        Primitive,
        Record,
        Union,
        accepts_none,
        avro_json,
        check_bounds,
        inner,
        numbered,
        too_deep,
        type_name,
        with_none,
        without_none,
    )
    from statemigrate.formats.schema.parsing import (
        COLLATED,
        as_spark_writes,
        check_name,
        parse,
        with_collations,
    )
    from statemigrate.formats.schema.resolution import (
        FieldChange,
        Verdict,
        changes_between,
        matched_fields,
        worst,
    )
else:
    make_face(
        __name__,
        {
            "fingerprint": "fingerprint layout plain_default",
            "matching": (
                "FieldAddress FieldPair Path Reason field_addresses field_paths fits_all_values "
                "fits_integers is_within kind_of replaced unpaired values_at"
            ),
            "nodes": (
                "INTEGER_RANGES NULL Array Decimals Enum Field Fixed Map Node Primitive Record "
                "Union accepts_none avro_json check_bounds inner numbered too_deep type_name "
                "with_none without_none"
            ),
            "parsing": "COLLATED as_spark_writes check_name parse with_collations",
            "resolution": "FieldChange Verdict changes_between matched_fields worst",
        },
    )
