"""What the plan of a stream tells a replay: what it reads, and if it looks at the clock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CLOCK = re.compile(
    r"current_timestamp|current_date|current_time|localtimestamp|\bnow\(|unix_timestamp\(\)"
    r"|ProcessingTime|TimeToLive|\bttl",
    re.IGNORECASE,
)
_OPERATORS_WITH_TIME = ("FlatMapGroups", "TransformWithState", "FlatMapGroupsInPandas")


@dataclass(frozen=True)
class StreamPlan:
    """The plan of a stream before Spark has optimized it.

    ``reads`` has for each stream that it reads, in Spark's order, the folder it is read from, or
    the text of the plan's node where it is read from something else. ``clock`` says whether rows
    or state depend on the time at which a batch runs, as far as the plan shows it. ``watermarks``
    is how many there are.
    """

    reads: tuple[str, ...]
    clock: bool
    watermarks: int

    @classmethod
    def of(cls, stream: DataFrame) -> StreamPlan:
        """The plan of a stream."""
        plan = stream._jdf.queryExecution().analyzed()
        text = str(plan.toString())
        leaves = plan.collectLeaves()
        every = [leaves.apply(number) for number in range(leaves.size())]
        reads = tuple(_read_from(leaf) for leaf in every if leaf.isStreaming())
        return cls(reads, _looks_at_clock(text), len(re.findall(r"EventTimeWatermark\b", text)))


def _read_from(leaf: Any) -> str:
    """The folder of a file source; else what the plan shows."""
    if str(leaf.getClass().getSimpleName()) == "StreamingRelation":
        path = leaf.dataSource().options().get("path")
        if path.isDefined():
            return str(path.get())
    return str(leaf.simpleStringWithNodeId())


def _looks_at_clock(text: str) -> bool:
    # User code in an operator on groups may set timers, or give values a time to live.
    return bool(_CLOCK.search(text)) or any(name in text for name in _OPERATORS_WITH_TIME)


def reader_options(stream: DataFrame) -> dict[str, str]:
    """The options of the one stream that is read, by their names in small letters."""
    leaves = stream._jdf.queryExecution().analyzed().collectLeaves()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.isStreaming() and hasattr(leaf, "extraOptions"):
            found = leaf.extraOptions()
            return {str(name).casefold(): str(found.get(name)) for name in found.keySet()}
    return {}
