"""What Spark's Kafka sink gives: at least once, and once for a reader that takes the newest."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [pytest.mark.integration, pytest.mark.spark]


def test_a_batch_that_runs_again_is_in_the_topic_twice_and_the_newest_of_a_key_is_right(
    spark, kafka, tmp_path
):
    topic = f"counts-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": kafka.uri, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    (tmp_path / "words").mkdir()
    for word in ("a", "b"):
        (tmp_path / "words" / f"{word}.json").write_text(f'{{"word": "{word}"}}\n')

    def send(rows: Any, batch: int) -> None:
        value = f"to_json(struct({batch} AS batch, count))"
        keyed = rows.selectExpr("word AS key", f"{value} AS value")
        to_topic = keyed.write.format("kafka").option("topic", topic)
        to_topic.option("kafka.bootstrap.servers", kafka.uri).save()
        if not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise RuntimeError("ended between the sink and Spark's commit")

    with pytest.raises(Exception, match="ended between the sink and Spark's commit"):
        run(spark, tmp_path, send)
    (tmp_path / "words" / "c.json").write_text('{"word": "a"}\n')
    run(spark, tmp_path, send)

    sent = messages(spark, kafka.uri, topic)
    assert sorted(sent) == [
        ("a", 0, 1),
        ("a", 0, 1),
        ("a", 1, 2),
        ("b", 0, 1),
        ("b", 0, 1),
    ]
    assert {key: count for key, _, count in sorted(sent)} == {"a": 2, "b": 1}


def run(spark: Any, folder: Any, send: Any) -> None:
    words = spark.readStream.schema("word STRING").json(str(folder / "words"))
    writer = words.groupBy("word").count().writeStream.outputMode("update").foreachBatch(send)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def messages(spark: Any, servers: str, topic: str) -> list[tuple[str, int, int]]:
    """Key, batch and count of all that is in the topic."""
    reader = spark.read.format("kafka").option("subscribe", topic)
    rows = reader.option("kafka.bootstrap.servers", servers).load().collect()
    found = [(row.key.decode(), json.loads(row.value)) for row in rows]
    return [(key, value["batch"], value["count"]) for key, value in found]
