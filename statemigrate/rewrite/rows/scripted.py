"""The rows of a store carried along its scripts, as Spark runs them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from statemigrate.migration.stage import Stage, stages_of
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.rows.arrow.entries import (
    MERGED,
    ORIGINS,
    EntryFormats,
    EntryTask,
    MergeTask,
    TableTask,
)
from statemigrate.rewrite.rows.arrow.structs import row_type, value_type
from statemigrate.rewrite.rows.checksums import hashes
from statemigrate.state.telling import Telling

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
    one, none = F.lit(1).cast("long"), F.lit(0).cast("long")
    counted = rows.select("key", "value", one.alias(ORIGINS), none.alias(MERGED))
    found = along(counted, family, formats)
    return found.select(
        F.col("key").cast(row_type(family.new.family.key)).alias("key"),
        F.col("value").cast(value_type(family.new.family)).alias("value"),
        ORIGINS,
        MERGED,
    )


def along(
    entries: DataFrame, family: FamilyPlan, formats: EntryFormats, order: tuple[str, ...] = ()
) -> DataFrame:
    """Entries carried along a family's scripts, and merged where they meet under one key.

    In a list they may meet. ``order`` is in which order they are merged.
    """
    from pyspark.sql import functions as F  # noqa: N812

    script, new = family.script, family.new
    assert script is not None, "asked before"  # noqa: S101
    key, value = formats.types
    found = entries.select(
        F.col("key").cast(key).alias("key"),
        F.col("value").cast(value).alias("value"),
        *formats.counted,
    )
    stages = stages_of(script.path, prefer_tables=not formats.carried)
    has_met = not formats.carried
    for number, stage in enumerate(stages, 1):
        after = replace(formats, key=stage.key or formats.key, value=stage.value)
        task = TableTask(stage, after) if stage.on_tables else EntryTask(stage, formats, after)
        found = found.mapInArrow(Telling(task), _schema(after))
        may_meet = stage.key is not None or stage.merges or (number == len(stages) and not has_met)
        if may_meet and not family.gathers:
            found, has_met = _met(found, stage, after, new.store.partitions, order), True
        formats = after
    return found


def one_of_each(rows: DataFrame) -> DataFrame:
    """One row of those that have the same key, with the sums of their counts."""
    from pyspark.sql import functions as F  # noqa: N812

    # Of rows that only say until when a key is known, the longest counts.
    return rows.groupBy("key").agg(
        F.max("value").alias("value"),
        F.sum(ORIGINS).alias(ORIGINS),
        (F.count("*") - 1).alias(MERGED),
    )


def _met(
    rows: DataFrame, stage: Stage, formats: EntryFormats, partitions: int, order: tuple[str, ...]
) -> DataFrame:
    # Which of two values comes first is the same in every run, wherever they were read.
    last = hashes(rows.schema)[0]
    together = rows.repartition(partitions, "key").sortWithinPartitions("key", *order, last)
    return together.mapInArrow(Telling(MergeTask(stage, formats)), _schema(formats))


def _schema(formats: EntryFormats) -> StructType:
    from pyspark.sql.types import LongType, StructType

    key, value = formats.types
    found = StructType().add("key", key).add("value", value)
    for name in formats.counted:
        found = found.add(name, LongType())
    return found
