"""Many keys in one page: a binary value of Spark's own state, with every entry's family in it."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.pages.columns import (
        LARGEST_INSIDE,
        NEVER,
        PageId,
        ReadOutside,
        check_size,
        elements_of,
        has_outside,
        is_over,
        joined,
        last_to_expire,
    )
    from statemigrate.pages.deployed_pages import FAMILY, FORMAT, declare, read_timer, timer_entry
    from statemigrate.pages.older_families import older
    from statemigrate.pages.packed_rows import BUCKET, PACKED_COLUMNS, arrow_schema, pack
    from statemigrate.pages.page import OpenSection, Page
    from statemigrate.pages.page_families import fingerprint
    from statemigrate.pages.pages_startup import check_recorded, number_missing, record_of
    from statemigrate.pages.query import run_on_pages
    from statemigrate.pages.record import (
        RECORD,
        RECORDS,
        SCHEMA,
        VARIABLE,
        PagesRecord,
        is_large,
        is_marker,
        is_paged,
        large_of,
        read_pages_record,
        record_document,
        record_name,
        records,
        records_at,
        variable_of,
    )
    from statemigrate.pages.value import LargeValues
    from statemigrate.pages.visit import key_fingerprint
else:
    make_face(
        __name__,
        {
            "columns": (
                "LARGEST_INSIDE NEVER PageId ReadOutside check_size elements_of has_outside "
                "is_over joined last_to_expire"
            ),
            "deployed_pages": "FAMILY FORMAT declare read_timer timer_entry",
            "page_families": "fingerprint",
            "older_families": "older",
            "page": "OpenSection Page",
            "query": "run_on_pages",
            "record": (
                "RECORD RECORDS SCHEMA VARIABLE PagesRecord is_large is_marker is_paged "
                "large_of read_pages_record record_document record_name records records_at "
                "variable_of"
            ),
            "packed_rows": "BUCKET PACKED_COLUMNS arrow_schema pack",
            "pages_startup": "check_recorded number_missing record_of",
            "value": "LargeValues",
            "visit": "key_fingerprint",
        },
    )
