"""What becomes of rows, as columns of Spark's: new fields, and the partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.catalogue import partition_columns
from statemigrate.checkpoint.operators.labels import labels
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.formats.json_values import json_text
from statemigrate.rewrite.plan.asking.starting import plain_start
from statemigrate.rewrite.plan.families import FamilyPlan, Place
from statemigrate.rewrite.plan.fields import FieldChange, StructChange
from statemigrate.rewrite.rows.structs import row_type

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def changed_key(plan: FamilyPlan) -> Column:
    """The new key of a row with the columns ``key`` and ``value``."""
    from pyspark.sql import functions as F  # noqa: N812

    assert plan.key is not None, "rows go on"  # noqa: S101
    return _struct(F.col("key"), plan.key, row_type(plan.new.family.key), {}, plan.name)


def changed_value(plan: FamilyPlan, starts: Mapping[str, Any]) -> Column:
    """The new value of a row; ``starts`` has where new fields start, by ``store.field``."""
    from pyspark.sql import functions as F  # noqa: N812

    change, target = plan.value, row_type(plan.new.family.value)
    assert change is not None, "rows go on"  # noqa: S101
    if not plan.new.family.is_list:
        return _struct(F.col("value"), change, target, starts, plan.name)
    return F.transform("value", lambda each: _struct(each, change, target, starts, plan.name))


def partition_of(operator: OperatorShape, place: Place, key: str = "key") -> Column:
    """Spark's own partition of a row, by the hash of the columns of its key that say it."""
    from pyspark.sql import functions as F  # noqa: N812

    paths = partition_columns(operator, place.store, place.family)
    if not paths:
        return F.lit(0)
    columns = [_at(F.col(key), path) for path in _labelled(paths, place)]
    return F.pmod(F.hash(*columns), F.lit(place.store.partitions))


def _struct(
    row: Column, change: StructChange, target: Any, starts: Mapping[str, Any], store: str
) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if change.is_identity:
        return row.cast(target)
    columns = [
        _field(row, each, field.dataType, starts, store).alias(field.name)
        for each, field in zip(change.fields, target.fields, strict=True)
    ]
    return F.struct(*columns)


def _field(
    row: Column, change: FieldChange, target: DataType, starts: Mapping[str, Any], store: str
) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if change.change == "new":
        name = f"{store}.{change.label}"
        return start(plain_start(name, target.jsonValue(), starts.get(name)), target)
    source = row.getField(change.source.rpartition(".")[2])
    if change.nested is None:
        return source.cast(target)
    inner = _struct(source, change.nested, target, starts, store)
    return F.when(source.isNotNull(), inner).otherwise(F.lit(None).cast(target))


def start(value: Any, target: DataType) -> Column:
    """A plain value as Spark's, for every row."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, MapType, StructType

    if value is None or not isinstance(target, ArrayType | MapType | StructType):
        return F.lit(value).cast(target)
    schema = StructType().add("x", target)
    # What Spark cannot read must not become null.
    strictly = {"mode": "FAILFAST"}
    return F.from_json(F.lit(json_text({"x": value})), schema, strictly).getField("x")


def _labelled(paths: tuple[tuple[str, ...], ...], place: Place) -> list[tuple[str, ...]]:
    """The paths by labels of the key's fields; a name that repeats stands for each in turn."""
    fields = [str(each["name"]) for each in place.family.key["fields"]]
    named, found = labels(place.family.key), []
    for name, *rest in paths:
        at = fields.index(name)
        fields[at] = ""
        found.append((named[at], *rest))
    return found


def _at(column: Column, path: tuple[str, ...]) -> Column:
    for name in path:
        column = column.getField(name)
    return column
