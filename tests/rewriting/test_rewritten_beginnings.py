"""Variables after a query's first batch, which has no batch before it, and what sinks note."""

import json

import pytest
import rewritten_code as code
from rewritten_queries import raw_state, rewritten, rows_of, run, session_with
from variables_code import variables

from statemigrate.checkpoint.shape import describe
from statemigrate.commands.rewrite import verify
from statemigrate.files.open import open_files

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]


def test_variables_go_on_after_the_first_batch_alone(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    old, new = tmp_path / "old", tmp_path / "new"
    feed.add(rows_of(*[(f"k{n % 4}", n) for n in range(12)]))
    run(session, feed, variables, old)
    assert describe(open_files(str(old))).batch == 0
    rewritten(spark, old, new, partitions=5)
    assert raw_state(session, new) == raw_state(session, old)
    assert verify(old, new, spark=spark).problems == ()
    for number in range(2):
        feed.add(rows_of(("k1", 100 + number), ("k3", 7), ("new", number)))
        assert run(session, feed, variables, new) == run(session, feed, variables, old)


def run_named(session, feed, checkpoint):
    """Run totals into a sink that has a name, which Spark notes with each commit."""
    given = {}

    def collect(rows, batch):
        given[batch] = sorted(map(str, rows.collect()))

    writer = code.totals(feed.stream(session)).writeStream.outputMode("update")
    writer = writer.foreachBatch(collect).option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(availableNow=True)
    # Python has no function of its own for it in 4.3.
    writer._jwrite = writer._jwrite.name("totals")
    writer.start().awaitTermination(180)
    return given


def sinks_of(checkpoint, batch):
    version, text = (checkpoint / "commits" / str(batch)).read_text().split("\n")
    return version, list(json.loads(text)["sinkMetadataMap"])


def test_what_a_sink_has_noted_goes_along(spark, feed, tmp_path):
    evolution = "spark.sql.streaming.queryEvolution.enableSinkEvolution"
    session = session_with(spark, "rocksdb", **{evolution: "true"})
    old, new = tmp_path / "old", tmp_path / "new"
    feed.add(rows_of(("a", 1), ("b", 2)), rows_of(("a", 3)))
    run_named(session, feed, old)
    rewritten(spark, old, new, partitions=3)
    assert sinks_of(new, 1) == sinks_of(old, 1) == ("v3", ["totals"])
    for value in (4, 5):
        feed.add(rows_of(("b", value), ("c", 1)))
        assert run_named(session, feed, new) == run_named(session, feed, old)
    assert sinks_of(new, 3) == ("v3", ["totals"])
