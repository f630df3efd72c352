"""Whether rows are read from pages, or as Spark itself has them."""

from __future__ import annotations

from statemigrate.rewrite.plan.paging import Paging
from statemigrate.rewrite.rows.paged.reading import PagesReader
from statemigrate.rewrite.rows.reading import RowReader, StateReader
from statemigrate.state.paged.reading import StoredPages


def reader_of(paging: Paging, states: StateReader) -> RowReader:
    """What gives the rows of variables that are kept like that."""
    if paging.record is None or paging.pages is None:
        return states
    return PagesReader(states, StoredPages(paging.record, states.files.location), paging.pages)
