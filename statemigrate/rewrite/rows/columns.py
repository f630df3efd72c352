"""The partition of a row by its key, as a column of Spark's and of keys as Arrow has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.checkpoint.operators.catalogue import partition_columns
from statemigrate.checkpoint.operators.labels import labels
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.checkpoint.rows import partitions
from statemigrate.rewrite.plan.pairing.places import Place

if TYPE_CHECKING:
    from pyspark.sql import Column


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
