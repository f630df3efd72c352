"""Timestamp keys of an hour that clocks run through twice, compared with a plain groupBy."""

import datetime as dt

import pytest
from pipelines import Pipeline
from pyspark.sql import Row
from pyspark.sql.functions import count
from pyspark.sql.streaming import StatefulProcessor

pytestmark = pytest.mark.spark

QUARTER = dt.timedelta(minutes=15)
MOMENTS = [
    *(dt.datetime(2024, 11, 3, 4, tzinfo=dt.UTC) + n * QUARTER for n in range(14)),
    *(dt.datetime(2024, 4, 6, 14, tzinfo=dt.UTC) + n * QUARTER for n in range(6)),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
    dt.datetime(9999, 12, 31, 12, tzinfo=dt.UTC),
    None,
]


class Counting(StatefulProcessor):
    """Counts rows by key, and by the key as a map's user key."""

    def init(self, handle):
        self.rows = handle.getValueState("rows", "n BIGINT")
        self.by_moment = handle.getMapState("by_moment", "at TIMESTAMP", "n BIGINT")

    def handleInputRows(self, key, rows, timer_values):
        n = (self.rows.get() or (0,))[0] + sum(1 for _ in rows)
        self.rows.update((n,))
        self.by_moment.updateValue(tuple(key), (n,))
        yield Row(at=key[0], n=n, entries=len(list(self.by_moment.keys())))

    def close(self):
        pass


@pytest.fixture(params=["America/New_York", "Australia/Lord_Howe", "UTC"])
def zone(request, spark):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.long(weight=1 / 3)
def test_each_moment_is_a_key_of_its_own_in_every_zone(spark, tmp_path, zone):
    assert spark.conf.get("spark.sql.session.timeZone") == zone
    output = "at TIMESTAMP, n BIGINT, entries INT"
    pipeline = Pipeline(spark, tmp_path, rows="at TIMESTAMP, v INT", output=output, by="at")
    pipeline.feed([(at, n) for at in MOMENTS for n in range(2)], [(at, 9) for at in MOMENTS])
    pipeline.deploy(Counting())
    plain = spark.read.schema("at TIMESTAMP, v INT").parquet(str(pipeline.input))
    wanted = {tuple(row) for row in plain.groupBy("at").agg(count("v")).collect()}
    assert len(wanted) == len(MOMENTS)
    last = pipeline.handed_by_batch[1]
    # `collect` gives naive local time on both sides; its text tells the two times apart.
    assert sorted(repr((at, n)) for at, n, _ in last) == sorted(map(repr, wanted))
    assert {entries for _, _, entries in last} == {1}
    assert len(pipeline.stored()["rows"]) == len(MOMENTS)
