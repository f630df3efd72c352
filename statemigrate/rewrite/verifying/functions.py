"""The rows of an aggregation made again by Spark's own expressions, function by function."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from statemigrate.rewrite.plan.asking.starting import plain_start
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.rows.arrow.structs import row_type
from statemigrate.rewrite.rows.wrapping import unwrapped, wrapped_again
from statemigrate.rewrite.run.functions import FieldSource, field_sources

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def rows_by_functions(
    rows: DataFrame,
    plan: FamilyPlan,
    document: Mapping[str, Any],
    answers: Sequence[Mapping[str, str]],
) -> DataFrame:
    """The new rows of a family, of its old ``rows``, by the functions in the ``document``.

    Raises `RewriteError` where the report does not say what a function goes on with.
    """
    from pyspark.sql import functions as F  # noqa: N812

    assert plan.old is not None, "rows go on"  # noqa: S101
    assert plan.key is not None, "rows go on"  # noqa: S101
    sources = {each.label: each for each in field_sources(plan.name, document, answers)}
    content, new = row_type(plan.new.family.content), plan.new.family
    values = [
        _column(sources.get(field.name, FieldSource(field.name, field.name)), field, plan.name)
        for field in content
    ]
    keys = [
        F.col("key").getField(change.source).cast(field.dataType).alias(field.name)
        for change, field in zip(plan.key.fields, row_type(new.key), strict=True)
    ]
    made = unwrapped(rows, plan.old.family)
    others = [name for name in made.columns if name not in ("key", "value")]
    return wrapped_again(
        made.select(F.struct(*keys).alias("key"), F.struct(*values).alias("value"), *others), new
    )


def _column(source: FieldSource, field: Any, store: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if source.old is None:
        spark = copy.deepcopy(field.dataType.jsonValue())
        start = plain_start(f"{store}.{source.label}", spark, source.start)
        return F.lit(start).cast(field.dataType).alias(field.name)
    old = F.col("value").getField(source.old)
    match source.computes:
        case "isEmpty":
            made = old.isNull()
        case "sum":
            made = F.coalesce(old.cast(field.dataType), F.lit(0).cast(field.dataType))
        case _:
            made = old.cast(field.dataType)
    return made.alias(field.name)
