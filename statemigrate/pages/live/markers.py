"""What keeps operators with names from each other's pages: a state variable without a value.

Its type is another one for each name. Spark refuses a variable whose type has changed, before a
batch: names that were exchanged in the code would have each operator lose its own pages.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from statemigrate.pages.record import GUARD

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BITS = 32
"""Of a hash of the name, each the type of a field."""


def declare(handle: Any, operator: str) -> None:
    """Have Spark refuse another name for an operator; nothing of one without a name."""
    if operator:
        handle.getValueState(GUARD, guard_type(operator))


def guard_type(operator: str) -> StructType:
    """A type that no other name has, of types that neither of Spark's encodings takes for another.

    Spark compares those of rows by their places, and those of Avro by names, so these are the same
    for all; the first one is there for who reads what Spark says when it refuses.
    """
    from pyspark.sql.types import BooleanType, LongType, StructField, StructType

    digest = int.from_bytes(hashlib.sha256(operator.encode()).digest()[: _BITS // 8])
    bits = [
        StructField(f"bit_{number}", LongType() if digest >> number & 1 else BooleanType())
        for number in range(_BITS)
    ]
    return StructType([StructField(f"operator_{operator}", BooleanType()), *bits])
