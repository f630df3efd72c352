"""Columns of tables that say a moment: when a value expires, or a timer is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statemigrate.errors import RewriteError, shown
from statemigrate.formats.struct.words import quoted
from statemigrate.rewrite.plan.pairing.types import type_text
from statemigrate.rewrite.seeding.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import Column

_WHOLE = ("byte", "short", "integer", "long")
_TIME = "timestamp"


def moment_type(table: Table, column: str, store: str) -> str:
    """Spark's type of a column of moments: whole numbers are milliseconds since 1970.

    Text of JSON is read as a time. Raises `RewriteError` for any other type.
    """
    found = table.columns[column]
    if table.is_json and found == "string":
        return _TIME
    if found not in (*_WHOLE, _TIME):
        raise RewriteError(
            "SM-SEED-010",
            f"the column {column} of {table.location} does not say when, for {store}",
            expected="times, or whole numbers of milliseconds since 1970",
            found=type_text(found),
            next_action="write the table with the column cast to TIMESTAMP",
            store=store,
        )
    return str(found)


def moment_of(column: str, spark: str) -> Column:
    """Its milliseconds since 1970."""
    from pyspark.sql import functions as F  # noqa: N812

    found = F.col(quoted(column))
    return F.unix_millis(found) if spark == _TIME else found.cast("long")


def no_moment(store: str, table: Table, column: str, key: Any) -> RewriteError:
    """The error for a row without one; ``key`` is its key as JSON."""
    return RewriteError(
        "SM-SEED-011",
        f"a row of {table.location} has no {column}, which says when, for {store}",
        expected=f"a value of {column} in every row",
        found=f"null with the key {shown(key)}",
        next_action="fill the column, or leave the row out; nothing was written",
        store=store,
    )
