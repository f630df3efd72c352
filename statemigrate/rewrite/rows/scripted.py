"""The rows of a store carried along its scripts, as Spark runs them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from statemigrate.migration.stage import Stage, stages_of
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.rows.entries import (
    MERGED,
    ORIGINS,
    EntryFormats,
    EntryTask,
    MergeTask,
    TableTask,
)
from statemigrate.rewrite.rows.structs import row_type, value_type
from statemigrate.rewrite.rows.telling import Telling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def upgraded(rows: DataFrame, family: FamilyPlan) -> DataFrame:
    """What rows become by a family's scripts: ``key``, ``value`` and the counts of `entries`.

    Where keys change, entries that meet are merged.
    """
    from pyspark.sql import functions as F  # noqa: N812

    script = family.script
    assert script is not None, "asked before"  # noqa: S101
    formats = EntryFormats(script.key, script.value, is_list=family.new.family.is_list)
    key, value = formats.types
    one, none = F.lit(1).cast("long"), F.lit(0).cast("long")
    found = rows.select(
        F.col("key").cast(key).alias("key"),
        F.col("value").cast(value).alias("value"),
        one.alias(ORIGINS),
        none.alias(MERGED),
    )
    for stage in stages_of(script.path):
        after = replace(formats, key=stage.key or formats.key, value=stage.value)
        task = TableTask(stage, after) if stage.on_tables else EntryTask(stage, formats, after)
        found = found.mapInArrow(Telling(task), _schema(after))
        if stage.key is not None or stage.merges:
            found = _met(found, stage, after, family.new.store.partitions)
        formats = after
    return found.select(
        F.col("key").cast(row_type(family.new.family.key)).alias("key"),
        F.col("value").cast(value_type(family.new.family)).alias("value"),
        ORIGINS,
        MERGED,
    )


def one_of_each(rows: DataFrame) -> DataFrame:
    """One row of those that have the same key, with the sums of their counts."""
    from pyspark.sql import functions as F  # noqa: N812

    # Of rows that only say until when a key is known, the longest counts.
    return rows.groupBy("key").agg(
        F.max("value").alias("value"),
        F.sum(ORIGINS).alias(ORIGINS),
        (F.count("*") - 1).alias(MERGED),
    )


def _met(rows: DataFrame, stage: Stage, formats: EntryFormats, partitions: int) -> DataFrame:
    together = rows.repartition(partitions, "key").sortWithinPartitions("key")
    return together.mapInArrow(Telling(MergeTask(stage, formats)), _schema(formats))


def _schema(formats: EntryFormats) -> StructType:
    from pyspark.sql.types import LongType, StructType

    key, value = formats.types
    found = StructType().add("key", key).add("value", value)
    return found.add(ORIGINS, LongType()).add(MERGED, LongType())
