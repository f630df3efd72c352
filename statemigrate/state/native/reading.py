"""A family as Spark's state reader gives it: rows, and what of a row is its key and its value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from statemigrate.formats import Value
from statemigrate.processor.garbage import few_collections
from statemigrate.state.native.rows import Keys, arrow_rows, shown_rows
from statemigrate.state.protocol import Entry
from statemigrate.state.telling import Telling, told
from statemigrate.state.ticks import Ticks, ticking
from statemigrate.state.values import ALL, Document, Part, Share, Shares, Task, Tick, no_tick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Read = Callable[[Any], tuple[bytes, Value]]
"""Of what a row has as its value: the bytes the family's format writes, and the plain value."""


@dataclass(frozen=True)
class Reading:
    """The rows of a family, how their keys are read, and how their values are."""

    family: str
    frame: DataFrame
    key_of: Keys
    value_of: Read

    def entries(self, key: Sequence[Any] | None = None) -> Iterator[Entry]:
        """Keys and values, of list state an element each; only keys that begin with ``key``."""
        rows = self.frame if key is None else self.frame.where(self.key_of.begins_with(key))
        with told():
            for row in shown_rows(rows):
                yield self.key_of(row), self.value_of(row["value"])[1]

    def map(self, task: Task, shares: Mapping[int, Share], tick: Tick) -> Iterator[Document]:
        """Run a task in the tasks that read the rows; see `Values.map`."""
        with told(), ticking(tick) as ticks:
            run = partial(
                _run,
                task=task,
                family=self.family,
                key_of=self.key_of,
                value_of=self.value_of,
                shares=shares,
                ticks=ticks,
            )
            rows = self.frame.mapInArrow(Telling(run), "document string").collect()
        return (json.loads(row.document) for row in rows)


@dataclass(frozen=True)
class Readings:
    """See `Values`: a Spark job a family, its tasks those of Spark's state reader."""

    readings: tuple[Reading, ...]

    def map(
        self, task: Task, *, shares: Shares | None = None, tick: Tick = no_tick
    ) -> Iterator[tuple[str, Document]]:
        """See `Values`."""
        for each in self.readings:
            mine = (shares or {}).get(each.family, {})
            for document in each.map(task, mine, tick):
                yield each.family, document


def _run(
    batches: Iterator[Any],
    *,
    task: Task,
    family: str,
    key_of: Keys,
    value_of: Read,
    shares: Mapping[int, Share],
    ticks: Ticks,
) -> Iterator[Any]:
    import pyarrow as pa

    part = Part(family, key_of)
    part.values = _picked(part, batches, value_of, shares, ticks)
    with few_collections():
        document = task(part)
    yield pa.RecordBatch.from_pydict({"document": [json.dumps(document)]})


def _picked(
    part: Part,
    batches: Iterator[Any],
    value_of: Read,
    shares: Mapping[int, Share],
    ticks: Ticks,
) -> Iterator[tuple[Any, bytes, Value]]:
    seen: dict[int, int] = {}
    for row in chain.from_iterable(map(arrow_rows, batches)):
        number = row["partition_id"]
        index = seen.get(number, 0)
        seen[number] = index + 1
        part.seen += 1
        if shares.get(number, ALL).picks(index):
            yield row, *value_of(row["value"])
        ticks.count(number, index)
