"""A query over a topic goes on from its rewritten checkpoint at the message where it stopped."""

import json
import uuid
from collections import Counter

import pytest
from pyspark.sql import functions as F  # noqa: N812

from statemigrate import fork
from statemigrate.commands.new_code import NewCode
from statemigrate.commands.rewrite import rewrite_checkpoint, verify
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = [pytest.mark.integration, pytest.mark.spark]

KEYS = [b"a", "\N{SNOWMAN}".encode(), b"\xff\xfe", b"\xff\xfd", None]
"""Two of them are no UTF-8 and differ by one bit; a message may have no key."""
DDL = "k STRING, v BIGINT"


def totals(events):
    return events.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))


def totals_and_largest(events):
    return events.groupBy("k").agg(
        F.max("v").alias("largest"), F.count("*").alias("n"), F.sum("v").alias("total")
    )


class Topic:
    """A topic of two partitions, and the messages that it was sent."""

    def __init__(self, uri):
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        self.uri, self.name = uri, f"totals-{uuid.uuid4().hex}"
        quiet = {"bootstrap.servers": uri, "log_level": 0}
        admin = AdminClient(quiet)
        admin.create_topics([NewTopic(self.name, 2, 1)])[self.name].result(60)
        self._producer = Producer({**quiet, "acks": "all"})
        self.sent = []

    def feed(self, count):
        for value in range(len(self.sent), len(self.sent) + count):
            key = KEYS[value % len(KEYS)]
            self._producer.produce(self.name, key=key, value=str(value), partition=value % 2)
            self.sent.append((key, value))
        assert self._producer.flush(60) == 0

    def stream(self, spark):
        reader = spark.readStream.format("kafka").option("subscribe", self.name)
        reader = reader.option("kafka.bootstrap.servers", self.uri)
        messages = reader.option("startingOffsets", "earliest").load()
        return messages.select(
            F.col("key").cast("string").alias("k"),
            F.col("value").cast("string").cast("bigint").alias("v"),
        )


@pytest.fixture
def topic(kafka):
    return Topic(kafka.uri)


def run(spark, topic, function, checkpoint):
    """Run the query on what it was not fed yet; return the rows that it gave, keys as bytes."""
    seen = []

    def take(rows, _):
        seen.extend(rows.withColumn("k", F.col("k").cast("binary")).collect())

    query = (
        function(topic.stream(spark))
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(take)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return {None if row.k is None else bytes(row.k): row.asDict() | {"k": None} for row in seen}


def offsets(checkpoint):
    """The line of the newest batch that says up to where the topic was read."""
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda each: int(each.name))
    return json.loads(newest.read_text().splitlines()[2])


def test_no_message_is_read_twice_or_passed_over_after_a_rewrite_or_a_fork(spark, topic, tmp_path):
    old, new, forked, twin = (tmp_path / name for name in ("old", "new", "forked", "twin"))
    topic.feed(41)
    run(spark, topic, totals, old)
    topic.feed(12)
    run(spark, topic, totals, old)
    code = {each: f"{__name__}:{each.__name__}" for each in (totals, totals_and_largest)}
    target = NewCode(code[totals_and_largest], {"events": DDL}, old_code=code[totals])
    made = rewrite_checkpoint(
        old,
        new,
        target=target,
        options=RewriteOptions(partitions=3),
        answers=RewriteAnswers(accept_new=True),
        migrations=None,
        apply=True,
        spark=spark,
    )
    assert made.report.families[0].total.count == len(KEYS)
    assert verify(old, new, spark=spark).problems == ()
    fork(old, forked, at_batch=0)
    assert offsets(new) == offsets(old) != offsets(forked)

    topic.feed(23)
    found, expected = (run(spark, topic, totals_and_largest, each) for each in (new, twin))
    assert len(expected) == len(KEYS)
    # The rows of before the rewrite have no largest one, and the last of each key is the largest.
    assert found == expected
    counts, sums = Counter(), Counter()
    for key, value in topic.sent:
        counts[key] += 1
        sums[key] += value
    model = {key: {"k": None, "n": counts[key], "total": sums[key]} for key in KEYS}
    assert run(spark, topic, totals, forked) == run(spark, topic, totals, old) == model
    assert offsets(new) == offsets(old) == offsets(forked)
