"""Rows taken apart into single entries, each with what users know of its key and its value.

An element of a list is an entry, and so is a row of a join's side. Each takes along which old key
it was under, at which place, and when it expires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.checkpoint.operators.shown_keys import is_numbered, key_paths, shown_key
from statemigrate.rewrite.plan.pairing.places import Place
from statemigrate.rewrite.rows.arrow.entries import EXPIRES, MERGED, ORIGINS
from statemigrate.rewrite.rows.arrow.structs import row_type
from statemigrate.rewrite.rows.wrapping import content_of, expiration_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ORIGIN, POSITION = "origin", "position"
CARRIED = (EXPIRES, ORIGIN, POSITION)
"""What entries take along beside their counts."""


def entries_of(rows: DataFrame, operator: OperatorShape, place: Place) -> DataFrame:
    """The columns ``key``, ``value``, the counts of `entries`, and `CARRIED`."""
    from pyspark.sql import functions as F  # noqa: N812

    family = place.family
    numbered = is_numbered(operator, place.store, family)
    if family.is_list:
        apart = rows.select("key", F.posexplode("value").alias("at", "value"))
    else:
        last = F.col("key").getField(row_type(family.key).fieldNames()[-1])
        apart = rows.select("key", (last if numbered else F.lit(0)).alias("at"), "value")
    # A list is one row of state: its first element stands for it.
    counted = (F.col("at") == 0) if family.is_list else F.lit(True)
    found = apart.select(
        _shown(operator, place).alias("key"),
        content_of(family, F.col("value")).alias("value"),
        counted.cast("long").alias(ORIGINS),
        F.lit(0).cast("long").alias(MERGED),
        expiration_of(family, F.col("value")).alias(EXPIRES),
        F.xxhash64(_shown(operator, place)).alias(ORIGIN),
        F.col("at").cast("long").alias(POSITION),
    )
    return found.where(F.col("value").isNotNull()) if family.wrapping == "state" else found


def _shown(operator: OperatorShape, place: Place) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    names = row_type(shown_key(operator, place.store, place.family)).fieldNames()
    paths = key_paths(operator, place.store, place.family)
    columns = []
    for path, name in zip(paths, names, strict=True):
        column = F.col("key")
        for part in path:
            column = column.getField(part)
        columns.append(column.alias(name))
    return F.struct(*columns)
