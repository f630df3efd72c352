"""What the sink gets is the same, whether it came with the reports or lies in Spark's storage."""

import datetime
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from tally import CentsTally, batch

from statemigrate.embedded import batches

pytestmark = pytest.mark.spark
PLAIN = (
    "key STRING, flag BOOLEAN, tiny TINYINT, small SMALLINT, n INT, big BIGINT, f FLOAT, d DOUBLE, "
    "money DECIMAL(38,18), raw BINARY, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ"
)
NAIVE = datetime.datetime(2026, 3, 29, 2, 30, 0, 123456)
MOMENT = NAIVE.replace(tzinfo=datetime.UTC)
VALUES = [
    (True, 127, -(2**15), 2**31 - 1, -(2**63), 1.5, float("inf"), Decimal("-1.000000000000000001"),
     b"\x00\xff", datetime.date(1, 1, 1), MOMENT, NAIVE),
    (False, -128, 0, 0, 0, -0.0, -0.0, Decimal("99999999999999999999"), b"",
     datetime.date(9999, 12, 31), MOMENT.replace(year=1890), NAIVE.replace(year=1890)),
    (None,) * 12,
]  # fmt: skip


class EveryType(CentsTally):
    def handleInputRows(self, key, rows, timer_values):
        list(super().handleInputRows(key, rows, timer_values))
        yield from ((key[0], *values) for values in VALUES)


@pytest.fixture
def all_in_storage(monkeypatch):
    """Switches to output that is all in Spark's storage."""
    return lambda: monkeypatch.setattr(batches, "most_with_report", lambda *_: 0)


def handed_with_schema(pipeline, processor):
    frames = []
    keep = pipeline.sink

    def sink(rows, number):
        frames.append((rows.schema, sorted(map(repr, rows.collect()))))
        keep(rows, number)

    pipeline.sink = sink
    pipeline.deploy(processor)
    return frames


@pytest.mark.long(weight=1 / 3)
def test_plain_values_of_every_type_are_the_same_on_either_way(pipeline, all_in_storage, tmp_path):
    found = []
    other = type(pipeline)(pipeline.spark, tmp_path / "other")
    for each in (pipeline, other):
        each.output = PLAIN
        each.feed(batch("first", range(10)), batch("second", range(5)))
        found.append(handed_with_schema(each, EveryType()))
        all_in_storage()
    assert found[0] == found[1]
    assert [len(rows) for _, rows in found[0]] == [30, 15]


class ManyOfOneKey(CentsTally):
    def handleInputRows(self, key, rows, timer_values):
        for row in super().handleInputRows(key, rows, timer_values):
            many = 60_000 if key[0] == "k1" else 1
            yield from ((*tuple(row)[:3], f"{n:040}", n) for n in range(many))


def test_little_and_much_output_of_one_batch_is_all_there_once(pipeline):
    pipeline.feed(batch("first", range(40)))
    pipeline.deploy(ManyOfOneKey())
    handed = pipeline.handed_by_batch[0]
    assert sorted(row[4] for row in handed if row[0] == "k1") == list(range(60_000))
    others = [row for row in handed if row[0] != "k1"]
    assert sorted(row[0] for row in others) == sorted(f"k{n}" for n in range(40) if n != 1)


@pytest.mark.long(weight=1 / 3)
def test_a_batch_with_little_output_is_one_job(pipeline, spark, all_in_storage):
    ran = []
    for _ in range(2):
        pipeline.feed(batch("some", range(10)), batch("more", range(10)))
        running = pipeline.query(CentsTally()).start()
        pipeline.run(running)
        ran.append(len(spark.sparkContext.statusTracker().getJobIdsForGroup(running.runId)))
        all_in_storage()
    assert ran == [2, 4]
    assert [len(rows) for _, rows in pipeline.handed] == [10] * 4


def test_the_sink_has_the_sessions_own_settings_and_its_session_stays_the_active_one(
    pipeline, spark
):
    names = ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage")
    found, keep = [], pipeline.sink

    def sink(rows, number):
        found.append([rows.sparkSession.conf.get(name) for name in names])
        keep(rows, number)

    pipeline.sink = sink
    active = SparkSession.getActiveSession()
    pipeline.feed(batch("first", range(3)), batch("second", range(3)))
    pipeline.deploy(CentsTally())
    assert found == [[spark.conf.get(name) for name in names]] * 2
    assert SparkSession.getActiveSession() is active
