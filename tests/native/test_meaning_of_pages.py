"""What state on pages means: its key, and the columns that its processor gets."""

import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

from statemigrate import paged
from statemigrate.deployment.code import only_looking
from statemigrate.meaning import compare_code
from statemigrate.meaning.guard import stream_meaning

pytestmark = pytest.mark.spark


class Totals(StatefulProcessor):
    def init(self, handle):
        self.total = handle.getValueState("total", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        raise NotImplementedError

    def close(self):
        pass


@pytest.fixture
def changes(spark, tmp_path):
    """What is found when the rows, and the columns of the key, become others."""
    (tmp_path / "in").mkdir()
    rows = spark.readStream.schema("k STRING, region STRING, v BIGINT, at TIMESTAMP")
    stream = rows.json(f"{tmp_path}/in").withWatermark("at", "1 hour")

    def meaning(change, by, mode, pages=True):
        if not pages:
            grouped = change(stream).groupBy(by)
            return stream_meaning(
                grouped.transformWithState(Totals(), "k STRING", "Update", mode), "update"
            )
        with only_looking((tmp_path / "probe").as_uri()):
            result = paged(
                change(stream),
                by=by,
                processor=Totals(),
                output="k STRING",
                checkpoint=tmp_path / "checkpoint",
                pages=4,
                timeMode=mode,
            )
        return stream_meaning(result, "update")

    def changes(change, by="k", mode="None", pages=(True, True)):
        both = meaning(lambda same: same, "k", mode, pages[0]), meaning(change, by, mode, pages[1])
        found = list(compare_code(*both))
        return [(each.rule, each.verdict) for each in found]

    return changes


@pytest.mark.long(weight=1 / 3)
@pytest.mark.parametrize("mode", ["None", "EventTime"])
def test_another_key_on_pages_is_noticed(changes, mode):
    assert changes(lambda rows: rows, mode=mode) == []
    upper = changes(lambda rows: rows.withColumn("k", F.upper("k")), mode=mode)
    assert set(upper) == {("key", "unnoticed"), ("column", "unnoticed")}, upper
    assert ("key", "unnoticed") in changes(lambda rows: rows, by="region", mode=mode)


@pytest.mark.long(weight=1 / 3)
@pytest.mark.parametrize("pages", [(True, False), (False, True)], ids=["out", "in"])
def test_a_key_is_compared_when_state_comes_into_pages_or_out_of_them(changes, pages):
    moved = [("", "rewrite")]
    assert changes(lambda rows: rows, pages=pages) == moved
    upper = changes(lambda rows: rows.withColumn("k", F.upper("k")), pages=pages)
    assert ("key", "unnoticed") in upper
    assert ("key", "unnoticed") in changes(lambda rows: rows, by="region", pages=pages)
    filtered = changes(lambda rows: rows.where("v > 1"), pages=pages)
    assert filtered == [*moved, ("filter", "unnoticed")]


@pytest.mark.long(weight=1 / 3)
@pytest.mark.parametrize("mode", ["None", "EventTime"])
def test_a_column_computed_from_something_else_is_noticed(changes, mode):
    doubled = changes(lambda rows: rows.withColumn("v", F.col("v") * 2), mode=mode)
    assert doubled == [("column", "unnoticed")]
    assert changes(lambda rows: rows.withColumn("w", F.col("v")), mode=mode) == []
    assert changes(lambda rows: rows.drop("region"), mode=mode) == []


def test_rows_that_are_filtered_before_pages_are_noticed(changes):
    assert changes(lambda rows: rows.where("v > 1")) == [("filter", "unnoticed")]
