"""What becomes of rows, as columns of Spark's: new fields, and the partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.checkpoint.operators.catalogue import partition_columns
from statemigrate.checkpoint.operators.labels import labels
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.checkpoint.rows import partitions
from statemigrate.formats.json_values import json_text
from statemigrate.rewrite.plan.asking.starting import plain_start
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.fields import FieldChange, StructChange
from statemigrate.rewrite.plan.places import Place
from statemigrate.rewrite.rows.structs import row_type
from statemigrate.rewrite.rows.wrapping import content_of, expiration_of, wrapped

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

    assert plan.old is not None, "rows go on"  # noqa: S101
    family = plan.old.family

    def changed(value: Column) -> Column:
        content = changed_content(content_of(family, value), plan, starts)
        expires = expiration_of(family, value)
        return wrapped(plan.new.family, changed_key(plan), content, expires)

    return F.transform("value", changed) if plan.new.family.is_list else changed(F.col("value"))


def changed_content(content: Column, plan: FamilyPlan, starts: Mapping[str, Any]) -> Column:
    """The new content of a value, or of an element of a list."""
    assert plan.value is not None, "rows go on"  # noqa: S101
    return _struct(content, plan.value, row_type(plan.new.family.content), starts, plan.name)


def changed_shown_key(key: Column, plan: FamilyPlan, target: Any) -> Column:
    """The new columns of a key, of those that users know."""
    assert plan.key is not None, "rows go on"  # noqa: S101
    return _struct(key, plan.key, target, {}, plan.name)


def partition_of(operator: OperatorShape, place: Place, key: str = "key") -> Column:
    """Spark's own partition of a row, by the hash of the columns of its key that say it."""
    from pyspark.sql import functions as F  # noqa: N812

    paths = partition_columns(operator, place.store, place.family)
    if not paths:
        return F.lit(0)
    columns = [_at(F.col(key), path) for path in _labelled(paths, place)]
    return F.pmod(F.hash(*columns), F.lit(place.store.partitions))


def partitions_of(
    operator: OperatorShape, place: Place, keys: pa.StructArray
) -> npt.NDArray[np.int32]:
    """The partitions of keys as Arrow has them, fields by their labels."""
    paths = partition_columns(operator, place.store, place.family)
    if not paths:
        return np.zeros(len(keys), np.int32)
    columns = [pc.struct_field(keys, list(path)) for path in _labelled(paths, place)]
    return partitions.partition_of(columns, place.store.partitions)


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
