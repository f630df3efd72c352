"""The backfill source beside a user's stream: what it leaves alone, and where it refuses."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from control_pipeline import ControlPipeline, StrictAmounts
from native_pipeline import NativePipeline
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions
from support.sessions import spark_version
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch
from timed_sums import AFTER, BEFORE, TIMED_ROWS, TIMED_SCRIPT, NewSums, Sums

from statemigrate import backfill, backfill_status, migrated, pause_backfill, with_backfill
from statemigrate.cli import main
from statemigrate.errors import CheckpointError, LineageError, StartupError, UnsupportedError
from statemigrate.native.backfill_planning import OlderFamilies, plan_backfill
from statemigrate.native.control_rows import MARKER
from statemigrate.scripts import ScriptFolder

pytestmark = [pytest.mark.spark, pytest.mark.long]


def timed_pipeline(spark, root, helper):
    """``helper`` says where the backfill source comes in: "before" the watermark, "after", None."""

    class Timed(NativePipeline):
        def stream(self):
            stream = super().stream()
            if helper == "before":
                stream = with_backfill(stream, "key", checkpoint=self.checkpoint)
            stream = stream.withWatermark("at", "2 seconds")
            if helper == "after":
                stream = with_backfill(stream, "key", checkpoint=self.checkpoint)
            return stream

    output = "key STRING, n BIGINT, at BIGINT"
    return Timed(spark, root, rows=TIMED_ROWS, output=output, time_mode="EventTime")


@pytest.fixture(scope="module")
def unmigrated_output(spark, tmp_path_factory):
    pipeline = timed_pipeline(spark, tmp_path_factory.mktemp("unmigrated"), None)
    pipeline.feed(*BEFORE, *AFTER)
    pipeline.deploy_natively(Sums())
    assert sorted(row[:2] for row in pipeline.handed_rows) == sorted(
        [("k0", 11), ("k1", 11), ("k2", 111), ("k3", 101), ("k4", 101), ("k90", 0)]
        + [(f"k{number}", 1) for number in range(5, 12)]
    )
    return pipeline.handed_rows


@pytest.mark.parametrize("helper", ["before", "after"])
def test_watermark_timers_and_late_rows_are_as_without_it(
    spark, tmp_path, scripts, helper, unmigrated_output
):
    folder = scripts.write(amounts=None)
    (scripts.folder.versions / "sums.py").write_text(f'"""Change sums."""\n{TIMED_SCRIPT}')
    pipeline = timed_pipeline(spark, tmp_path / "timed", helper)
    pipeline.feed(*BEFORE)
    pipeline.deploy_natively(Sums())
    plan = backfill(pipeline.checkpoint, migrations=folder, keys_per_chunk=6)
    assert (plan.keys, plan.chunks) == (12, 2)
    pipeline.deploy_natively(migrated(NewSums(), migrations=folder))
    assert pipeline.state("sums") == {}
    assert len(pipeline.state("sums@cccc00000001")) == 12
    assert not pipeline.handed_rows
    pipeline.feed(*AFTER)
    pipeline.deploy_natively(migrated(NewSums(), migrations=folder))
    assert pipeline.handed_rows == unmigrated_output


@pytest.mark.skipif(spark_version() < (4, 3), reason="Spark keeps the names of sources from 4.3 on")
def test_a_query_with_named_sources_gets_the_control_source_later(spark, tmp_path, scripts):
    conf = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
    folder = scripts.write()
    expected = Expected()

    class Named(NativePipeline):
        def stream(self):
            reader = self.spark.readStream.name("tally").schema(self.rows)
            return reader.parquet(f"{self.input}/*.parquet")

    spark.conf.set(conf, "true")
    try:
        pipeline = Named(spark, tmp_path / "named")
        pipeline.feed(batch("first", range(20)))
        pipeline.deploy_natively(CentsTally())
        expected.process(batch("first", range(20)), CENTS)
        backfill(pipeline.checkpoint, migrations=folder, keys_per_chunk=10)
        stream = with_backfill(pipeline.stream(), ["key"], checkpoint=pipeline.checkpoint)
        pipeline.deploy_natively(migrated(StrictAmounts(), migrations=folder), stream)
    finally:
        spark.conf.unset(conf)
    expected.drain(AMOUNTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)
    assert pipeline.handed_rows == expected.output
    assert backfill_status(pipeline.checkpoint, migrations=folder).consumed == 2


def test_a_plan_for_another_query_is_refused_and_both_go_on(spark, tmp_path, scripts):
    folder = scripts.write()
    other, mine = (ControlPipeline(spark, tmp_path / name) for name in ("other", "mine"))
    for pipeline in (other, mine):
        pipeline.feed(batch("first", range(9)))
        pipeline.deploy_natively(CentsTally())
    backfill(other.checkpoint, migrations=folder)
    misled = with_backfill(NativePipeline.stream(mine), "key", checkpoint=other.checkpoint)
    before = mine.state("tally")
    with pytest.raises(StreamingQueryException, match="planned for another query"):
        mine.deploy_natively(migrated(AmountsTally(), migrations=folder), misled)
    assert mine.state("tally") == before
    pause_backfill(other.checkpoint)
    backfill(mine.checkpoint, migrations=folder)
    mine.deploy_natively(migrated(AmountsTally(), migrations=folder))
    expected = Expected()
    expected.process(batch("first", range(9)), CENTS)
    assert other.all_state() == expected.stored(CENTS)
    expected.drain(AMOUNTS)
    assert mine.all_state() == expected.stored(CENTS, AMOUNTS)


def contents(directory: Path):
    return {str(at): at.read_bytes() for at in directory.rglob("*") if at.is_file()}


@pytest.fixture(scope="module")
def ran(spark, tmp_path_factory):
    """A query that has run with the backfill source, and one that has run without."""
    root = tmp_path_factory.mktemp("ran")
    with_it, without = (
        ControlPipeline(spark, root / "with"),
        NativePipeline(spark, root / "without"),
    )
    for pipeline in (with_it, without):
        pipeline.feed(batch("first", range(4)))
        pipeline.deploy_natively(CentsTally())
    return with_it, without


def test_a_stream_that_does_not_fit_is_refused(spark, ran):
    with_it, _ = ran
    checkpoint, stream = with_it.checkpoint, NativePipeline.stream(with_it)
    before = contents(checkpoint)

    def refused(error, match, stream, by="key", at=checkpoint):
        with pytest.raises(error, match=match) as caught:
            with_backfill(stream, by, checkpoint=at)
        assert caught.value.next_action

    marked = stream.withColumn(MARKER, functions.lit("x"))
    refused(StartupError, "already has a column", marked)
    refused(StartupError, "already has a column", with_it.stream())
    refused(StartupError, "not a stream", spark.range(1).withColumnRenamed("id", "key"))
    for by in ("nothing", [], ["key", "key"], ["key", "nothing"]):
        refused(StartupError, "does not name", stream, by)
    refused(StartupError, "has other keys", stream, "name")
    refused(StartupError, "has other keys", stream, ["key", "name"])
    retyped = stream.withColumn("key", functions.hash("key"))
    refused(StartupError, "key string", retyped)
    timed_stream = stream.withColumn("at", functions.current_timestamp())
    by_time = timed_stream.withWatermark("at", "1 second")
    refused(UnsupportedError, "event time", by_time, ["key", "at"])
    refused(CheckpointError, "cannot be below", stream, at="/tmp/a[b]")  # noqa: S108
    assert contents(checkpoint) == before


def test_a_directory_that_is_no_such_checkpoint_is_refused(ran, tmp_path, scripts):
    folder = scripts.write()
    _, without = ran
    stream = without.stream()
    embedded, foreign, a_file = tmp_path / "embedded", tmp_path / "foreign", tmp_path / "file"
    (embedded / "statemigrate/versions").mkdir(parents=True)
    (embedded / "metadata").write_text('{"id": "x"}')
    foreign.mkdir()
    (foreign / "data.csv").write_text("1")
    a_file.write_text("1")
    before = contents(tmp_path) | contents(without.checkpoint)
    for at, match in (
        (without.checkpoint, "without the backfill source|no backfill source"),
        (embedded, "embedded engine|nothing is committed"),
        (foreign, "not the checkpoint"),
        (a_file, "not the checkpoint"),
    ):
        for call in (
            lambda at=at: with_backfill(stream, "key", checkpoint=at),
            lambda at=at: plan_backfill(
                OlderFamilies(str(at), None, None, ScriptFolder(folder).survey(), {})
            ),
        ):
            with pytest.raises(CheckpointError, match=match) as caught:
                call()
            assert caught.value.next_action
    for call in (pause_backfill, backfill, backfill_status):
        with pytest.raises(CheckpointError, match="no such directory"):
            call(tmp_path / "nowhere")
    assert contents(tmp_path) | contents(without.checkpoint) == before
    assert not (tmp_path / "nowhere").exists()


def test_a_plan_that_does_not_fit_is_refused_and_the_one_before_stays(ran, scripts):
    with_it, _ = ran
    backfill(with_it.checkpoint, migrations=scripts.write())
    before = contents(with_it.checkpoint)
    elsewhere = scripts.write(amounts=None)
    with pytest.raises(StartupError, match="has migration scripts"):
        backfill(with_it.checkpoint, migrations=elsewhere)
    folder = scripts.write()
    with pytest.raises(LineageError, match="other"):
        backfill(with_it.checkpoint, migrations=folder, targets={"other": "head"})
    with pytest.raises(LineageError, match="ffff"):
        backfill(with_it.checkpoint, migrations=folder, targets={"tally": "ffff"})
    with pytest.raises(StartupError, match="at least one key"):
        backfill(with_it.checkpoint, migrations=folder, keys_per_chunk=0)
    assert contents(with_it.checkpoint) == before


def test_the_verb_plans_shows_and_pauses(ran, scripts):
    with_it, _ = ran
    folder, at = scripts.write(), str(with_it.checkpoint)

    def run(*arguments, code=0, verb="backfill"):
        given = ["--migrations", str(folder), verb, at, *arguments]
        result = CliRunner().invoke(main, given, prog_name="statemigrate")
        assert result.exit_code == code, result.output
        return result.output

    run("--pause")
    planned = json.loads(run("--keys-per-chunk", "2", "--json"))
    assert planned == {
        "keys": 4,
        "chunks": 2,
        "families": {"tally": 4},
        "withdrawn": 0,
        "pages": None,
    }
    status = json.loads(run("--json", verb="status"))
    assert status["backfill"] == {
        "keys_planned": 4,
        "chunks": 2,
        "consumed": 0,
        "waiting": 2,
        "keys_uncut": 0,
    }
    assert "backfill: 0 of 2 chunks processed, planned for 4 keys" in run(verb="status")
    assert "Withdrew 2 chunks" in run("--pause")
    assert "Planned 4 keys in 1 chunk, one a batch." in run()
    assert json.loads(run("--target", "tally=base", "--json"))["keys"] == 0
    assert "STORE=REVISION" in run("--target", "tally", code=2)
    assert "--pause excludes --prepare." in run("--pause", "--prepare", code=2)
