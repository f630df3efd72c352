"""Code for a query whose sources have names: `plan` and `rewrite` run it on streams with these."""

from collections import Counter

import planned_code as code
import pytest
from fed_queries import Feed
from rewritten_queries import rows_of, session_with
from support.sessions import spark_version

from statemigrate import NewCode, RewriteOptions, open_state, plan, rewrite

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif(spark_version() < (4, 3), reason="Spark keeps the names from 4.3 on"),
]
NAMED = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


class Named(Feed):
    def __init__(self, folder, name):
        super().__init__(folder)
        self.name = name

    def stream(self, spark):
        reader = spark.readStream.name(self.name).schema(self.ddl)
        return reader.option("maxFilesPerTrigger", 1).json(f"{self.folder}/*.json")


@pytest.fixture(scope="module")
def named(spark):
    return session_with(spark, "rocksdb", **{NAMED: "true"})


def run(query, mode, checkpoint):
    writer = query.writeStream.format("noop").outputMode(mode)
    writer = writer.option("checkpointLocation", str(checkpoint))
    started = writer.trigger(availableNow=True).start()
    started.awaitTermination(180)
    assert not started.isActive


def new_code(function, mode):
    return NewCode(f"planned_code:{function}", mode=mode, old_code=f"planned_code:{function}")


def test_a_query_with_a_named_source_is_planned_and_rewritten(named, tmp_path):
    feed, old, new = Named(tmp_path / "in", "tally"), tmp_path / "old", tmp_path / "new"
    rows = rows_of(*((f"k{n % 7}", n + 1) for n in range(40)))
    feed.add(rows)
    run(code.deployed(feed.stream(named)), "update", old)
    wanted = new_code("deployed", "update")
    found = plan(str(old), target=wanted, migrations=None, spark=named)
    assert [(each.name, each.verdict) for each in found.items] == [
        ("source tally", "same"),
        ("aggregation-0", "same"),
    ]
    options = RewriteOptions(partitions=3)
    made = rewrite(
        old, new, target=wanted, options=options, migrations=None, spark=named, apply=True
    )
    assert not made.plan.questions
    feed.add(rows)
    run(code.deployed(feed.stream(named)), "update", new)
    counts = Counter(each["k"] for each in (*rows, *rows))
    table = open_state(new, spark=named)["aggregation-0"].to_arrow().to_pylist()
    assert {each["k"]: each["count"] for each in table} == counts


def test_of_two_sources_a_parameter_stands_for_the_one_of_its_name(named, tmp_path):
    left, right = Named(tmp_path / "l", "left"), Named(tmp_path / "r", "right")
    for feed in (left, right):
        feed.add(rows_of(("k", 1, 1)))
    run(code.joined(left.stream(named), right.stream(named)), "append", tmp_path / "cp")
    for function in ("joined", "joined_the_other_way_round"):
        wanted = NewCode(f"planned_code:{function}", mode="append", old_code="planned_code:joined")
        found = plan(str(tmp_path / "cp"), target=wanted, migrations=None, spark=named)
        sources = {each.name: each.verdict for each in found.items if "source" in each.name}
        assert sources == {"source left": "same", "source right": "same"}
