"""A query for each of Spark's stateful operators, as tests run them a few batches at a time."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support.sessions import temporary_settings

SETTINGS = "spark.sql.streaming."
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
PROVIDER = "stateStore.providerClass"
CHANGELOG = "stateStore.rocksdb.changelogCheckpointing.enabled"
IDS = "stateStore.checkpointFormatVersion"
OPERATORS = [
    "aggregation",
    "windows",
    "no keys",
    "deduplicate",
    "deduplicate within watermark",
    "sessions",
    "join",
    "limit",
    "groups",
]
"""Spark's own operators, each in every provider."""
CHECKED = {"stateStore.rowChecksum.enabled": "true"}
WAYS = {
    "hdfs": {PROVIDER: HDFS},
    "rocksdb": {PROVIDER: ROCKSDB},
    "changelogs": {PROVIDER: ROCKSDB, CHANGELOG: "true"},
    "rocksdb with ids": {PROVIDER: ROCKSDB, IDS: "2"},
    "changelogs with ids": {
        PROVIDER: ROCKSDB,
        CHANGELOG: "true",
        IDS: "2",
        "stateStore.minDeltasForSnapshot": "2",
    },
}
"""How Spark may keep the state of a query: the settings of each way."""
ROWS = "k STRING, n BIGINT, at TIMESTAMP"
START = dt.datetime(2026, 1, 1)


def rows(batch: int, count: int = 12) -> list[dict[str, Any]]:
    """The input of a batch: keys that come again, some of them late, a null, and an empty text."""
    keys = ["", "a", "bb", "ccc", "ключ", None, "z" * 40]
    return [
        {
            "k": keys[(number * 5 + batch) % len(keys)],
            "n": batch * 100 + number,
            "at": (
                START + dt.timedelta(seconds=batch * 20 + number - 9 * (number % 3))
            ).isoformat(),
        }
        for number in range(count)
    ]


def aggregation(read: Callable[[str], Any]) -> Any:
    from pyspark.sql import functions as f

    return read("one").groupBy("k").agg(f.count("*"), f.sum("n"), f.max("at"))


def windows(read: Callable[[str], Any]) -> Any:
    from pyspark.sql import functions as f

    stream = read("one").withWatermark("at", "10 seconds")
    return stream.groupBy(f.window("at", "10 seconds"), "k").agg(f.avg("n"), f.collect_list("n"))


def no_keys(read: Callable[[str], Any]) -> Any:
    return read("one").groupBy().count()


def deduplicate(read: Callable[[str], Any]) -> Any:
    return read("one").dropDuplicates(["k"])


def deduplicate_within_watermark(read: Callable[[str], Any]) -> Any:
    return read("one").withWatermark("at", "10 seconds").dropDuplicatesWithinWatermark(["k"])


def sessions(read: Callable[[str], Any]) -> Any:
    from pyspark.sql import functions as f

    stream = read("one").withWatermark("at", "10 seconds")
    return stream.groupBy(f.session_window("at", "5 seconds"), "k").agg(f.sum("n"))


def join(read: Callable[[str], Any]) -> Any:
    from pyspark.sql import functions as f

    left = read("one").withWatermark("at", "10 seconds")
    right = read("two").withWatermark("at", "10 seconds")
    right = right.select(*(f.col(name).alias(f"right_{name}") for name in ("k", "n", "at")))
    condition = "k = right_k AND right_at >= at AND right_at <= at + interval 10 seconds"
    return left.join(right, f.expr(condition), "leftOuter")


def limit(read: Callable[[str], Any]) -> Any:
    return read("one").limit(30)


def groups(read: Callable[[str], Any]) -> Any:
    from pyspark.sql.streaming.state import GroupStateTimeout

    stream = read("one").withWatermark("at", "10 seconds")
    timeout = GroupStateTimeout.EventTimeTimeout
    return stream.groupBy("k").applyInPandasWithState(
        _counted, "k STRING, n BIGINT", "n BIGINT, last STRING", "Update", timeout
    )


def _counted(key: Any, frames: Any, state: Any) -> Iterator[Any]:
    import pandas as pd

    n, last = state.get if state.exists else (0, "")
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "n": [-n]})
        return
    for frame in frames:
        n, last = n + len(frame), str(frame["n"].iloc[-1])
    state.update((n, last))
    state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 30_000)
    yield pd.DataFrame({"k": [key[0]], "n": [n]})


def variables(read: Callable[[str], Any]) -> Any:
    from state_processors import Everything

    stream = read("one").withWatermark("at", "10 seconds")
    out = "k STRING, n BIGINT, seen STRING"
    return stream.groupBy("k").transformWithState(Everything(), out, "Append", "EventTime")


def expiring(read: Callable[[str], Any]) -> Any:
    from state_processors import Expiring

    out = "k STRING, n BIGINT, seen STRING"
    processor = Expiring()
    return read("one").groupBy("k").transformWithState(processor, out, "Append", "ProcessingTime")


QUERIES: dict[str, Callable[[Callable[[str], Any]], Any]] = {
    "aggregation": aggregation,
    "windows": windows,
    "no keys": no_keys,
    "deduplicate": deduplicate,
    "deduplicate within watermark": deduplicate_within_watermark,
    "sessions": sessions,
    "join": join,
    "limit": limit,
    "groups": groups,
    "variables": variables,
    "expiring": expiring,
}
_BY_THE_CLOCK = {"expiring"}
"""Queries that run batches as long as they are let, since a timer may end at any moment."""
_UPDATE = {"aggregation", "no keys", "groups"}


class StateQuery:
    """A query that reads one file a batch, below ``root``, and remembers what it gave out.

    ``settings`` are Spark's, without the ``spark.sql.streaming.`` that they begin with.
    """

    def __init__(self, spark: Any, root: Path, name: str, checkpoint: Path | None = None) -> None:
        self.spark, self.root, self.name = spark, Path(root), name
        self.checkpoint = checkpoint or self.root / "checkpoint"
        self.output: dict[int, list[Any]] = {}

    def feed(self, batch: int) -> None:
        """Put one more file into each of the sources."""
        for source in ("one", "two"):
            folder = self.root / source
            folder.mkdir(parents=True, exist_ok=True)
            found = rows(batch + (source == "two"))
            file = folder / f"{batch:04}.json"
            file.write_text("\n".join(map(json.dumps, found)))
            # The source takes files in the order of their times, which else may be the same.
            os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))

    def run(self, **settings: str) -> None:
        """Process everything that is there, a file of each source a batch, then stop."""
        whole = {f"{SETTINGS}{name}": value for name, value in settings.items()}
        with temporary_settings(self.spark, whole):
            self._run()

    def _run(self) -> None:
        result = QUERIES[self.name](self._stream)
        mode = "update" if self.name in _UPDATE else "append"
        writer = result.writeStream.outputMode(mode).foreachBatch(self._sink)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        if self.name in _BY_THE_CLOCK:
            query = writer.start()
            while query.isActive and not (self.checkpoint / "commits" / "5").exists():
                time.sleep(0.1)
            query.stop()
            return
        writer.trigger(availableNow=True).start().awaitTermination()

    def _stream(self, source: str) -> Any:
        reader = self.spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.root / source))

    def _sink(self, frame: Any, batch: int) -> None:
        self.output[batch] = sorted(map(repr, frame.collect()))


AVRO = {"stateStore.encodingFormat": "avro"}
COMMAS = {"stateStore.rocksdb.mergeOperatorVersion": "1"}
ON_ROCKSDB = ["rocksdb", "changelogs", "rocksdb with ids", "changelogs with ids"]
CASES = [
    *((name, way, {}) for name in OPERATORS for way in ("hdfs", "rocksdb")),
    *((name, "changelogs with ids", {}) for name in ("aggregation", "join", "sessions")),
    *((name, "rocksdb with ids", CHECKED) for name in ("windows", "groups")),
    ("aggregation", "hdfs", {"aggregation.stateFormatVersion": "1"}),
    ("windows", "hdfs", CHECKED),
    *(("join", way, {"join.stateFormatVersion": "3"}) for way in ON_ROCKSDB),
    *(("join", way, {"join.stateFormatVersion": "4"}) for way in ON_ROCKSDB),
    ("join", "changelogs", CHECKED | {"join.stateFormatVersion": "4"}),
    *itertools.product(("variables", "expiring"), ON_ROCKSDB, ({}, AVRO)),
    *itertools.product(("variables", "expiring"), ("rocksdb", "changelogs"), (CHECKED, COMMAS)),
    ("expiring", "changelogs with ids", AVRO | CHECKED | COMMAS),
]
"""Each operator, provider, encoding, checkpoint format and state format that there is."""


def case_name(case):
    """A name for a case of the tests."""
    name, way, settings = case
    return "-".join([name, way, *(f"{n}={v}" for n, v in settings.items())]).replace(" ", "_")
