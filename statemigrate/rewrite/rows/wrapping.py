"""What surrounds a value's content, taken off and put on: when it expires, or its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators.labels import with_labels
from statemigrate.checkpoint.operators.shapes import EXPIRATION, GROUP_STATE, FamilyShape
from statemigrate.rewrite.rows.arrow.structs import row_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EXPIRES = "expires"


def content_of(family: FamilyShape, value: Column) -> Column:
    """The struct that users know, of a value, or of an element of a list."""
    from pyspark.sql import functions as F  # noqa: N812

    match family.wrapping:
        case "expiry":
            return value.getField("value")
        case "state":
            return value.getField(GROUP_STATE)
        case "key":
            names = [each["name"] for each in with_labels(family.value)["fields"]]
            inner = with_labels(family.content)["fields"]
            placed = zip(names[len(names) - len(inner) :], inner, strict=True)
            return F.struct(*(value.getField(name).alias(each["name"]) for name, each in placed))
    return value


def expiration_of(family: FamilyShape, value: Column) -> Column:
    """When a value expires, in milliseconds since 1970; null where it never does."""
    from pyspark.sql import functions as F  # noqa: N812

    if family.wrapping == "expiry":
        return value.getField(EXPIRATION)
    return F.lit(None).cast("long")


def wrapped(family: FamilyShape, key: Column, content: Column, expires: Column) -> Column:
    """The value of a ``key`` as a family has it, from its content."""
    from pyspark.sql import functions as F  # noqa: N812

    match family.wrapping:
        case "expiry":
            value = F.struct(content.alias("value"), expires.alias(EXPIRATION))
        case "key":
            whole = row_type(family.value).fieldNames()
            inner = row_type(family.content).fieldNames()
            keys = row_type(family.key).fieldNames()
            columns = [*(key.getField(name) for name in keys)]
            columns += [content.getField(name) for name in inner]
            named = zip(columns, whole, strict=True)
            value = F.struct(*(column.alias(name) for column, name in named))
        case _:
            value = content
    return value.cast(row_type(family.value))


def unwrapped(rows: DataFrame, family: FamilyShape) -> DataFrame:
    """Rows with the content of their values, or those of a list's elements, for `wrapped_again`."""
    from pyspark.sql import functions as F  # noqa: N812

    value = F.col("value")
    if not family.is_list:
        content, expires = content_of(family, value), expiration_of(family, value)
    else:
        content = F.transform(value, lambda each: content_of(family, each))
        expires = F.transform(value, lambda each: expiration_of(family, each))
    return rows.select("key", content.alias("value"), expires.alias(_EXPIRES))


def wrapped_again(rows: DataFrame, family: FamilyShape) -> DataFrame:
    """The ``key`` and the ``value`` as a family has it, of what `unwrapped` has given."""
    from pyspark.sql import functions as F  # noqa: N812

    key, content, expires = F.col("key"), F.col("value"), F.col(_EXPIRES)
    value = (
        F.zip_with(content, expires, lambda each, at: wrapped(family, key, each, at))
        if family.is_list
        else wrapped(family, key, content, expires)
    )
    return rows.select("key", value.alias("value"))
