"""Families that only say again what a variable has, made from its rows as Spark makes them.

Of a list ``$rowCounter_`` has its length. Of what expires ``$ttl_`` has the keys by the moment at
which they do, of a list by that of the element which is first; a list has that moment in ``$min_``
too, and its length in ``$count_`` alone. Sources: ``ListStateImplWithTTL``, ``TTLState.scala`` of
apache/spark.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.operators.catalogue import COUNT, ROW_COUNTER, SOONEST, TTL
from statemigrate.checkpoint.operators.shapes import EXPIRATION, FamilyShape, StructJson

Derived = tuple[str, pa.StructArray, pa.StructArray]
"""The name of a family, and its keys and values."""


def derived_rows(family: FamilyShape, keys: pa.StructArray, values: pa.Array) -> Iterator[Derived]:
    """What follows from rows of a family; names of families that a store need not have."""
    if family.wrapping != "expiry":
        if family.is_list:
            yield f"{ROW_COUNTER}{family.name}", keys, _single("count", values.value_lengths())
        return
    if not family.is_list:
        yield _by_time(family, keys, values.field(EXPIRATION))
        return
    soonest = _soonest(values)
    yield _by_time(family, keys, soonest)
    yield f"{SOONEST}{family.name}", keys, _single("expirationMs", soonest)
    yield f"{COUNT}{family.name}", keys, _single("count", values.value_lengths())


def named_as(array: pa.StructArray, struct: StructJson) -> pa.StructArray:
    """The same columns under the names of a struct's fields."""
    return pa.StructArray.from_arrays(array.flatten(), [each["name"] for each in struct["fields"]])


def _by_time(family: FamilyShape, keys: pa.StructArray, times: pa.Array) -> Derived:
    by_time = pa.StructArray.from_arrays([times, keys], ["expirationMs", "elementKey"])
    return f"{TTL}{family.name}", by_time, _single("nothing", pa.nulls(len(keys)))


def _soonest(lists: pa.ListArray) -> pa.Array:
    """Of each list the first moment at which an element expires; none is empty."""
    times = lists.flatten().field(EXPIRATION).to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    if not len(lists):
        return pa.array([], pa.int64())
    return pa.array(np.minimum.reduceat(times, np.cumsum(lengths) - lengths), pa.int64())


def _single(name: str, column: pa.Array) -> pa.StructArray:
    if not pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    return pa.StructArray.from_arrays([column], [name])
