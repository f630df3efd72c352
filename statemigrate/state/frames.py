"""What is done with the rows of Spark's state reader: counting, reading, trying."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from statemigrate.deployment import StoredFamily, StorePlan
from statemigrate.errors import CheckpointError
from statemigrate.inspect.trial.course import Course
from statemigrate.inspect.trial.findings import Findings, added
from statemigrate.migration import Path
from statemigrate.native.spark_state.reader import SparkCheckpoint
from statemigrate.processor.garbage import few_collections
from statemigrate.state.protocol import Entry, Share, Shares, Suspect, Tick
from statemigrate.state.spark_rows import Keys, arrow_rows, reader_of
from statemigrate.state.ticks import Ticks, ticking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_ALL = Share(1, 1)


def committed_batch(reader: SparkCheckpoint) -> int:
    """The id of the last committed batch. Raises `CheckpointError` before the first."""
    batch = reader.last_batch()
    if batch is None:
        raise CheckpointError(
            f"nothing is committed in the checkpoint {reader.path}",
            expected="at least one committed batch",
            found="none",
            next_action="check the path; a query writes its state with its first batch",
            path=reader.path,
        )
    return batch


def counted(frame: DataFrame) -> dict[int, int]:
    """The rows by partition."""
    rows = frame.groupBy("partition_id").count().collect()
    return {int(number): int(count) for number, count in map(tuple, rows)}


def logical(
    plan: StorePlan,
    frame: Callable[[StoredFamily], DataFrame | None],
    keys: Keys,
    key: Sequence[Any] | None,
    *,
    envelope: bool,
) -> Iterator[Entry]:
    """The entries of all families in the target's format.

    ``frame`` gives a family's rows, None where there are none. At every commit a key is in one
    family only, so they need no merging.
    """
    arrange = lists if plan.declared.kind == "list" else iter
    for family in (plan.target, *plan.sources):
        rows = frame(family)
        if rows is not None:
            chosen = rows if key is None else rows.where(_begins_with(keys, key))
            entries = _read(chosen, family, keys, envelope=envelope)
            yield from arrange(_in_target(plan, family, entries))


def suspected(
    plan: StorePlan,
    frame: Callable[[StoredFamily], DataFrame | None],
    keys: Keys,
    *,
    envelope: bool,
) -> Iterator[Suspect]:
    """The entries of every family but the target's, as they are."""
    arrange = lists if plan.declared.kind == "list" else iter
    for family in plan.sources:
        rows = frame(family)
        if rows is not None:
            for key, value in arrange(_read(rows, family, keys, envelope=envelope)):
                yield family.name, key, value, False


def tried(
    frame: DataFrame, course: Course, keys: Keys, shares: Shares, tick: Tick, *, envelope: bool
) -> dict[str, Findings]:
    """Try a family's rows, in the tasks that read them."""
    with ticking(tick) as ticks:
        run = partial(
            _try_rows,
            course=course,
            keys=keys,
            shares=shares[course.family.name],
            ticks=ticks,
            envelope=envelope,
        )
        rows = frame.mapInArrow(run, "findings string").collect()
    found = added(json.loads(row.findings) for row in rows)
    return {course.family.name: found.get(course.family.name, Findings())}


def _try_rows(
    batches: Iterator[Any],
    *,
    course: Course,
    keys: Keys,
    shares: Mapping[int, Share],
    ticks: Ticks,
    envelope: bool,
) -> Iterator[Any]:
    import pyarrow as pa

    trial = course.trial(keys.shown)
    read = reader_of(course.family, envelope=envelope)
    seen: dict[int, int] = {}
    with few_collections():
        for row in chain.from_iterable(map(arrow_rows, batches)):
            number = row["partition_id"]
            index = seen.get(number, 0)
            seen[number] = index + 1
            if shares.get(number, _ALL).picks(index):
                trial.run(row, *read(row["value"]))
            ticks.count(number, index)
    found = {course.family.name: trial.finished(sum(seen.values())).to_json()}
    yield pa.RecordBatch.from_pydict({"findings": [json.dumps(found)]})


def _read(rows: DataFrame, family: StoredFamily, keys: Keys, *, envelope: bool) -> Iterator[Entry]:
    read = reader_of(family, envelope=envelope)
    for row in rows.toLocalIterator(prefetchPartitions=True):
        yield keys.shown(row), read(row["value"])[1]


def _begins_with(keys: Keys, key: Sequence[Any]) -> Any:
    from pyspark.sql import functions

    columns = [f"key.`{name}`" for name in keys.key.fieldNames()]
    if keys.user_key is not None:
        columns += [f"user_key.`{name}`" for name in keys.user_key.fieldNames()]
    condition = functions.lit(True)
    for column, value in zip(columns, key, strict=False):
        condition = condition & functions.col(column).eqNullSafe(functions.lit(value))
    return condition


def _in_target(plan: StorePlan, family: StoredFamily, entries: Iterator[Entry]) -> Iterator[Entry]:
    if family is plan.target:
        return entries
    path = plan.paths[plan.sources.index(family)]
    return _refused(plan, family, entries) if path is None else _migrated(plan, path, entries)


def _refused(plan: StorePlan, family: StoredFamily, entries: Iterator[Entry]) -> Iterator[Entry]:
    for _ in entries:
        plan.refuse(family)
    return iter(())


def _migrated(plan: StorePlan, path: Path, entries: Iterator[Entry]) -> Iterator[Entry]:
    conform = plan.target.format.conform
    for key, value in entries:
        yield key, conform(path.apply(value, key))


def lists(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Entries of list state, an element each, as one entry a key."""
    # Keys as text: a NaN equals nothing, and the two times of a repeated hour equal each other.
    for _, elements in groupby(entries, key=lambda entry: repr(entry[0])):
        held = list(elements)
        yield held[0][0], [value for _, value in held]
