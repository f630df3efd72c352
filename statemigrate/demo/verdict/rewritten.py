"""What the demonstration of a rewrite found out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from statemigrate.demo.stage.crash import Crash
from statemigrate.demo.stage.options import DemoOptions
from statemigrate.demo.stage.places import DemoFolder
from statemigrate.demo.stage.rows import REWRITTEN
from statemigrate.demo.verdict.comparison import Comparison, compare_summaries
from statemigrate.demo.verdict.figures import BatchTimes
from statemigrate.demo.verdict.outcome import by_entity, last_rows


@dataclass(frozen=True)
class RewritingFigures:
    """What a rewrite did with rows of state, by its own report; ``problems`` is what verify found.

    ``partitions`` has the rows that each new one got.
    """

    read: int
    written: int
    merged: int
    dropped: int
    partitions: tuple[int, ...]
    seconds: float
    problems: tuple[str, ...]

    @classmethod
    def of(cls, folder: DemoFolder) -> RewritingFigures:
        """Those that the process which did it left in the folder."""
        document = json.loads(folder.rewritten.read_text())
        (family,) = document["report"]["families"]
        partitions = tuple(each["rows"] for each in family["written"].values())
        return cls(
            family["read"]["rows"],
            sum(partitions),
            family["merged"],
            family["dropped"],
            partitions,
            round(document["report"]["seconds"], 1),
            tuple(document["problems"]),
        )

    @property
    def is_complete(self) -> bool:
        """Whether every row is accounted for, and some met."""
        accounted = self.read == self.written + self.merged + self.dropped
        return accounted and self.merged > 0 and not self.problems


@dataclass(frozen=True)
class RewriteFigures:
    """The whole result. ``rerun_batch`` is the batch with which the first code was taken up again.

    ``first_batch`` is the one with which the new code went on; ``refused`` says that no rewrite
    was possible of the killed query's checkpoint.
    """

    options: DemoOptions
    crash: Crash
    rerun_batch: int
    last_batch: int
    first_batch: int
    refused: bool
    before: BatchTimes
    after: BatchTimes
    rewriting: RewritingFigures
    state: Comparison
    output: Comparison
    seconds: dict[str, float]

    @property
    def is_good(self) -> bool:
        """Whether the run shows what it is meant to show, without any difference."""
        return (
            self.refused
            and self.crash.batch == self.rerun_batch
            and self.first_batch == self.last_batch + 1
            and self.rewriting.is_complete
            and self.state.is_equal
            and self.output.is_equal
        )

    def to_json(self) -> dict[str, Any]:
        """The form for machines."""
        return {
            "equal": self.is_good,
            **asdict(self.options),
            "killed": asdict(self.crash),
            "refused": self.refused,
            "rerun_batch": self.rerun_batch,
            "last_batch": self.last_batch,
            "first_batch": self.first_batch,
            "batch_milliseconds": {"before": asdict(self.before), "after": asdict(self.after)},
            "rewrite": {**asdict(self.rewriting), "complete": self.rewriting.is_complete},
            "state": self.state.to_json(),
            "output": self.output.to_json(),
            "seconds": self.seconds,
        }


def compare_rewritten(folder: DemoFolder, files: int) -> tuple[Comparison, Comparison]:
    """Compare the new state with Spark SQL; and the last output of what the last files touched."""
    expected = by_entity(pq.read_table(folder.expected), REWRITTEN)
    state = by_entity(pq.read_table(folder.state), REWRITTEN)
    touched = _touched(folder, files)
    output = by_entity(last_rows(folder.new_output), REWRITTEN)
    wanted = {key: row for key, row in expected.items() if key in touched}
    return (
        compare_summaries(expected, state, REWRITTEN),
        compare_summaries(wanted, output, REWRITTEN),
    )


def _touched(folder: DemoFolder, files: int) -> set[str]:
    """The auctions that have bids in the last so many files."""
    last = sorted(folder.events.glob("*.parquet"))[-files:]
    tables = [pq.read_table(path, columns=["entity", "kind"]) for path in last]
    return {
        entity
        for table in tables
        for entity in table.filter(pc.equal(table["kind"], "bid"))["entity"].to_pylist()
    }
