"""What Spark notes of stateful operators and their stores, and what each operator keeps."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.checkpoint.operators.catalogue import (
        COUNT,
        DEFAULT,
        INDEX_TO_VALUE,
        JOIN_STORES,
        KINDS,
        NUM_VALUES,
        ROW_COUNTER,
        SOONEST,
        TS_TO_VALUES,
        TS_WITH_KEY,
        TTL,
        OperatorStore,
        has_envelopes,
        in_envelopes,
        is_derived,
        is_internal,
        is_numbered,
        is_timers,
        key_paths,
        kind_of,
        operator_stores,
        partition_columns,
        shown_key,
        used_partitions,
        user_name,
        user_stores,
        variable_stores,
    )
    from statemigrate.checkpoint.operators.described import (
        meanings,
        read_operator,
        read_operator_entry,
        read_schema_files,
        read_schemas,
        schema_files,
    )
    from statemigrate.checkpoint.operators.metadata import (
        FIRST_METADATA,
        LARGEST,
        OperatorEntry,
        OperatorFile,
        StoreEntry,
        entry_of,
        is_at,
        is_local,
        operator_file,
        operator_files,
        operator_names,
        operator_runs,
        parse_operator,
        parse_properties,
    )
    from statemigrate.checkpoint.operators.reruns import (
        SCHEMAS,
        known_variables,
        read_schema_file,
        schema_batch,
        schema_batches,
    )
    from statemigrate.checkpoint.operators.schemas import (
        FamilySchema,
        JavaReader,
        java_text,
        value_fields,
        written_v2,
        written_v3,
    )
    from statemigrate.checkpoint.operators.shapes import (
        EXPIRATION,
        GROUP_STATE,
        TIMEOUT,
        CheckpointShape,
        FamilyShape,
        KeyEncoder,
        NoPrefix,
        OperatorShape,
        PrefixScan,
        RangeScan,
        StoreShape,
        StructJson,
        TimestampPostfix,
        TimestampPrefix,
        all_nullable,
        labelled,
        labels,
        row_json,
        shown_paths,
        with_labels,
    )
else:
    make_face(
        __name__,
        {
            "catalogue": (
                "COUNT DEFAULT INDEX_TO_VALUE JOIN_STORES KINDS NUM_VALUES ROW_COUNTER SOONEST "
                "TS_TO_VALUES TS_WITH_KEY TTL OperatorStore has_envelopes in_envelopes is_derived "
                "is_internal is_numbered is_timers key_paths kind_of operator_stores "
                "partition_columns shown_key used_partitions user_name user_stores variable_stores"
            ),
            "described": (
                "meanings read_operator read_operator_entry read_schema_files read_schemas "
                "schema_files"
            ),
            "metadata": (
                "FIRST_METADATA LARGEST OperatorEntry OperatorFile StoreEntry entry_of is_at "
                "is_local operator_file operator_files operator_names operator_runs parse_operator "
                "parse_properties"
            ),
            "reruns": "SCHEMAS known_variables read_schema_file schema_batch schema_batches",
            "schemas": ("FamilySchema JavaReader java_text value_fields written_v2 written_v3"),
            "shapes": (
                "EXPIRATION GROUP_STATE TIMEOUT CheckpointShape FamilyShape KeyEncoder NoPrefix "
                "OperatorShape PrefixScan RangeScan StoreShape StructJson TimestampPostfix "
                "TimestampPrefix all_nullable labelled labels row_json shown_paths with_labels"
            ),
        },
    )
