"""Queries fed file by file and run batch by batch, with nothing but PySpark, of any line."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

DDL = "k STRING, region STRING, v BIGINT, at TIMESTAMP"


class Feed:
    """A folder with one JSON file for each batch."""

    def __init__(self, folder: Path, ddl: str = DDL) -> None:
        self.folder = folder
        self.ddl = ddl
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, *batches):
        for rows in batches:
            number = len(list(self.folder.iterdir()))
            path = self.folder / f"{number:04d}.json"
            hidden = self.folder / f".{number}"
            hidden.write_text("\n".join(json.dumps(row) for row in rows))
            # Spark takes the oldest file first.
            os.utime(hidden, (1_700_000_000 + number,) * 2)
            hidden.rename(path)

    def stream(self, spark):
        reader = spark.readStream.schema(self.ddl).option("maxFilesPerTrigger", 1)
        return reader.json(f"{self.folder}/*.json")


def rows_of(*rows):
    """Rows of `DDL` from tuples (k, v), or (k, v, second of the event time)."""
    return [
        {"k": row[0], "region": f"r{row[1] % 3}", "v": row[1], "at": moment(row[2])}
        if len(row) > 2
        else {"k": row[0], "region": f"r{row[1] % 3}", "v": row[1]}
        for row in rows
    ]


def late_batch(number):
    """Rows of five minutes, some of them late by a little and some by much."""
    start = number * 60
    near = [(f"k{n % 9}", n * number, start + n * 2) for n in range(1, 25)]
    late = [(f"k{n}", n, max(0, start - 25 - n)) for n in range(4)]
    too_late = [("k1", 1000, 0)]
    unseen = [(f"n{number}-{n}", n, start + 30 + n) for n in range(3)]
    return rows_of(*near, *late, *too_late, *unseen)


def moment(second):
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


def run(spark, feeds, code, checkpoint, mode="update"):
    """Run ``code`` on all that is fed; return the rows of each batch that was not run before."""
    feeds = feeds if isinstance(feeds, list) else [feeds]
    given: dict[int, Counter] = {}

    def collect(rows, batch):
        given[batch] = Counter(str(row) for row in rows.collect())

    result = code(*[feed.stream(spark) for feed in feeds])
    writer = result.writeStream.outputMode(mode).foreachBatch(collect)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination(180)
    assert not query.isActive
    return given
