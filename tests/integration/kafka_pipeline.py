"""A query on Spark's own state whose rows come from a topic."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from control_pipeline import ControlPipeline
from support.waiting import eventually

from statemigrate import with_backfill


@dataclass
class KafkaPipeline(ControlPipeline):
    """`ControlPipeline` over a topic of its own, of two partitions, on the broker at ``kafka``."""

    kafka: str = ""
    topic: str = field(default_factory=lambda: f"tally-{uuid.uuid4().hex}")

    def __post_init__(self) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        super().__post_init__()
        # It tells of each broker that it does not reach, and the last one ends with the tests.
        quiet = {"bootstrap.servers": self.kafka, "log_level": 0}
        self._admin = AdminClient(quiet)
        self._admin.create_topics([NewTopic(self.topic, 2, 1)])[self.topic].result(60)
        self._producer = Producer({**quiet, "acks": "all"})

    def feed(self, *batches: Iterable[tuple[Any, ...]], partition: int | None = None) -> None:
        """Send the rows, to one of the partitions where it is given."""
        place = {} if partition is None else {"partition": partition}
        for key, cents, name in (row for batch in batches for row in batch):
            message = json.dumps({"key": key, "cents": cents, "name": name})
            self._producer.produce(self.topic, key=key, value=message, **place)
        assert self._producer.flush(60) == 0

    def add_partition(self) -> None:
        """Give the topic a third one."""
        from confluent_kafka.admin import NewPartitions

        self._admin.create_partitions([NewPartitions(self.topic, 3)])[self.topic].result(60)
        # The producer asks again only now and then by itself.
        eventually(lambda: len(self._producer.list_topics().topics[self.topic].partitions) == 3)

    def stream(self) -> Any:
        return with_backfill(self._rows(), self.by, checkpoint=self.checkpoint)

    def _rows(self) -> Any:
        from pyspark.sql import functions

        reader = self.spark.readStream.format("kafka").option("subscribe", self.topic)
        reader = reader.option("kafka.bootstrap.servers", self.kafka)
        messages = reader.option("startingOffsets", "earliest").load()
        row = functions.from_json(functions.col("value").cast("string"), self.rows)
        return messages.select(row.alias("row")).select("row.*")
