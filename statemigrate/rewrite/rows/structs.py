"""Spark's struct types as a rewrite hands rows around: every field by its label, all nullable."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.labels import with_labels
from statemigrate.checkpoint.operators.shapes import FamilyShape

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Struct = dict[str, Any]


def row_type(struct: Struct) -> StructType:
    """Spark's type of rows of the struct, fields by their labels."""
    from pyspark.sql.types import StructType

    found: StructType = StructType.fromJson(copy.deepcopy(_nullable(with_labels(struct))))
    return found


def value_type(family: FamilyShape) -> DataType:
    """Spark's type of a family's values: of a list the array of its elements."""
    from pyspark.sql.types import ArrayType

    single = row_type(family.value)
    return ArrayType(single) if family.is_list else single


def _nullable(spark: Any) -> Any:
    """A type all of whose parts may be null, as a state reader's are."""
    if not isinstance(spark, dict):
        return spark
    match spark["type"]:
        case "struct":
            fields = [
                {**each, "type": _nullable(each["type"]), "nullable": True, "metadata": {}}
                for each in spark["fields"]
            ]
            return {**spark, "fields": fields}
        case "array":
            return {**spark, "elementType": _nullable(spark["elementType"]), "containsNull": True}
        case "map":
            value = _nullable(spark["valueType"])
            return {**spark, "valueType": value, "valueContainsNull": True}
    return spark
