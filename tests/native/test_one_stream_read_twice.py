"""A query that reads one stream in two places, forked and rewritten: every key beside a twin."""

import pytest
from two_paged import Counts, Model, Tally, TwoPaged

from statemigrate import fork
from statemigrate.commands.rewrite import rewrite_checkpoint, verify
from statemigrate.errors import UnsupportedError
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = pytest.mark.spark
KEYS = 8


def rows(numbers, name="n"):
    return [(f"k{number}", 3 * number + 7, f"{name}{number % 3}") for number in numbers]


class WithAnother(TwoPaged):
    """The stream for the tally and for the counts, and then another one for the tally as well."""

    def result(self, processor, stream=None):
        tally, counts = processor
        stream = self.stream()
        both = stream.unionAll(self.other())
        tallied = both.groupBy("key").transformWithState(tally, self.output, "Update", "None")
        counted = stream.groupBy("name").transformWithState(counts, self.output, "Update", "None")
        return counted.union(tallied)

    def other(self):
        reader = self.spark.readStream.schema(self.rows).option("maxFilesPerTrigger", 1)
        return reader.parquet(f"{self.others.input}/*.parquet")


def begun(spark, root, model):
    """The stream has taken two files, and the other one five."""
    query = WithAnother(spark, root)
    query.others = TwoPaged(spark, root / "others")
    for number in range(5):
        query.others.feed(model.tallied(rows([50 + number], "other")))
        if number < 2:
            query.feed(model.add(rows(range(number, KEYS, 2))))
        query.deploy_natively((Tally(), Counts()))
    return query


class Both(Model):
    def tallied(self, rows):
        """The same rows, once they are in the tally."""
        counts = dict(self.counts)
        self.add(rows)
        self.counts = counts
        return rows


def numbers(query):
    """Spark's numbers of the tally and of the counts."""
    import json

    found = query.spark.read.format("state-metadata").load(str(query.checkpoint)).collect()
    return {
        each["stateName"]: row.operatorId
        for row in found
        for each in json.loads(row.operatorProperties)["stateVariables"]
    }


def compared(query, model):
    by_store = numbers(query)
    assert query.values("tally", None, by_store["tally"]) == model.old_tallies()
    assert query.values("counts", None, by_store["counts"]) == model.old_counts()


@pytest.mark.long
def test_a_rewrite_and_a_fork_keep_what_each_of_its_sources_has_taken(spark, tmp_path):
    model = Both()
    query = begun(spark, tmp_path / "twice", model)
    compared(query, model)
    lines = (query.checkpoint / "offsets" / "4").read_text().splitlines()[2:]
    assert sorted(lines) == ['{"logOffset":1}', '{"logOffset":1}', '{"logOffset":4}']
    assert {each.name for each in (query.checkpoint / "sources").iterdir()} == {"0", "1"}
    asked = RewriteOptions(partitions=3)
    rewrite_checkpoint(
        query.checkpoint, tmp_path / "new", options=asked, migrations=None, apply=True, spark=spark
    )
    found = verify(query.checkpoint, tmp_path / "new", migrations=None, spark=spark)
    assert found.problems == ()
    fork(query.checkpoint, tmp_path / "fork")
    for place in ("new", "fork"):
        for number in ("0", "1"):
            logs = [
                {p.name for p in (root / "sources" / number).iterdir() if p.name.isdecimal()}
                for root in (query.checkpoint, tmp_path / place)
            ]
            assert logs[0] == logs[1]
    with pytest.raises(UnsupportedError, match="reads one stream in several places") as caught:
        rewrite_checkpoint(
            query.checkpoint,
            tmp_path / "other",
            options=RewriteOptions(sources={"2": None}),
            migrations=None,
            spark=spark,
        )
    assert caught.value.code == "SM-REWRITE-063"
    query.feed(model.add(rows([1, 20])))
    query.others.feed(model.tallied(rows([2, 21], "other")))
    for place in ("new", "fork"):
        after = WithAnother(spark, query.root, checkpoint_directory=tmp_path / place)
        after.others = query.others
        after.deploy_natively((Tally(), Counts()))
        compared(after, model)


@pytest.mark.long
def test_a_fork_of_an_earlier_batch_takes_again_what_came_after_it(spark, tmp_path):
    model = Both()
    query = begun(spark, tmp_path / "twice", model)
    fork(query.checkpoint, tmp_path / "fork", at_batch=2)
    for number, last in (("0", "0123"), ("1", "0123")):
        found = {
            p.name for p in (tmp_path / "fork/sources" / number).iterdir() if p.name.isdecimal()
        }
        assert found <= set(last)
    after = WithAnother(spark, query.root, checkpoint_directory=tmp_path / "fork")
    after.others = query.others
    after.deploy_natively((Tally(), Counts()))
    compared(after, model)
