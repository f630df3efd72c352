"""Control rows: what the backfill's own source sends, and user code never sees."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from statemigrate.errors import CheckpointError

MARKER = "statemigrate_control"
"""The column the backfill source adds: null in the rows of the user's stream.

In a control row it is the id of the query that the row was planned for.
"""
_QUERY = "sql.streaming.queryId"


class Arrived:
    """What came for one key: ``rows`` are the user's, as Rows or as pandas DataFrames.

    ``is_for_user`` says whether there are any, at the price of having looked at the first, and
    ``is_marked`` whether the stream has a backfill source.
    """

    def __init__(self, rows: Iterator[Any]) -> None:
        self._asked: set[str] = set()
        first = next(rows, None)
        both = rows if first is None else chain([first], rows)
        self.is_marked = _is_marked(first)
        if self.is_marked:
            is_row = isinstance(first, tuple)
            own = self._rows(both, first) if is_row else self._frames(both)
            first = next(own, None)
            both = own if first is None else chain([first], own)
        self.rows: Iterator[Any] = both
        self.is_for_user = first is not None

    def asks_for_migration(self) -> bool:
        """Whether a control row named the key; reads what the user left unread.

        Raises `CheckpointError` for one that was planned for another query.
        """
        for _ in self.rows:
            pass
        if self._asked:
            _check_query(self._asked)
        return bool(self._asked)

    def _rows(self, rows: Iterator[Any], first: Any) -> Iterator[Any]:
        from pyspark.sql import Row

        at = first.__fields__.index(MARKER)
        names = [*first.__fields__[:at], *first.__fields__[at + 1 :]]
        for row in rows:
            # A Row looks into every index that it is asked for.
            values = tuple(row)
            if values[at] is None:
                # As Spark makes them, with the names in a list that all rows share.
                own = tuple.__new__(Row, values[:at] + values[at + 1 :])
                own.__fields__ = names
                yield own
            else:
                self._asked.add(values[at])

    def _frames(self, frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            own = frame[MARKER].isna()
            self._asked.update(frame[MARKER][~own])
            if own.any():
                yield frame[own].drop(columns=MARKER).reset_index(drop=True)


def _is_marked(first: Any) -> bool:
    # Not by asking a Row for an attribute it has not: it makes a whole error message each time.
    if isinstance(first, tuple):
        # The names may be a Row themselves, which looks for more than itself.
        return MARKER in tuple(getattr(first, "__fields__", ()))
    return first is not None and MARKER in first.columns


def _check_query(planned: set[str]) -> None:
    from pyspark import TaskContext

    context = TaskContext.get()
    running = context and context.getLocalProperty(_QUERY)
    # Tests of a processor without a query have none.
    if running is None or planned == {running}:
        return
    raise CheckpointError(
        "SM-BACKFILL-014",
        "the backfill source has a backfill that was planned for another query",
        expected=f"control rows of the query {running}",
        found=f"of {', '.join(sorted(planned - {running}))}",
        next_action="`statemigrate backfill CHECKPOINT --pause` with the checkpoint that "
        "stateful or with_backfill was given, then give it the query's own; nothing of this batch "
        "was written",
        query=running,
    )
