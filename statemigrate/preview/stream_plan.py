"""What the plan of a stream tells a replay: what it reads, and if it looks at the clock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CLOCK = re.compile(
    r"current_timestamp|current_date|current_time|localtimestamp|\bnow\(|unix_timestamp\(\)"
    r"|ProcessingTime|TimeToLive|\bttl",
    re.IGNORECASE,
)
_GIVES_TIME = "FlatMapGroups"
"""Operators of these names give user code the time of the batch."""
_TIME_BY_MODE = "TransformWithState"
"""Operators of these names do so by their time mode: timers, and values with a time to live."""
_NO_TIME = "NoTime"
"""What Spark calls the time mode ``None``."""


@dataclass(frozen=True)
class UnoptimizedPlan:
    """The plan of a stream before Spark has optimized it.

    ``reads`` has for each stream that it reads, in Spark's order, the folder it is read from, or
    the text of the plan's node where it is read from something else; ``sources`` the number of
    Spark's source for each, which is the same where a plan has one relation twice. ``clock`` says
    whether rows or state depend on the time at which a batch runs, as far as the plan shows it.
    ``watermarks`` is how many there are.
    """

    reads: tuple[str, ...]
    sources: tuple[int, ...]
    clock: bool
    watermarks: int

    @classmethod
    def of(cls, stream: DataFrame) -> UnoptimizedPlan:
        """The plan of a stream."""
        plan = stream._jdf.queryExecution().analyzed()
        text = str(plan.toString())
        leaves = plan.collectLeaves()
        every = [leaves.apply(number) for number in range(leaves.size())]
        streams = [leaf for leaf in every if leaf.isStreaming()]
        reads = tuple(map(_read_from, streams))
        return cls(
            reads,
            _numbers(streams),
            bool(_CLOCK.search(text)) or any(map(_gives_time, _nodes(plan))),
            len(re.findall(r"EventTimeWatermark\b", text)),
        )


def _read_from(leaf: Any) -> str:
    """The folder of a file source; else what the plan shows."""
    if str(leaf.getClass().getSimpleName()) == "StreamingRelation":
        path = leaf.dataSource().options().get("path")
        if path.isDefined():
            return str(path.get())
    return str(leaf.simpleStringWithNodeId())


def _numbers(streams: list[Any]) -> tuple[int, ...]:
    """By stream the number of its source: Spark makes one of relations that are equal."""
    distinct: list[Any] = []
    found: list[int] = []
    for leaf in streams:
        number = next((n for n, each in enumerate(distinct) if each.equals(leaf)), len(distinct))
        if number == len(distinct):
            distinct.append(leaf)
        found.append(number)
    return tuple(found)


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from _nodes(children.apply(number))


def _gives_time(node: Any) -> bool:
    """Whether an operator on groups gives user code the time, or may keep values by it."""
    name = str(node.nodeName())
    if name.startswith(_TIME_BY_MODE):
        return str(node.timeMode().toString()) != _NO_TIME
    return name.startswith(_GIVES_TIME)


def reader_options(stream: DataFrame) -> dict[str, str]:
    """The options of the one stream that is read, by their names in small letters."""
    leaves = stream._jdf.queryExecution().analyzed().collectLeaves()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if str(leaf.getClass().getSimpleName()) == "StreamingRelationV2":
            found = leaf.extraOptions()
            return {str(name).casefold(): str(found.get(name)) for name in found.keySet()}
    return {}
