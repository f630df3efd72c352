"""Entries put together to rows: elements of lists, rows of joins, entries of maps, or values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators.labels import with_labels
from statemigrate.checkpoint.operators.shapes import FamilyShape
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.rows.arrow.entries import EXPIRES, MERGED, ORIGINS
from statemigrate.rewrite.rows.arrow.structs import row_type, value_type
from statemigrate.rewrite.rows.kinds.apart import ORIGIN, POSITION
from statemigrate.rewrite.rows.wrapping import wrapped

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NUMBER, _ORDER = "number", (ORIGIN, POSITION, "number")


def rows_of(entries: DataFrame, plan: FamilyPlan) -> DataFrame:
    """The rows of the new family, with ``key``, ``value`` and the counts of `entries`.

    What stood under one old key stays together in its order.
    """
    from pyspark.sql import functions as F  # noqa: N812

    family = plan.new.family
    value = wrapped(family, F.col("key"), F.col("value"), F.col(EXPIRES)).alias("value")
    single = entries.withColumn(_NUMBER, F.monotonically_increasing_id()).select(
        "key", value, ORIGINS, MERGED, *_ORDER
    )
    if family.is_list:
        single = _lists(single)
    elif plan.is_numbered:
        single = _numbered(single)
    return single.select(
        _whole_key(family, numbered=plan.is_numbered).alias("key"),
        F.col("value").cast(value_type(family)).alias("value"),
        ORIGINS,
        MERGED,
    )


def counts_of(entries: DataFrame, plan: FamilyPlan) -> DataFrame:
    """The numbers of a join's rows by their keys, as rows of the family that has them.

    None of them is an old one that goes on: all old numbers are dropped.
    """
    from pyspark.sql import functions as F  # noqa: N812

    none = F.lit(0).cast("long")
    counted = entries.groupBy("key").agg(F.count("*").alias("value"))
    return counted.select(
        F.col("key").cast(row_type(plan.new.family.key)).alias("key"),
        F.struct("value").cast(value_type(plan.new.family)).alias("value"),
        none.alias(ORIGINS),
        none.alias(MERGED),
    )


def _lists(single: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    found = single.groupBy("key").agg(
        F.collect_list(F.struct(*_ORDER, "value")).alias("held"),
        F.sum(ORIGINS).alias(ORIGINS),
        # Rows of state whose elements come into one list are merged.
        (F.sum(MERGED) + F.greatest(F.sum(ORIGINS) - 1, F.lit(0))).alias(MERGED),
    )
    # A value may hold maps, which Spark does not order: only their places are sorted.
    places = F.sort_array(
        F.transform(
            "held",
            lambda each, at: F.struct(*(each.getField(n) for n in _ORDER), at.alias("at")),
        )
    )
    return found.withColumn(
        "value",
        F.transform(places, lambda each: F.col("held")[each.getField("at")].getField("value")),
    )


def _numbered(single: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    in_order = Window.partitionBy("key").orderBy(*_ORDER)
    return single.withColumn("index", (F.row_number().over(in_order) - 1).cast("long"))


def _whole_key(family: FamilyShape, *, numbered: bool) -> Column:
    """A key as the family has it, from the columns that users know."""
    from pyspark.sql import functions as F  # noqa: N812

    target = row_type(family.key)
    if numbered:
        return F.struct("key.*", "index").cast(target)
    if family.user_key is None:
        return F.col("key").cast(target)
    parts = with_labels(family.key)["fields"]
    columns = [each for part in parts for each in part["type"]["fields"]]
    shown = iter(row_type({"type": "struct", "fields": columns}).fieldNames())
    nested = [
        F.struct(*(F.col("key").getField(next(shown)) for _ in part["type"]["fields"]))
        for part in parts
    ]
    return F.struct(*nested).cast(target)
