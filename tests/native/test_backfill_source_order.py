"""Where the backfill source stands among a query's sources: Spark goes on by their order alone."""

import json

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from statemigrate import CheckpointError, init, migrated, open_state, stateful
from statemigrate.native.adoption import undo_adoption

pytestmark = [pytest.mark.spark, pytest.mark.long]
OUTPUT = "k STRING, n BIGINT, sum BIGINT"
SCRIPT = """
from statemigrate import Struct

revision = "aaaa11112222"
down_revision = None
branch_labels = ("total",)
store = "total"
old = Struct("n BIGINT, sum BIGINT")
new = Struct("n BIGINT, total BIGINT")


def upgrade(value):
    return {"n": value["n"], "total": value["sum"]}
"""


class Totals(StatefulProcessor):
    """Adds up what a key has: a row that is read twice shows."""

    variable, fields = "total", "n BIGINT, sum BIGINT"

    def init(self, handle):
        self.total = handle.getValueState(self.variable, self.fields)

    def handleInputRows(self, key, rows, timerValues):
        n, total = self.total.get() if self.total.exists() else (0, 0)
        for row in rows:
            n, total = n + 1, total + row.v
        self.total.update((n, total))
        yield Row(k=str(key[0]), n=n, sum=total)

    def close(self):
        pass


class NewTotals(Totals):
    fields = "n BIGINT, total BIGINT"


class Others(Totals):
    variable = "other"


class Query:
    """Two operators, each on a stream of its own, whose outputs are one stream."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.checkpoint = spark, folder, folder / "checkpoint"
        self.batches = 0

    def feed(self):
        for name in ("a", "b"):
            place = self.folder / name
            place.mkdir(parents=True, exist_ok=True)
            rows = [{"k": f"k{n % 5}", "g": n % 3, "v": n + self.batches} for n in range(20)]
            (place / f"{self.batches}.json").write_text("\n".join(map(json.dumps, rows)))
        self.batches += 1

    def stream(self, name):
        schema = "k STRING, g BIGINT, v BIGINT"
        return self.spark.readStream.schema(schema).json(str(self.folder / name))

    def plain(self, name, by, processor):
        return self.stream(name).groupBy(by).transformWithState(processor, OUTPUT, "Update", "None")

    def live(self, name, by, processor, scripts, number):
        return stateful(
            self.stream(name),
            by=by,
            processor=processor,
            output=OUTPUT,
            checkpoint=self.checkpoint,
            migrations=scripts,
            operator=number,
        )

    def run(self, result):
        writer = result.writeStream.format("noop").outputMode("update")
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)

    def refused(self, result):
        before = sorted(each.name for each in (self.checkpoint / "offsets").glob("[0-9]*"))
        with pytest.raises(StreamingQueryException, match="SM-BACKFILL-017") as caught:
            self.run(result)
        after = sorted(each.name for each in (self.checkpoint / "offsets").glob("[0-9]*"))
        assert before == after, "no batch has begun"
        return str(caught.value)

    def sums(self, migrations=None):
        """Each store's counts and sums, whatever their fields are called."""
        state = open_state(self.checkpoint, migrations=migrations)
        return {
            name: sorted(tuple(row.values())[:3] for row in state[name].to_arrow().to_pylist())
            for name in state.stores
        }

    @property
    def expected(self):
        """Each row once, by both keys."""
        rows = [(n, n + batch) for batch in range(self.batches) for n in range(20)]
        found = {"total": {}, "other": {}}
        for number, value in rows:
            for store, key in (("total", f"k{number % 5}"), ("other", number % 3)):
                count, total = found[store].get(key, (0, 0))
                found[store][key] = (count + 1, total + value)
        return {
            store: sorted((key, *each) for key, each in keys.items())
            for store, keys in found.items()
        }


@pytest.fixture
def query(spark, tmp_path):
    return Query(spark, tmp_path)


@pytest.fixture
def migrations(tmp_path):
    init(migrations=tmp_path / "migrations")
    (tmp_path / "migrations" / "versions" / "aaaa11112222_total.py").write_text(SCRIPT)
    return tmp_path / "migrations"


def both(query):
    return query.plain("a", "k", Totals()).union(query.plain("b", "g", Others()))


def test_a_query_with_a_source_behind_it_is_stopped_before_it_reads_a_row_twice(query, migrations):
    for _ in range(2):
        query.feed()
        query.run(both(query))
    query.feed()
    live = query.live("a", "k", NewTotals(), migrations, 0)
    text = query.refused(live.union(query.plain("b", "g", Others())))
    assert f"{query.checkpoint} --prepare --undo --apply" in text
    undo_adoption(str(query.checkpoint), apply=True, wait=0)
    touched = migrated(NewTotals(), migrations=migrations, checkpoint=query.checkpoint, operator=0)
    query.run(query.plain("a", "k", touched).union(query.plain("b", "g", Others())))
    assert query.sums(migrations) == query.expected


def test_two_operators_with_a_backfill_source_each_are_refused(query, migrations):
    query.feed()
    query.run(both(query))
    query.feed()
    live = query.live("a", "k", NewTotals(), migrations, 0)
    query.refused(live.union(query.live("b", "g", Others(), migrations, 1)))


def test_behind_the_querys_own_sources_it_goes_on_where_each_has_been(query, migrations):
    for _ in range(2):
        query.feed()
        query.run(both(query))
    query.feed()
    query.run(query.plain("a", "k", Totals()).union(query.live("b", "g", Others(), migrations, 1)))
    query.feed()
    query.run(query.plain("a", "k", Totals()).union(query.live("b", "g", Others(), migrations, 1)))
    assert query.sums() == query.expected


def test_a_stream_that_sql_names_by_with_counts_once(query, migrations):
    (migrations / "versions" / "aaaa11112222_total.py").unlink()

    def beside(tallied):
        query.stream("b").createOrReplaceTempView("b")
        text = "WITH own AS (SELECT * FROM b) SELECT * FROM own"
        other = query.spark.sql(text).groupBy("g")
        other = other.transformWithState(Others(), OUTPUT, "Update", "None")
        return other.union(tallied)

    query.feed()
    query.run(beside(query.plain("a", "k", Totals())))
    for _ in range(2):
        query.feed()
        query.run(beside(query.live("a", "k", Totals(), migrations, 1)))
    assert query.sums() == query.expected


def test_a_new_query_is_refused_too_since_its_next_start_would_not_find_the_source(
    query, migrations
):
    query.feed()
    (migrations / "versions" / "aaaa11112222_total.py").unlink()
    first = query.live("a", "k", Totals(), migrations, None)
    query.refused(first.union(query.plain("b", "g", Others())))
    query.run(query.plain("b", "g", Others()).union(first))
    assert query.sums() == query.expected


def test_a_query_that_reads_one_stream_twice_is_refused_and_migrates_as_it_is_advised(
    query, migrations
):
    def twice(processor):
        stream = query.stream("a")
        every = stream.union(stream.where("g = 1"))
        return every.groupBy("k").transformWithState(processor, OUTPUT, "Update", "None")

    for _ in range(2):
        query.feed()
        query.run(twice(Totals()))
    query.feed()
    stream = query.stream("a")
    with pytest.raises(CheckpointError) as refused:
        stateful(
            stream.union(stream.where("g = 1")),
            by="k",
            processor=NewTotals(),
            output=OUTPUT,
            checkpoint=query.checkpoint,
            migrations=migrations,
        )
    assert refused.value.code == "SM-BACKFILL-009"
    assert "reads one stream twice" in refused.value.next_action
    query.run(twice(migrated(NewTotals(), migrations=migrations, checkpoint=query.checkpoint)))
    rows = [(n, n + batch) for batch in range(query.batches) for n in range(20)]
    rows += [each for each in rows if each[0] % 3 == 1]
    expected = {
        f"k{k}": (len(own), sum(own))
        for k in range(5)
        for own in [[value for n, value in rows if n % 5 == k]]
    }
    assert query.sums(migrations)["total"] == sorted((k, *each) for k, each in expected.items())
