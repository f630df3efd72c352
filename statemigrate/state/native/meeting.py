"""How many keys are the same once scripts have changed them: counted by Spark, in its tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from statemigrate.state.native.reading import Read, Reading
from statemigrate.state.native.rows import arrow_rows
from statemigrate.state.protocol import Collisions
from statemigrate.state.telling import told

Keys = Callable[[Iterator[Any]], Iterator[bytes]]
_BYTES = 16
_EXAMPLES = 3


@told()
def collisions(reading: Reading, keys: Keys) -> Collisions:
    """Of what ``keys`` gives for the rows and plain values of a family; see `State.keys_after`."""
    from pyspark.sql import functions

    task = partial(_hashed, keys=keys, value_of=reading.value_of)
    counts = reading.frame.mapInArrow(task, "hash binary").groupBy("hash").count()
    met = functions.count_if(functions.col("count") > 1)
    row = counts.agg(functions.sum("count"), functions.count("*"), met).collect()[0]
    found = Collisions(int(row[0] or 0), int(row[1]), int(row[2]))
    if not found.met:
        return found
    most = counts.where("count > 1").orderBy(functions.desc("count"), "hash").limit(_EXAMPLES)
    numbers = {bytes(each["hash"]): each["count"] for each in most.collect()}
    named = partial(_named, keys=keys, value_of=reading.value_of, wanted=frozenset(numbers))
    rows = reading.frame.mapInArrow(named, "key binary").distinct().collect()
    several = ((bytes(each["key"]), numbers[_hash(bytes(each["key"]))]) for each in rows)
    return replace(found, examples=tuple(sorted(several, key=lambda each: (-each[1], each[0]))))


def _hashed(batches: Iterator[Any], *, keys: Keys, value_of: Read) -> Iterator[Any]:
    return _column("hash", map(_hash, _keys(batches, keys, value_of)))


def _named(
    batches: Iterator[Any], *, keys: Keys, value_of: Read, wanted: frozenset[bytes]
) -> Iterator[Any]:
    """The keys whose hash is ``wanted``."""
    found = _keys(batches, keys, value_of)
    return _column("key", (each for each in found if _hash(each) in wanted))


def _keys(batches: Iterator[Any], keys: Keys, value_of: Read) -> Iterator[bytes]:
    rows = chain.from_iterable(map(arrow_rows, batches))
    return keys((row, value_of(row["value"])[1]) for row in rows)


def _hash(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_BYTES).digest()


def _column(name: str, values: Iterator[bytes]) -> Iterator[Any]:
    import pyarrow as pa

    for block in _blocks(values):
        yield pa.RecordBatch.from_pydict({name: pa.array(block, pa.binary())})


def _blocks(values: Iterator[bytes]) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    for each in values:
        block.append(each)
        if len(block) == 8_192:
            yield block
            block = []
    if block:
        yield block
