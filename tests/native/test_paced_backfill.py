"""A backfill whose chunks are cut while the query runs: sizes follow a share; no key is lost."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from control_pipeline import ControlPipeline
from paged_pipeline import FORMATS, PagedPipeline
from pipelines import PARTITIONS
from pyspark.errors import StreamingQueryException
from support.waiting import eventually
from tally import AMOUNTS, CENTS, FAMILIES, AmountsTally, CentsTally, Expected, batch

from statemigrate import (
    BackfillListener,
    BackfillPlan,
    backfill,
    backfill_status,
    migrated,
    pause_backfill,
)
from statemigrate.cli import main
from statemigrate.errors import StartupError
from statemigrate.native import chunks as blocks
from statemigrate.native import pacing as tuning
from statemigrate.native.chunks import ChunkFiles, cuts_of
from statemigrate.native.operators import chunk_files

pytestmark = pytest.mark.spark
KEYS = 60


@pytest.fixture(params=["native", pytest.param("paged", marks=pytest.mark.long)])
def pipeline(request, spark, tmp_path, monkeypatch):
    """A query with state in the oldest format; chunks of few entries, blocks of 25 keys."""
    monkeypatch.setattr(blocks, "KEYS_IN_BLOCK", 25)
    monkeypatch.setattr("statemigrate.native.backfill_planning.KEYS_IN_BLOCK", 25)
    begin = tuning.BackfillOptions
    monkeypatch.setattr(tuning, "BackfillOptions", lambda **given: begin(initial_rows=7, **given))
    made = (
        ControlPipeline(spark, tmp_path / "pipeline")
        if request.param == "native"
        else PagedPipeline(spark, tmp_path / "pipeline", pages=30)
    )
    made.expected = Expected()
    made.feed(batch("first", range(KEYS)))
    made.deploy_natively(CentsTally())
    made.expected.process(batch("first", range(KEYS)), CENTS)
    return made


def stored(pipeline):
    """By family the value of each key."""
    if isinstance(pipeline, ControlPipeline):
        return pipeline.all_state()
    found = {}
    for page in pipeline.entries(FORMATS).values():
        for family, values in page.items():
            found.setdefault(family, {}).update(values)
    return {FAMILIES[AMOUNTS]: {}} | found


def wanted(pipeline):
    families = [CENTS, AMOUNTS] if isinstance(pipeline, ControlPipeline) else [AMOUNTS]
    return pipeline.expected.stored(*families)


def finish(pipeline, folder, is_told=lambda: True):
    """Let the query run until the backfill is done; one stopped before it tells so never does."""
    query = pipeline.start(pipeline.result(migrated(AmountsTally(), migrations=folder)))
    try:
        eventually(lambda: is_done(pipeline, folder, query) and is_told())
    finally:
        query.stop()
    return query


def is_done(pipeline, folder, query):
    if query.exception() is not None:
        raise query.exception()
    files = chunk_files(pipeline.checkpoint)
    log = files.log()
    return not files.uncut() and all(map(log.is_committed, files.written()))


def cuts(pipeline):
    files = chunk_files(pipeline.checkpoint)
    return cuts_of(files.plan().id, files.written() | files.log().taken.keys())


def check_cuts(pipeline, plan):
    """Every planned key is in one chunk, and in one only."""
    found = sorted(cuts(pipeline).values())
    for before, after in zip([None, *found], found, strict=False):
        begins = 0 if before is None or before.block != after.block else before.end
        assert after.start == begins
        assert after.keys >= 1
    assert sum(each.keys for each in found) == (plan.pages or plan.keys)
    assert sum(each.entries for each in found) == KEYS
    return found


@pytest.mark.long
def test_live_rows_and_chunks_end_with_every_key_migrated_once(spark, pipeline, scripts):
    folder = scripts.write()
    plan = backfill(pipeline.checkpoint, migrations=folder, share=0.25)
    assert plan == BackfillPlan(KEYS, 0, {"tally": KEYS}, 0, plan.pages)
    assert (plan.pages is None) == isinstance(pipeline, ControlPipeline)
    status = backfill_status(pipeline.checkpoint, migrations=folder)
    assert (status.keys_left, status.keys_uncut) == (plan.keys, plan.keys)
    assert (status.chunks, status.consumed, status.waiting) == (0, 0, 0)
    assert not status.is_finished
    for number in range(3):
        rows = batch(f"live {number}", range(10 * number, 10 * number + 15))
        pipeline.feed(rows)
        pipeline.expected.process(rows, AMOUNTS)
    figures = []
    listener = BackfillListener(pipeline.checkpoint, figures.append)
    spark.streams.addListener(listener)
    try:
        finish(pipeline, folder, lambda: sum(each.keys for each in figures) == plan.keys)
        found = check_cuts(pipeline, plan)
    finally:
        spark.streams.removeListener(listener)
    pipeline.expected.drain(AMOUNTS)
    assert stored(pipeline) == wanted(pipeline)
    assert pipeline.handed_rows == pipeline.expected.output
    taken = chunk_files(pipeline.checkpoint).log().taken
    asked = sorted((taken[name], cut) for name, cut in cuts(pipeline).items())
    assert [each.keys for each in figures] == [cut.entries for _, cut in asked]
    assert {(each.keys_planned, each.chunks) for each in figures} == {(plan.keys, None)}
    assert figures[-1].keys_asked == plan.keys
    status = backfill_status(pipeline.checkpoint, migrations=folder)
    assert (status.keys_left, status.keys_uncut, status.consumed) == (0, 0, len(found))
    assert status.is_finished


@pytest.mark.long
def test_a_batch_that_is_run_again_has_the_same_chunk_and_the_rest_follows(pipeline, scripts):
    folder = scripts.write()
    plan = backfill(pipeline.checkpoint, migrations=folder, keys_per_second=1_000_000)
    processor = migrated(AmountsTally(), migrations=folder)
    pipeline.fail_on = {2}
    query = pipeline.start(pipeline.result(processor))
    with pytest.raises(StreamingQueryException, match="refuses batch 2"):
        query.awaitTermination(120)
    taken = chunk_files(pipeline.checkpoint).log().taken
    before = {name: cut for name, cut in cuts(pipeline).items() if name in taken}
    assert before
    finish(pipeline, folder)
    after = chunk_files(pipeline.checkpoint).log().taken
    assert {name: after[name] for name in before} == {name: taken[name] for name in before}
    check_cuts(pipeline, plan)
    pipeline.expected.drain(AMOUNTS)
    assert stored(pipeline) == wanted(pipeline)
    assert pipeline.handed_rows == pipeline.expected.output


@pytest.mark.long
def test_what_is_paused_waits_and_a_plan_of_another_pace_goes_on(pipeline, scripts):
    folder, at = scripts.write(), pipeline.checkpoint
    first = backfill(at, migrations=folder, share=0.1)
    assert pause_backfill(at) == -(-(first.pages or first.keys) // 25)
    assert not chunk_files(at).uncut()
    finish(pipeline, folder)
    pipeline.expected.process([], AMOUNTS)
    assert stored(pipeline).get("tally") == pipeline.expected.stored(CENTS)["tally"]
    query = pipeline.start(pipeline.result(migrated(AmountsTally(), migrations=folder)))
    try:
        again = backfill(at, migrations=folder, share=0.5, keys_per_second=500)
        assert again.keys == first.keys
        rows = batch("live", range(5))
        pipeline.feed(rows)
        eventually(lambda: is_done(pipeline, folder, query))
    finally:
        query.stop()
    pipeline.expected.process(rows, AMOUNTS)
    pipeline.expected.drain(AMOUNTS)
    assert stored(pipeline) == wanted(pipeline)


@pytest.fixture
def tally(spark, tmp_path):
    made = ControlPipeline(spark, tmp_path / "tally")
    made.feed(batch("first", range(KEYS)))
    made.deploy_natively(CentsTally())
    return made


@pytest.mark.long
def test_any_piece_of_a_block_is_spread_over_all_partitions(tally, scripts):
    backfill(tally.checkpoint, migrations=scripts.write(), share=0.25)
    (block,) = (tally.checkpoint / "statemigrate/control").rglob("waiting/**/*.parquet")
    keys = [row.key for row in tally.spark.read.parquet(str(block)).collect()]
    places = tally.partitions("tally")
    assert sorted(keys) == sorted(places)
    for start in range(0, KEYS, 4 * PARTITIONS):
        assert {places[key] for key in keys[start : start + 4 * PARTITIONS]} == set(
            range(PARTITIONS)
        )


@pytest.mark.long
def test_a_run_that_ends_takes_the_chunks_it_finds_and_the_next_ones_go_on(pipeline, scripts):
    folder = scripts.write()
    plan = backfill(pipeline.checkpoint, migrations=folder, share=0.25)
    for night in (1, 2):
        processor = migrated(AmountsTally(), migrations=folder)
        query = pipeline.start(pipeline.result(processor), availableNow=True)
        assert query.awaitTermination(120)
        log = chunk_files(pipeline.checkpoint).log()
        assert sum(map(log.is_committed, cuts(pipeline))) == 2 * night
    finish(pipeline, folder)
    check_cuts(pipeline, plan)
    pipeline.expected.drain(AMOUNTS)
    assert stored(pipeline) == wanted(pipeline)


@pytest.mark.long(weight=1 / 3)
def test_the_verb_takes_a_share_or_a_rate_and_says_what_cannot_be(tally, scripts):
    folder, at = scripts.write(), str(tally.checkpoint)

    def run(*arguments, code=0, verb="backfill"):
        given = ["--migrations", str(folder), verb, at, *arguments]
        result = CliRunner().invoke(main, given, prog_name="statemigrate")
        assert result.exit_code == code, result.output
        return result.output

    assert f"Planned {KEYS} keys in chunks as large as fits, one a batch." in run("--share", "0.3")
    assert json.loads(run("--json", verb="status"))["backfill"]["keys_uncut"] == KEYS
    assert f"{KEYS} are in no chunk yet" in run(verb="status")
    assert "Withdrew 1 chunk" in run("--keys-per-second", "50")
    assert chunk_files(at).plan().pace.keys_per_second == 50
    for wrong in (("--share", "1"), ("--keys-per-second", "0")):
        run(*wrong, code=2)
    assert "excludes" in run("--share", "0.3", "--keys-per-chunk", "5", code=2)
    with pytest.raises(StartupError, match="one size"):
        backfill(at, migrations=folder, share=0.5, keys_per_chunk=5)


@pytest.mark.long
def test_keys_of_every_type_are_in_a_chunk_as_they_are_in_a_block(spark, tmp_path):
    moments = "timestamp'2026-03-29 01:30:00.1234' AS a", "timestamp_ntz'1850-01-01 00:00:00' AS b"
    others = "date'0001-01-01' AS c", "1.50BD AS d", "X'00ff' AS e", "1.5D AS f", "true AS g"
    within = "struct(timestamp'1901-01-01 00:00:00' AS t, CAST(NULL AS BIGINT) AS n) AS i"
    rows = spark.range(5).selectExpr(*moments, *others, within, "id AS j")
    place = tmp_path / "statemigrate/control"
    block = rows.selectExpr("*", "2L AS statemigrate_entries").coalesce(1)
    block.write.parquet(str(place / "waiting/plan"))
    left = blocks.BlocksLeft(ChunkFiles(tmp_path), "plan", None)
    made = [left.cut(4), left.cut(1), left.cut(100), left.cut(100)]
    assert made == [blocks.Cut(0, 0, 2, 4), blocks.Cut(0, 2, 3, 2), blocks.Cut(0, 3, 5, 4), None]
    found = spark.read.schema(rows.schema).parquet(str(place / "chunks/plan"))
    assert found.orderBy("j").collect() == rows.collect()
    assert not list((place / "waiting").rglob("*.parquet"))


DIES = """
import os, signal, sys
from pathlib import Path
from pyspark import SparkContext
from pyspark.sql import SparkSession
from statemigrate import with_backfill

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
rows = spark.readStream.format("rate").load()
with_backfill(rows, ["value"], checkpoint=Path(sys.argv[1]))
java = SparkContext._gateway.proc
os.kill(int(spark._jvm.java.lang.ProcessHandle.current().pid()), signal.SIGKILL)
java.wait()
print("over")
"""


@pytest.mark.long
def test_where_spark_dies_first_python_ends_without_a_word_of_it(spark, tmp_path):
    command = [sys.executable, "-c", DIES, str(tmp_path / "checkpoint")]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "over\n")
    assert "Traceback" not in ended.stderr
