"""A checkpoint's committed state, whichever engine wrote it."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.state.embedded import EmbeddedState
    from statemigrate.state.envelopes import stored_revisions
    from statemigrate.state.equal_rows import RowStream, UnequalRows, unequal_after, unequal_rows
    from statemigrate.state.open import (
        Scripts,
        applied_by,
        directory_of,
        engine_of,
        is_embedded,
        open_committed,
        require_own_state,
        require_scripted,
        require_store,
    )
    from statemigrate.state.page_entries import LARGE_VALUES, KeyColumns, StoredPages
    from statemigrate.state.project import Project
    from statemigrate.state.protocol import (
        Batches,
        Block,
        CarriesErrors,
        Document,
        Entry,
        Part,
        Share,
        Shares,
        State,
        no_such_store,
        planned,
        reported_stores,
        reraising_worker_errors,
        stored_store,
    )
    from statemigrate.state.spark_operators import arrow_rows, stored_revision
    from statemigrate.state.sql_tables import SqlError
    from statemigrate.state.table_changes import StoreAt, rows_changed
    from statemigrate.state.table_columns import FAILURE_COLUMNS
    from statemigrate.state.table_stores import StoreRows
    from statemigrate.state.tables import (
        ReadOnError,
        StateTable,
        StateTables,
        compared,
        open_state,
        require_masked,
        selected,
    )
    from statemigrate.state.target_entries import StoreEntries, keys_from_texts
else:
    make_face(
        __name__,
        {
            "embedded": "EmbeddedState",
            "envelopes": "stored_revisions",
            "equal_rows": "RowStream UnequalRows unequal_after unequal_rows",
            "target_entries": "StoreEntries keys_from_texts",
            "open": (
                "Scripts applied_by directory_of engine_of is_embedded open_committed "
                "require_own_state require_scripted require_store"
            ),
            "page_entries": "LARGE_VALUES KeyColumns StoredPages",
            "project": "Project",
            "protocol": (
                "Batches Block CarriesErrors Document Entry Part Share Shares State "
                "no_such_store planned reported_stores reraising_worker_errors stored_store"
            ),
            "spark_operators": "arrow_rows stored_revision",
            "sql_tables": "SqlError",
            "table_changes": "StoreAt rows_changed",
            "table_columns": "FAILURE_COLUMNS",
            "table_stores": "StoreRows",
            "tables": (
                "ReadOnError StateTable StateTables compared open_state require_masked selected"
            ),
        },
    )
