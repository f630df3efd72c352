"""Columns on pages may have any name, also those that PySpark takes apart when it looks one up."""

import pytest
from everything import BEGINNING, KEYS, by_batch
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from pyspark.sql import Row
from test_paged_batch_processor import LATER, PARTS, Latest, LatestByTable

pytestmark = pytest.mark.spark

NAMES = ["its.name", "a`number", "*", "at", "the day", "price.`in.€`", "raw``", ".", "x.y.z"]
"""Those of the stream, in the order of the columns."""
PLAIN = ["name", "number", "op", "at", "day", "price", "raw", "tags", "attributes"]
FIRST = "first.state"


class Named(Latest):
    """The same processor, where the columns have those names."""

    def handleInputRows(self, key, rows, timerValues):
        rows = list(rows)
        assert {tuple(row.__fields__) for row in rows} == {tuple(NAMES)}
        assert [row["its.name"] for row in rows] == [key[0]] * len(rows)
        return super().handleInputRows(key, [Row(*PLAIN)(*row) for row in rows], timerValues)

    def handleInitialState(self, key, initialState, timerValues):
        assert initialState.__fields__ == [FIRST, *NAMES[:2]]
        assert initialState["its.name"] == key[0]
        self._state.update((initialState[FIRST], *[None] * 6))


class NamedByTable(LatestByTable):
    """The same with tables."""

    def handleBatch(self, keys, rows, state, timerValues):
        assert rows.column_names == NAMES
        assert keys.column_names == NAMES[:2]
        plain = [
            table.rename_columns([*PLAIN[:2], *table.column_names[2:]]) for table in (keys, state)
        ]
        new, output = super().handleBatch(
            plain[0], rows.rename_columns(PLAIN), plain[1], timerValues
        )
        return new.rename_columns([*NAMES[:2], *new.column_names[2:]]), output


class PagedByNames(PagedPipeline):
    def stream(self):
        stream = super().stream().toDF(*NAMES)
        return stream.withWatermark("at", "1 day") if self.time_mode == "EventTime" else stream


class Plain(NativePipeline):
    def stream(self):
        stream = super().stream()
        return stream.withWatermark("at", "1 day") if self.time_mode == "EventTime" else stream


@pytest.mark.long
@pytest.mark.parametrize("time_mode", ["None", "EventTime"])
def test_names_that_pyspark_takes_apart_come_to_the_processor_as_they_are(
    spark, tmp_path, time_mode
):
    parts = {**PARTS, "time_mode": time_mode}
    plain = Plain(spark, tmp_path / "plain", **parts)
    runs = [(plain, Latest)]
    named = {**parts, "by": tuple(NAMES[:2])}
    for processor in (Named, NamedByTable):
        pipeline = PagedByNames(spark, tmp_path / processor.__name__, pages=2, **named)
        runs.append((pipeline, processor))
    for pipeline, processor in runs:
        for batches in (BEGINNING, LATER):
            pipeline.feed(*batches)
            pipeline.deploy_natively(processor())
    assert sum(map(len, plain.handed_by_batch.values())) == 5 + 5 + 6 + 2
    for pipeline, _ in runs[1:]:
        assert by_batch(pipeline) == by_batch(plain)


@pytest.mark.long
def test_an_initial_state_has_its_own_names(spark, tmp_path):
    rows = [(100, "a", 1), (200, "nobody", 1)]
    frame = spark.createDataFrame(rows, "n BIGINT, name STRING, number INT").toDF(FIRST, *NAMES[:2])
    parts = {**PARTS, "by": tuple(NAMES[:2])}
    pipeline = PagedByNames(spark, tmp_path / "named", pages=2, **parts)
    pipeline.more = {"initialState": frame.groupBy("`its.name`", "`a``number`")}
    pipeline.feed(*BEGINNING[:1])
    pipeline.deploy_natively(Named())
    handed = [row for rows in pipeline.handed_by_batch.values() for row in rows]
    assert {row[:2]: row[2] for row in handed} == {
        key: 103 if key == ("a", 1) else 3 for key in KEYS
    }
