"""What a `StatefulProcessor` meets, on either engine: keys, rows, state variables, handle."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.processor.arrow_rows import (
        PlainColumns,
        column_of,
        returned_output,
    )
    from statemigrate.processor.batch_processor import (
        BatchProcessor,
        KeyBlock,
        KeyBlocks,
        processed_blocks,
    )
    from statemigrate.processor.garbage import few_collections, keep_what_is_loaded
    from statemigrate.processor.handle import (
        DualAccessHandle,
        Listening,
        declared_variables,
        never_dropped,
        struct_of,
    )
    from statemigrate.processor.intake import python_value
    from statemigrate.processor.key_isolation import BetweenKeys
    from statemigrate.processor.keys import (
        TupleKeyCodec,
        check_grouping,
        exact_values,
        grouping_key,
        identities_of,
        shown_key,
    )
    from statemigrate.processor.rows import TupleCodec, output_type, row_class
    from statemigrate.processor.startup import (
        Start,
        check_called_by_key,
        is_by_table,
        no_timers_by_table,
        require_workers,
    )
    from statemigrate.processor.state_columns import ColumnState, StateColumns, check_names
    from statemigrate.processor.stores import OpenStores, Role
    from statemigrate.processor.variables import (
        GroupingKey,
        direct_variable,
        dual_variable,
        put_row,
    )
    from statemigrate.processor.workers import (
        EMBEDDED,
        FUNCTIONS,
        PROCESSORS,
        SOURCE_NAMES,
        Workers,
        asked,
        check_scripts,
        has_named_sources,
        is_one_machine,
        reader_named,
        this_python,
        use_this_python,
        what_to_install,
    )
else:
    make_face(
        __name__,
        {
            "arrow_rows": "PlainColumns column_of returned_output",
            "batch_processor": "BatchProcessor KeyBlock KeyBlocks processed_blocks",
            "garbage": "few_collections keep_what_is_loaded",
            "handle": "DualAccessHandle Listening declared_variables never_dropped struct_of",
            "intake": "python_value",
            "key_isolation": "BetweenKeys",
            "keys": (
                "TupleKeyCodec check_grouping exact_values grouping_key identities_of shown_key"
            ),
            "rows": "TupleCodec output_type row_class",
            "startup": "Start check_called_by_key is_by_table no_timers_by_table require_workers",
            "state_columns": "ColumnState StateColumns check_names",
            "stores": "OpenStores Role",
            "variables": "GroupingKey direct_variable dual_variable put_row",
            "workers": (
                "EMBEDDED FUNCTIONS PROCESSORS SOURCE_NAMES Workers asked check_scripts "
                "has_named_sources is_one_machine reader_named this_python use_this_python "
                "what_to_install"
            ),
        },
    )
