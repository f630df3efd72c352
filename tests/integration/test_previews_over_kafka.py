"""A preview of a query over Kafka: its batches are read again by their offsets, from a broker."""

import json
import uuid
from typing import Annotated

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from statemigrate import NewCode, preview
from statemigrate.errors import StatemigrateError

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(900)]
BROKER, TOPIC = "", ""
Messages = Annotated[DataFrame, "key BINARY, value BINARY, partition INT, offset BIGINT"]


def opened(spark, **options):
    reader = spark.readStream.format("kafka").option("subscribe", TOPIC)
    reader = reader.option("kafka.bootstrap.servers", BROKER).options(**options)
    return reader.option("startingOffsets", "earliest").load()


def open_and_lose(spark):
    return opened(spark, failOnDataLoss="false")


def totals(messages: Messages, field="cents"):
    row = F.from_json(F.col("value").cast("string"), "k STRING, cents BIGINT, other BIGINT")
    rows = messages.select(row.alias("row")).select("row.*")
    return rows.groupBy("k").agg(F.sum(field).alias("total"))


def wrong_totals(messages: Messages):
    return totals(messages, "other")


@pytest.fixture
def topic(kafka, monkeypatch):
    """A topic of two partitions, and a function that sends a batch to it."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    name = f"previewed-{uuid.uuid4().hex}"
    quiet = {"bootstrap.servers": kafka.uri, "log_level": 0}
    admin = AdminClient(quiet)
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(60)
    monkeypatch.setitem(globals(), "BROKER", kafka.uri)
    monkeypatch.setitem(globals(), "TOPIC", name)
    producer = Producer({**quiet, "acks": "all"})

    def send(batch):
        for number in range(30):
            value = json.dumps({"k": f"k{number % 7}", "cents": batch + number, "other": 1})
            producer.produce(name, key=f"k{number % 7}", value=value)
        assert producer.flush(60) == 0

    send.admin = admin
    return send


def test_batches_are_read_again_from_a_broker_as_long_as_it_has_them(spark, topic, tmp_path):
    from confluent_kafka import TopicPartition

    checkpoint = tmp_path / "checkpoint"
    for batch in range(4):
        topic(batch)
        writer = totals(opened(spark)).writeStream.format("noop").outputMode("update")
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        assert writer.start().awaitTermination(180)

    def previewed(function, batches, opener="opened"):
        module = f"{__name__}:"
        target = NewCode(f"{module}{function}", mode="update", old_code=f"{module}totals")
        sources = {"messages": f"{module}{opener}"}
        return preview(
            checkpoint, target=target, sources=sources, batches=batches, migrations=None,
            spark=spark,
        )  # fmt: skip

    same = previewed("totals", 3)
    assert (same.noise, same.unexpected) == ((), ())
    assert sum(each.stores[0].rows for each in same.batches) == 21
    wrong = previewed("wrong_totals", 3)
    assert {name for _, *_, fields in wrong.totals() for name in fields} == {"sum", "total"}

    with pytest.raises(StatemigrateError) as raised:
        previewed("totals", 3, "open_and_lose")
    assert raised.value.code == "SM-PREVIEW-016"

    offsets = json.loads((checkpoint / "offsets" / "2").read_text().splitlines()[2])[TOPIC]
    gone = [TopicPartition(TOPIC, int(part), offset) for part, offset in offsets.items()]
    for future in topic.admin.delete_records(gone).values():
        future.result(60)
    with pytest.raises(StatemigrateError) as raised:
        previewed("totals", 3)
    assert (raised.value.code, raised.value.data["batch"]) == ("SM-PREVIEW-017", 3)
    assert previewed("totals", 1).unexpected == ()
