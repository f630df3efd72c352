"""A query of Spark's rate source with three stateful operators, and what it must hold."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from tally import AmountsTally, CentsTally

from statemigrate import migrated, with_backfill

ROWS = 100
SEEN, TALLY, DEDUPE = 0, 1, 2
"""Spark's numbers: it counts from the sink towards the sources."""


def key_of(value: int) -> str:
    return f"k{value % 400 if value % 3 == 0 else value % 40}"


class Seen(StatefulProcessor):
    """After ours: how many updates of a key came by."""

    def init(self, handle: Any) -> None:
        self.seen = handle.getValueState("seen", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        n = (self.seen.get() or (0,))[0] + sum(1 for _ in rows)
        self.seen.update((n,))
        yield Row(key=key[0], n=n)

    def close(self) -> None:
        pass


@dataclass
class RateQuery:
    """``dropDuplicates``, then the tally, then another processor; ``scripts`` migrate the tally."""

    spark: Any
    checkpoint: Path
    scripts: Path

    def stream(self) -> Any:
        rate = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
        key = "concat('k', CASE WHEN value % 3 = 0 THEN value % 400 ELSE value % 40 END) AS key"
        rows = rate.selectExpr(key, "value AS cents", "'n' AS name")
        return rows.dropDuplicates(["cents"])

    def run(self, processor: Any, stream: Any) -> None:
        """Process what is there: one batch of the rate source, and all chunks."""
        output = "key STRING, n BIGINT, cents BIGINT, last STRING, moved BIGINT"
        tallied = stream.groupBy("key").transformWithState(processor, output, "Append", "None")
        seen = tallied.groupBy("key").transformWithState(
            Seen(), "key STRING, n BIGINT", "Append", "None"
        )
        writer = seen.writeStream.format("noop").outputMode("append")
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    def run_plain(self) -> None:
        self.run(CentsTally(), self.stream())

    def run_migrated(self, **options: Any) -> None:
        options = {"operator": TALLY, **options}
        stream = with_backfill(self.stream(), "key", checkpoint=self.checkpoint, **options)
        processor = migrated(
            AmountsTally(), migrations=self.scripts, checkpoint=self.checkpoint, **options
        )
        self.run(processor, stream)

    def rows(self) -> int:
        """How many rows are committed, as the offset log says."""
        newest = max(int(at.name) for at in (self.checkpoint / "commits").glob("[0-9]*"))
        lines = (self.checkpoint / "offsets" / str(newest)).read_text().split("\n")
        return int(json.loads(lines[2])["offset"])


def tally_of(rows: int, migrated_from: int) -> dict[str, dict[str, Any]]:
    """What the tally must hold after so many rows, by a plain loop over them.

    Keys that had a value after ``migrated_from`` rows were migrated, each once.
    """
    before = {key_of(value) for value in range(migrated_from)}
    found: dict[str, dict[str, Any]] = {}
    for value in range(rows):
        key = key_of(value)
        moved = int(key in before)
        held = found.setdefault(key, {"n": 0, "amount": Decimal(0), "last": "n", "moved": moved})
        held["n"] += 1
        held["amount"] += Decimal(value).scaleb(-2)
    return found


def updates_of(rows: int) -> dict[str, int]:
    """How often the tally gave out each key: once a batch in which it came."""
    batches = range(0, rows, ROWS)
    return dict(Counter(key for at in batches for key in {key_of(v) for v in range(at, at + ROWS)}))
