"""Trying the values of embedded partitions, in the tasks of a Spark job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from statemigrate.embedded.working.committed import CommittedPartition, CommittedState
from statemigrate.inspect.trial.course import Course
from statemigrate.inspect.trial.findings import Findings
from statemigrate.processor.garbage import few_collections
from statemigrate.state.protocol import Shares
from statemigrate.state.ticks import Ticks

# Ticks come every 8,192 values and are asked for at the end of a block: a power of two meets them.
_AT_ONCE = 256
Shown = Callable[[bytes], tuple[Any, ...]]


def try_partitions(
    batches: Iterator[Any],
    *,
    held: CommittedState,
    shown: Shown,
    courses: Sequence[Course],
    shares: Shares,
    ticks: Ticks,
) -> Iterator[Any]:
    """What one Spark task does with the partitions whose numbers its rows have."""
    import pyarrow as pa

    for batch in batches:
        for number in batch.column(0).to_pylist():
            found = try_partition(number, held, shown, courses, shares, ticks)
            document = {family: each.to_json() for family, each in found.items()}
            yield pa.RecordBatch.from_pydict({"findings": [json.dumps(document)]})


def try_partition(
    number: int,
    held: CommittedState,
    shown: Shown,
    courses: Sequence[Course],
    shares: Shares,
    ticks: Ticks,
) -> dict[str, Findings]:
    """Try one partition's values, family by family."""
    with few_collections(), held.partition(number) as partition:
        return {
            course.family.name: _try(partition, number, course, shown, shares, ticks)
            for course in courses
        }


def _try(
    partition: CommittedPartition,
    number: int,
    course: Course,
    shown: Shown,
    shares: Shares,
    ticks: Ticks,
) -> Findings:
    share = shares[course.family.name][number]
    trial = course.trial(shown)
    decode_many, everything = course.family.format.decode_many, share.take == share.of
    records, seen = partition.records(course.family.name), 0
    while block := list(islice(records, _AT_ONCE)):
        picked = block
        if not everything:
            picked = [entry for place, entry in enumerate(block, seen) if share.picks(place)]
        values = decode_many([data for _, data in picked])
        for (key, data), value in zip(picked, values, strict=True):
            trial.run(key, data, value)
        seen += len(block)
        ticks.count(number, seen - 1)
    return trial.finished(seen)
