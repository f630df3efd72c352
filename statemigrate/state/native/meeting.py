"""How many keys are the same once scripts have changed them: counted by Spark, in its tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from statemigrate.state.native.reading import Read, Reading
from statemigrate.state.native.rows import arrow_rows
from statemigrate.state.protocol import Collisions

Keys = Callable[[Iterator[Any]], Iterator[bytes]]
_BYTES = 16


def collisions(reading: Reading, keys: Keys) -> Collisions:
    """Of what ``keys`` gives for the rows and plain values of a family; see `State.keys_after`."""
    from pyspark.sql import functions

    hashed = reading.frame.mapInArrow(
        partial(_hashed, keys=keys, value_of=reading.value_of), "hash binary"
    )
    counts = hashed.groupBy("hash").count()
    met = functions.count_if(functions.col("count") > 1)
    row = counts.agg(functions.sum("count"), functions.count("*"), met).collect()[0]
    return Collisions(int(row[0] or 0), int(row[1]), int(row[2]))


def _hashed(batches: Iterator[Any], *, keys: Keys, value_of: Read) -> Iterator[Any]:
    import pyarrow as pa

    rows = chain.from_iterable(map(arrow_rows, batches))
    found = keys((row, value_of(row["value"])[1]) for row in rows)
    for block in _blocks(hashlib.blake2b(each, digest_size=_BYTES).digest() for each in found):
        yield pa.RecordBatch.from_pydict({"hash": pa.array(block, pa.binary())})


def _blocks(hashes: Iterator[bytes]) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    for each in hashes:
        block.append(each)
        if len(block) == 8_192:
            yield block
            block = []
    if block:
        yield block
