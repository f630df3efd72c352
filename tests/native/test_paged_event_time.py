"""Pages in event time: the watermark, late rows, timers and the output's own time, as in Spark."""

import json
from collections import Counter
from typing import ClassVar

import pytest
from everything import by_batch
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from timed_sums import AFTER, BEFORE, TIMED_ROWS, TIMED_SCRIPT, NewSums, Sums, timed
from watermarked import LIVES, OUTPUT, Paged, Plain, Watching, Watermarked

from statemigrate import backfill, migrated
from statemigrate.errors import StartupError, UnsupportedError

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_late_rows_watermark_and_timers_are_as_in_spark(spark, tmp_path):
    parts = {"rows": TIMED_ROWS, "output": OUTPUT, "time_mode": "EventTime"}
    plain, paged = (kind(spark, tmp_path / kind.__name__, **parts) for kind in (Plain, Paged))
    dropped = {}
    for batches in LIVES:
        for pipeline in (plain, paged):
            pipeline.feed(*batches)
            query = pipeline.deploy_natively(Watching())
            progress = [json.loads(each.json) for each in query.recentProgress]
            late = [each["stateOperators"][0]["numRowsDroppedByWatermark"] for each in progress]
            dropped.setdefault(type(pipeline), []).append(sum(late))
    assert by_batch(paged) == by_batch(plain)
    assert dropped[Paged] == dropped[Plain]
    assert sum(dropped[Plain]) > 1
    rows = [row for each in paged.handed_by_batch.values() for row in each]
    told = Counter(row[1].split()[0] for row in rows)
    fed = sum(len(batch) for life in LIVES for batch in life)
    assert sum(len(row[4]) for row in rows) == fed - sum(dropped[Plain])
    assert told["expired"] > 10


@pytest.mark.long
def test_the_watermark_goes_on_to_what_comes_behind_the_pages(spark, tmp_path):
    parts = {"rows": TIMED_ROWS, "output": OUTPUT, "time_mode": "EventTime"}
    plain, paged = (
        kind(spark, tmp_path / kind.__name__, **parts) for kind in (PlainInWindows, PagedInWindows)
    )
    for pipeline in (plain, paged):
        pipeline.feed(timed(0, range(6), 1), timed(5, range(3), 2), timed(30, [4], 3))
        pipeline.deploy_natively(Rows())
        pipeline.feed(timed(60, [1], 4), timed(90, [1], 5))
        pipeline.deploy_natively(Rows())
    assert paged.handed_by_batch == plain.handed_by_batch
    assert sum(map(len, paged.handed_by_batch.values())) >= 2


class Rows(Watching):
    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            yield Row(key=key[0], what="row", at=row.at, watermark=0, rows=[row.n])


class InWindows(Watermarked):
    """Rows of the processor are counted by windows of their own time, each given once."""

    def result(self, processor, stream=None):
        from pyspark.sql import functions

        made = self.made(processor)
        windows = made.groupBy(functions.window("at", "10 seconds")).count()
        return windows.select("window.start", "count")

    def start(self, result, **trigger):
        writer = result.writeStream.outputMode("append").foreachBatch(self.sink)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()


class PlainInWindows(InWindows, NativePipeline):
    def made(self, processor):
        grouped = self.grouped(self.stream())
        return grouped.transformWithState(
            processor, self.output, "Append", "EventTime", eventTimeColumnName="at"
        )


class PagedInWindows(InWindows, PagedPipeline):
    more: ClassVar = {"outputMode": "Append", "eventTimeColumnName": "at"}

    def made(self, processor):
        return PagedPipeline.result(self, processor)


@pytest.mark.long
def test_a_backfill_moves_neither_watermark_nor_timers(spark, tmp_path, scripts):
    folder = scripts.write(amounts=None)
    (scripts.folder.versions / "sums.py").write_text(f'"""Change sums."""\n{TIMED_SCRIPT}')
    parts = {"rows": TIMED_ROWS, "output": "key STRING, n BIGINT, at BIGINT"}
    plain = Plain(spark, tmp_path / "plain", time_mode="EventTime", **parts)
    plain.feed(*BEFORE, *AFTER)
    plain.deploy_natively(Sums())
    paged = Paged(spark, tmp_path / "paged", time_mode="EventTime", pages=8, **parts)
    paged.feed(*BEFORE)
    paged.deploy_natively(Sums())
    assert backfill(paged.checkpoint, migrations=folder, keys_per_chunk=3).chunks > 1
    paged.deploy_natively(migrated(NewSums(), migrations=folder))
    ddl = "at BIGINT, sum STRUCT<n: BIGINT>"
    found = paged.entries({"sums": "n BIGINT, at BIGINT", "sums@cccc00000001": ddl})
    assert {family for page in found.values() for family in page} == {"sums@cccc00000001"}
    assert not paged.handed_rows
    paged.feed(*AFTER)
    paged.deploy_natively(migrated(NewSums(), migrations=folder))
    assert Counter(paged.handed_rows) == Counter(plain.handed_rows)
    assert len(plain.handed_rows) == 13


def test_event_time_without_a_watermark_is_refused(spark, tmp_path):
    pipeline = PagedPipeline(spark, tmp_path, rows=TIMED_ROWS, time_mode="EventTime")
    with pytest.raises(StartupError, match="needs a watermark"):
        pipeline.result(Sums())


class WithLife(Sums):
    def init(self, handle):
        self.state = handle.getValueState("sums", self.ddl, 1_000)


@pytest.mark.long(weight=1 / 3)
def test_a_time_to_live_in_event_time_is_refused_as_spark_refuses_it(spark, tmp_path):
    parts = {"rows": TIMED_ROWS, "output": OUTPUT, "time_mode": "EventTime"}
    plain = Plain(spark, tmp_path / "plain", **parts)
    plain.feed(timed(0, [1], 1))
    with pytest.raises(StreamingQueryException, match="TTL"):
        plain.deploy_natively(WithLife())
    with pytest.raises(UnsupportedError, match="counts in processing time"):
        Paged(spark, tmp_path / "paged", **parts).result(WithLife())


class Begun(Watching):
    """Begins with what the initial state says, and with a timer for each of its rows."""

    def init(self, handle):
        super().init(handle)
        self.begun = handle.getListState("begun", "n BIGINT")

    def handleInitialState(self, key, initialState, timerValues):
        self.state.update((initialState.at,))
        self.begun.appendValue((initialState.n * len(key[0]),))
        self.handle.registerTimer(int(initialState.at.timestamp() * 1000) + 1_000)

    def _told(self, key, what, rows, times):
        return super()._told(key, f"{what} {sorted(n for (n,) in self.begun.get())}", rows, times)


@pytest.mark.long
def test_an_initial_state_is_there_from_the_first_batch_as_in_spark(spark, tmp_path):
    # The key is in another place, under another name, and a row of no input is there.
    rows = [(n, at, key) for key, at, n in [*timed(1, range(4), 7), *timed(2, [1, 20], 8)]]
    frame = spark.createDataFrame(rows, "n BIGINT, at TIMESTAMP, word STRING")
    parts = {"rows": TIMED_ROWS, "output": OUTPUT, "time_mode": "EventTime"}
    pipelines = [
        kind(spark, tmp_path / kind.__name__, **parts)
        for kind in (PlainWithBeginning, PagedWithBeginning)
    ]
    for batches in LIVES[:2]:
        for pipeline in pipelines:
            pipeline.frame = frame.groupBy("word")
            pipeline.feed(*batches)
            pipeline.deploy_natively(Begun())
    plain, paged = map(by_batch, pipelines)
    assert paged == plain
    assert any("k20" in told for rows in plain.values() for told in rows)


class PlainWithBeginning(Plain):
    def result(self, processor, stream=None):
        grouped = self.grouped(self.stream())
        return grouped.transformWithState(
            processor, self.output, "Update", self.time_mode, self.frame
        )


class PagedWithBeginning(Paged):
    @property
    def more(self):
        return {"initialState": self.frame}


def test_an_initial_state_of_other_keys_is_refused(spark, tmp_path):
    pipeline = PagedWithBeginning(
        spark, tmp_path, rows=TIMED_ROWS, output=OUTPUT, time_mode="EventTime"
    )
    frame = spark.createDataFrame([(1, "a")], "number BIGINT, word STRING")
    for grouped in (frame, frame.groupBy("number"), frame.groupBy("word", "number")):
        pipeline.frame = grouped
        with pytest.raises(StartupError, match="not grouped as the stream"):
            pipeline.result(Begun())
