"""A checkpoint of each line of Spark, rewritten, goes on as its twin, there and on a newer one."""

import shutil

import pytest
import rewritten_code as code
import variables_code
from rewritten_queries import (
    PROVIDER,
    PROVIDERS,
    Feed,
    accepting,
    late_batch,
    rewritten,
    run,
    session_with,
)
from support.sessions import spark_version

from statemigrate.commands.rewrite import verify
from statemigrate.errors import CheckpointError

pytestmark = [pytest.mark.spark, pytest.mark.compat]

OPERATORS = {
    "aggregation": (code.totals, "update"),
    "windows": (code.windows, "append"),
    "distinct": (code.distinct, "append"),
    "distinct for a while": (code.distinct_for_a_while, "append"),
    "sessions": (code.sessions, "append"),
    "join": (code.pairs, "append"),
    "limit": (code.first_ten, "append"),
    "groups": (code.groups, "update"),
    "two operators": (code.distinct_then_windows, "append"),
}
WAYS = ["hdfs rocksdb", "rocksdb hdfs"]
VARIABLES = {
    "values, a list, a map": (variables_code.variables, "update"),
    "timers": (variables_code.alarms, "append"),
}
FORMAT_1 = {"spark.sql.streaming.aggregation.stateFormatVersion": "1"}


class Deployed:
    """A query on another Spark, and its checkpoint, which a rewrite takes to a new one."""

    def __init__(self, other, folder, function, mode, before, **conf):
        self.other, self.folder, self.function, self.mode = other, folder, function, mode
        names = ["input", "others"] if function is code.pairs else ["input"]
        self.feeds = [Feed(folder / each) for each in names]
        self.conf = {PROVIDER: PROVIDERS[before].class_name, **conf}
        self.fed = 0
        self.feed(3)
        self.run(function, "old")

    def feed(self, batches):
        for _ in range(batches):
            self.fed += 1
            for each in self.feeds:
                each.add(late_batch(self.fed))

    def run(self, function, checkpoint):
        """What each batch gives, on the other Spark."""
        named = f"{function.__module__}:{function.__name__}"
        place = self.folder / checkpoint
        return self.other.run(self.feeds, named, place, self.mode, self.conf)

    def rewrite(self, spark, after, *arguments, **options):
        conf = {PROVIDER: PROVIDERS[after].class_name}
        old, new = self.folder / "old", self.folder / "new"
        made = rewritten(spark, old, new, *arguments, partitions=3, conf=conf, **options)
        assert verify(old, new, spark=spark).problems == ()
        shutil.copytree(new, self.folder / "newer")
        return made

    def goes_on(self, spark, line):
        """Two starts later it has given what the twin has, there and on the tests' own Spark."""
        for batches in (2, 1):
            self.feed(batches)
            expected = self.run(self.function, "old")
            assert self.run(self.function, "new") == expected
            if line != spark_version():
                session = session_with(spark, "hdfs")
                place = self.folder / "newer"
                assert run(session, self.feeds, self.function, place, self.mode) == expected
            assert sum(map(len, expected.values())) > 0 or self.function is code.first_ten


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operator", list(OPERATORS))
def test_an_operator_goes_on(spark, other, line, tmp_path, operator, way):
    before, after = way.split()
    deployed = Deployed(other, tmp_path, *OPERATORS[operator], before)
    deployed.rewrite(spark, after)
    deployed.goes_on(spark, line)


@pytest.mark.parametrize("way", WAYS)
def test_an_aggregation_of_state_format_1_goes_on(spark, other, line, tmp_path, way):
    before, after = way.split()
    deployed = Deployed(other, tmp_path, code.totals, "update", before, **FORMAT_1)
    if line < (4, 0):
        # dropDuplicates of old releases may have written the same schemas.
        with pytest.raises(CheckpointError, match="does not say which operator it is of"):
            deployed.rewrite(spark, after)
        return
    deployed.rewrite(spark, after)
    deployed.goes_on(spark, line)


@pytest.mark.parametrize("variables", list(VARIABLES))
def test_variables_go_on(spark, other, line, tmp_path, variables):
    if line < (4, 0):
        pytest.skip("transformWithState came with Spark 4.0")
    deployed = Deployed(other, tmp_path, *VARIABLES[variables], "rocksdb")
    deployed.rewrite(spark, "rocksdb")
    deployed.goes_on(spark, line)


@pytest.mark.parametrize("way", WAYS)
def test_an_aggregation_has_one_column_more(spark, other, line, tmp_path, way):
    before, after = way.split()
    deployed = Deployed(other, tmp_path, code.totals, "update", before)
    start = accepting(start={"aggregation-0.max": -1})
    deployed.rewrite(spark, after, code.totals_and_largest, before=code.totals, answers=start)
    largest = {}
    for batches in (2, 1):
        first = deployed.fed + 1
        deployed.feed(batches)
        twin = deployed.run(code.totals, "old")
        found = deployed.run(code.totals_and_largest, "new")
        assert sorted(found) == sorted(twin)
        for number, batch in enumerate(sorted(twin), start=first):
            for row in late_batch(number):
                largest[row["k"]] = max(row["v"], largest.get(row["k"], -1))
            assert found[batch] == {
                f"{row[:-1]}, largest={largest[row.split(chr(39))[1]]})": count
                for row, count in twin[batch].items()
            }
