"""A preview of a query over Kafka: its batches are read again by their offsets, from a broker."""

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Annotated

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from statemigrate import NewCode, open_state, preview
from statemigrate.commands.rewrite import rewrite_checkpoint, verify
from statemigrate.errors import StatemigrateError
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(900)]
BROKER, TOPIC = "", ""
Messages = Annotated[DataFrame, "key BINARY, value BINARY, partition INT, offset BIGINT"]


def opened(spark, **options):
    reader = spark.readStream.format("kafka").option("subscribe", TOPIC)
    reader = reader.option("kafka.bootstrap.servers", BROKER).options(**options)
    return reader.option("startingOffsets", "earliest").load()


def open_and_lose(spark):
    return opened(spark, failOnDataLoss="false")


def rows_of(messages):
    row = F.from_json(F.col("value").cast("string"), "k STRING, cents BIGINT, other BIGINT")
    return messages.select(row.alias("row")).select("row.*")


def totals(messages: Messages, field="cents"):
    return rows_of(messages).groupBy("k").agg(F.sum(field).alias("total"))


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


def totals_and_largest(messages: Messages):
    return rows_of(messages).groupBy("k").agg(F.sum("cents"), F.max("cents"))


@pytest.fixture
def real_time(spark, topic):
    """Runs a query in real-time mode up to a batch, and sends messages meanwhile."""
    jars = spark.conf.get("spark.jars")
    job = str(Path(__file__).with_name("real_time_kafka_job.py"))
    sent = []

    def run(checkpoint, function, last):
        arguments = [BROKER, TOPIC, str(checkpoint), jars, function, str(last)]
        running = subprocess.Popen([sys.executable, job, *arguments])
        try:
            while running.poll() is None:
                topic(len(sent))
                sent.append(len(sent))
                time.sleep(1)
        finally:
            running.kill()
            running.wait()
        assert running.returncode == 0

    run.sent = sent
    return run


def test_an_aggregation_in_real_time_mode_is_previewed_and_rewritten(
    spark, topic, real_time, tmp_path
):
    old, new = tmp_path / "old", tmp_path / "new"
    real_time(old, "totals", 3)
    module = f"{__name__}:"
    opener = {"messages": f"{module}opened"}

    def previewed(function):
        target = NewCode(f"{module}{function}", mode="update", old_code=f"{module}totals")
        return preview(old, target=target, sources=opener, batches=3, migrations=None, spark=spark)

    same = previewed("totals")
    assert (same.noise, same.unexpected) == ((), ())
    assert [each.stores[0].rows for each in same.batches] == [7, 7, 7]
    wrong = previewed("wrong_totals")
    assert {name for _, *_, fields in wrong.totals() for name in fields} == {"sum", "total"}

    target = NewCode(f"{module}totals_and_largest", mode="update", old_code=f"{module}totals")
    rewrite_checkpoint(
        old,
        new,
        target=target,
        options=RewriteOptions(partitions=3),
        answers=RewriteAnswers(accept_new=True),
        migrations=None,
        apply=True,
        spark=spark,
    )
    assert verify(old, new, spark=spark).problems == ()
    real_time(new, "totals_and_largest", 6)
    # Whatever is left goes through batches of the usual kind, on either checkpoint.
    for checkpoint, function in ((new, totals_and_largest), (old, totals)):
        writer = function(opened(spark)).writeStream.format("noop").outputMode("update")
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        assert writer.start().awaitTermination(180)
        rows = open_state(checkpoint, migrations=None)["aggregation-0"].to_arrow().to_pylist()
        assert {row["k"]: row["sum"] for row in rows} == {
            f"k{key}": sum(
                batch + number
                for batch in real_time.sent
                for number in range(30)
                if number % 7 == key
            )
            for key in range(7)
        }
