"""What the tests of seeding run: a source like Kafka's, and tables as users have them."""

from __future__ import annotations

import json

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition


class Numbers(InputPartition):
    """The rows from one offset to another."""

    def __init__(self, start, end):
        self.start, self.end = start, end


class LogReader(DataSourceStreamReader):
    """Row n of its only partition is (k<n mod 3>, n); it ends with row 9 for now."""

    def initialOffset(self):
        return {"log": {"0": 0}}

    def latestOffset(self):
        return {"log": {"0": 10}}

    def partitions(self, start, end):
        return [Numbers(start["log"]["0"], end["log"]["0"])]

    def read(self, partition):
        for n in range(partition.start, partition.end):
            yield (f"k{n % 3}", "r", n, None)

    def commit(self, end):
        pass


class LogSource(DataSource):
    """Rows of a log with numbered offsets, as those of a topic."""

    @classmethod
    def name(cls):
        return "numbered_log"

    def schema(self):
        return "k STRING, region STRING, v BIGINT, at TIMESTAMP"

    def streamReader(self, schema):
        return LogReader()


class Log:
    """A stream of `LogSource`."""

    def stream(self, spark):
        spark.dataSource.register(LogSource)
        return spark.readStream.format("numbered_log").load()


def write_json(place, rows):
    place.mkdir()
    (place / "part-0.json").write_text("\n".join(map(json.dumps, rows)))
    return place
