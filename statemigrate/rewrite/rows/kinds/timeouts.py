"""Timeouts of a function's groups as the timers of a processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators.shapes import TIMEOUT
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.rows.arrow.entries import MERGED, ORIGINS
from statemigrate.rewrite.rows.arrow.structs import row_type, value_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NONE = -1
"""What Spark writes where a group has no timeout."""


def timers_of(rows: DataFrame, plan: FamilyPlan) -> DataFrame:
    """A timer for each group that has a timeout, as rows with ``key``, ``value`` and the counts."""
    from pyspark.sql import functions as F  # noqa: N812

    family, at = plan.new.family, F.col("value").getField(TIMEOUT)
    fields = row_type(family.key).fields
    columns = [
        (at if field.dataType.typeName() == "long" else F.col("key")).alias(field.name)
        for field in fields
    ]
    return rows.where(at.isNotNull() & (at != _NONE)).select(
        F.struct(*columns).cast(row_type(family.key)).alias("key"),
        F.struct(F.lit(None).alias("nothing")).cast(value_type(family)).alias("value"),
        F.lit(1).cast("long").alias(ORIGINS),
        F.lit(0).cast("long").alias(MERGED),
    )
