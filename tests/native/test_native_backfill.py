"""Backfill of Spark's own state: planned in chunks, fed one a batch, down to the last key."""

import os

import pytest
from control_pipeline import AmountsInPandas, CentsInPandas, ControlPipeline, StrictAmounts
from function_deployments import Deployments
from pipelines import PARTITIONS
from pyspark.errors import StreamingQueryException
from support.sessions import spark_version
from support.waiting import eventually
from tally import (
    AMOUNTS,
    AMOUNTS_SCRIPT,
    CENTS,
    NESTED,
    NESTED_SCRIPT,
    AmountsTally,
    CentsTally,
    Expected,
    NestedTally,
    batch,
)
from tally_functions import envelopes
from test_list_and_map_state import FIRST, both_counts, both_words
from test_list_and_map_state import folder as word_scripts  # noqa: F401 - a fixture
from words import LIST, MAP, OUTPUT, ROWS, Model, NewWords, NewWordsInPandas, Words, WordsInPandas

from statemigrate import (
    BackfillListener,
    BackfillPlan,
    backfill,
    backfill_status,
    migrated,
    pause_backfill,
)

pytestmark = pytest.mark.spark

BASE = {"tally": CENTS}


@pytest.fixture
def tally(spark, tmp_path) -> ControlPipeline:
    return ControlPipeline(spark, tmp_path / "pipeline")


def begun(pipeline, keys, processor=None) -> Expected:
    """State in the oldest format, by plain Spark unless told otherwise, and the same computed."""
    expected = Expected()
    rows = batch("first", keys)
    pipeline.feed(rows)
    pipeline.deploy_natively(processor or CentsTally())
    expected.process(rows, CENTS)
    return expected


def test_an_idle_query_is_drained_chunk_by_chunk(spark, tally, scripts):
    folder = scripts.write()
    expected = begun(tally, range(40))
    plan = backfill(tally.checkpoint, migrations=folder, keys_per_chunk=15)
    assert plan == BackfillPlan(40, 3, {"tally": 40}, 0)
    chunks, partitions = tally.chunks(), tally.partitions("tally")
    assert sorted(key for keys in chunks for key in keys) == sorted(expected.values)
    for keys in chunks:
        assert {partitions[key] for key in keys} == set(range(PARTITIONS))
        assert len(keys) <= 15
    status = backfill_status(tally.checkpoint, migrations=folder)
    assert (status.keys_left, status.families) == (40, {"tally": 40})
    assert (status.chunks, status.consumed, status.waiting) == (3, 0, 3)

    figures = []
    listener = BackfillListener(tally.checkpoint, figures.append)
    spark.streams.addListener(listener)
    try:
        query = tally.deploy_natively(migrated(StrictAmounts(), migrations=folder))
        eventually(lambda: len(figures) == 3)
    finally:
        spark.streams.removeListener(listener)
    expected.drain(AMOUNTS)
    assert tally.all_state() == expected.stored(CENTS, AMOUNTS)
    assert tally.handed_rows == expected.output
    assert len(query.recentProgress) >= 3, "one chunk a batch"
    assert [each.chunks_consumed for each in figures] == [1, 2, 3]
    assert {(each.keys_planned, each.chunks) for each in figures} == {(40, 3)}
    assert sum(each.keys for each in figures) == 40
    assert figures[-1].keys_asked == 40
    assert listener.latest == figures[-1]
    status = backfill_status(tally.checkpoint, migrations=folder)
    assert (status.keys_left, status.consumed, status.waiting) == (0, 3, 0)
    assert status.is_finished
    assert status.quarantined == 0
    back = backfill_status(tally.checkpoint, migrations=folder, targets=BASE)
    assert (back.keys_left, back.unplanned) == (40, (f"tally@{AMOUNTS}",))
    assert (back.is_finished, back.quarantined, back.is_under_way) == (False, 0, False)


@pytest.mark.parametrize(
    ("old", "new"), [(CentsTally, StrictAmounts), (CentsInPandas, AmountsInPandas)]
)
def test_a_busy_query_migrates_beside_live_rows_of_the_same_keys(tally, scripts, old, new):
    folder = scripts.write()
    tally.in_pandas = new is AmountsInPandas
    expected = begun(tally, range(40), migrated(old(), migrations=folder, targets=BASE))
    backfill(tally.checkpoint, migrations=folder, keys_per_chunk=14)
    for number in range(3):
        rows = batch(f"live {number}", range(10 * number, 10 * number + 15), rows_a_key=2)
        tally.feed(rows)
        expected.process(rows, AMOUNTS)
    tally.deploy_natively(migrated(new(), migrations=folder))
    expected.drain(AMOUNTS)
    assert tally.all_state() == expected.stored(CENTS, AMOUNTS)
    assert tally.handed_rows == expected.output


def test_available_now_drains_what_was_planned_and_three_revisions_end_in_one(tally, scripts):
    scripts.write()
    expected = begun(tally, range(30))
    rows = batch("second", range(10, 40))
    tally.feed(rows)
    tally.deploy_natively(migrated(AmountsTally(), migrations=scripts.directory))
    expected.process(rows, AMOUNTS)
    folder = scripts.write(nested=NESTED_SCRIPT)
    plan = backfill(tally.checkpoint, migrations=folder, keys_per_chunk=20)
    assert plan == BackfillPlan(40, 2, {"tally": 10, f"tally@{AMOUNTS}": 30}, 0)
    processor = migrated(NestedTally(), migrations=folder)
    query = tally.start(tally.result(processor), availableNow=True)
    assert query.awaitTermination(60)
    expected.drain(NESTED)
    assert tally.all_state() == expected.stored(CENTS, AMOUNTS, NESTED)
    assert tally.handed_rows == expected.output
    assert backfill(tally.checkpoint, migrations=folder).keys == 0


@pytest.mark.long
def test_a_paused_backfill_is_resumed_by_planning_again(tally, scripts):
    folder = scripts.write()
    expected = begun(tally, range(40))
    backfill(tally.checkpoint, migrations=folder, keys_per_chunk=11)
    tally.fail_on = {2}
    with pytest.raises(StreamingQueryException):
        tally.deploy_natively(migrated(StrictAmounts(), migrations=folder))
    # Of four chunks one was committed, one was being processed, two are waiting.
    status = backfill_status(tally.checkpoint, migrations=folder)
    assert (status.chunks, status.consumed, status.waiting) == (4, 1, 2)
    assert 0 < status.keys_left < 40
    assert pause_backfill(tally.checkpoint) == 2
    assert pause_backfill(tally.checkpoint) == 0
    paused = backfill_status(tally.checkpoint, migrations=folder)
    assert (paused.keys_left, paused.chunks, paused.waiting) == (status.keys_left, 0, 0)
    assert len(tally.chunks()) == 1, "only the chunk being processed is kept"
    again = backfill(tally.checkpoint, migrations=folder, keys_per_chunk=11)
    assert again.keys == status.keys_left
    tally.deploy_natively(migrated(StrictAmounts(), migrations=folder))
    expected.drain(AMOUNTS)
    assert tally.all_state() == expected.stored(CENTS, AMOUNTS)
    assert tally.handed_rows == expected.output


def test_planning_and_pausing_while_the_query_runs(tally, scripts):
    folder = scripts.write()
    expected = begun(tally, range(60))
    query = tally.start(tally.result(migrated(StrictAmounts(), migrations=folder)))
    try:
        live = [batch(f"live {number}", range(number, 60, 7)) for number in range(3)]
        for rows in live:
            expected.process(rows, AMOUNTS)
        tally.feed(*live)
        backfill(tally.checkpoint, migrations=folder, keys_per_chunk=3)
        pause_backfill(tally.checkpoint)
        backfill(tally.checkpoint, migrations=folder, keys_per_chunk=25)
        query.processAllAvailable()
    finally:
        query.stop()
    expected.drain(AMOUNTS)
    assert tally.all_state() == expected.stored(CENTS, AMOUNTS)
    assert tally.handed_rows == expected.output
    assert backfill_status(tally.checkpoint, migrations=folder).is_finished


@pytest.mark.long
def test_a_later_plan_works_whatever_time_its_files_have_and_goes_back(tally, scripts):
    folder = scripts.write()
    expected = begun(tally, range(12))
    backfill(tally.checkpoint, migrations=folder, keys_per_chunk=12)
    (chunk,) = (tally.checkpoint / "statemigrate/control/chunks").rglob("*.parquet")
    later = chunk.stat().st_mtime + 60 * 24 * 3600
    os.utime(chunk, (later, later))
    tally.deploy_natively(migrated(AmountsTally(), migrations=folder))
    expected.drain(AMOUNTS)
    assert tally.all_state() == expected.stored(CENTS, AMOUNTS)
    # Sixty days older than the newest file the source has seen.
    backfill(tally.checkpoint, migrations=folder, targets=BASE, keys_per_chunk=6)
    tally.deploy_natively(migrated(CentsTally(), migrations=folder, targets=BASE))
    expected.drain(CENTS)
    assert tally.all_state() == expected.stored(CENTS, AMOUNTS)
    status = backfill_status(tally.checkpoint, migrations=folder, targets=BASE)
    assert (status.keys_left, status.chunks, status.consumed) == (0, 2, 2)


@pytest.fixture
def words(spark, tmp_path) -> ControlPipeline:
    return ControlPipeline(spark, tmp_path / "pipeline", rows=ROWS, output=OUTPUT)


@pytest.mark.skipif(spark_version() < (4, 1), reason="PySpark 4.0 has neither lists nor rows")
@pytest.mark.long
@pytest.mark.parametrize(("old", "new"), [(Words, NewWords), (WordsInPandas, NewWordsInPandas)])
def test_lists_and_maps_are_drained(words, word_scripts, old, new):  # noqa: F811 - the fixture
    model = Model()
    words.in_pandas = new is NewWordsInPandas
    words.feed(FIRST)
    base = {"words": "base", "counts": "base"}
    words.deploy_natively(migrated(old(), migrations=word_scripts, targets=base))
    model.run(FIRST)
    plan = backfill(words.checkpoint, migrations=word_scripts, keys_per_chunk=5)
    assert plan == BackfillPlan(9, 2, {"words": 9, "counts": 9}, 0)
    live = [("k0", "new", "add"), ("k1", "c", "remove"), ("k8", "fresh", "add")]
    words.feed(live)
    words.deploy_natively(migrated(new(), migrations=word_scripts))
    model.run(live)
    lists, unmigrated = both_words(words)
    assert lists == {key: each for key, each in model.words.items() if each}
    assert not unmigrated
    counts, old_counts = both_counts(words)
    assert counts == {key: each for key, each in model.counts.items() if each}
    assert not old_counts


KINDS = {"words": "list", "counts": "map"}
POISON = '    if value["word"] == "c":\n        raise ValueError("no c")\n'


@pytest.mark.long
def test_quarantine_keeps_what_does_not_migrate_and_goes_on(words, word_scripts):  # noqa: F811
    for script in (word_scripts / "versions").glob("*.py"):
        text = script.read_text()
        script.write_text(text.replace("upgrade(value):\n", f"upgrade(value):\n{POISON}"))
    words.feed(FIRST)
    words.deploy_natively(Words())
    before = {name: words.state(name, kind) for name, kind in KINDS.items()}
    backfill(words.checkpoint, migrations=word_scripts, keys_per_chunk=5)
    words.deploy_natively(migrated(NewWords(), migrations=word_scripts, on_error="quarantine"))
    # A list with a c stays whole; of a map only the entry.
    good = ["k9"]
    lists = words.state("words", "list")
    assert lists == {key: each for key, each in before["words"].items() if key not in good}
    assert set(words.state(f"words@{LIST}", "list")) == set(good)
    assert words.state("counts", "map") == {
        key: {"c": entries["c"]} for key, entries in before["counts"].items() if "c" in entries
    }
    assert {key: set(each) for key, each in words.state(f"counts@{MAP}", "map").items()} == {
        key: set(entries) - {"c"} for key, entries in before["counts"].items()
    }
    status = backfill_status(words.checkpoint, migrations=word_scripts)
    assert status.is_finished
    assert status.quarantined == status.keys_left == 8
    assert status.families == {"words": 8, "counts": 8}


@pytest.mark.long
def test_a_poison_value_fails_the_batch_until_its_script_is_corrected(tally, scripts):
    poison = '    if value["cents"] == 3 * 5 + 7:\n        raise ValueError("unlucky")\n'
    folder = scripts.write(
        AMOUNTS_SCRIPT.replace("upgrade(value):\n", f"upgrade(value):\n{poison}")
    )
    expected = begun(tally, range(12))
    backfill(tally.checkpoint, migrations=folder)
    with pytest.raises(StreamingQueryException) as caught:
        tally.deploy_natively(migrated(AmountsTally(), migrations=folder))
    for part in ("Store 'tally'", "key ('k5',)", f"base to {AMOUNTS}", "ValueError: unlucky"):
        assert part in str(caught.value)
    assert tally.state("tally") == expected.stored(CENTS)["tally"]
    tally.deploy_natively(migrated(AmountsTally(), migrations=scripts.write()))
    expected.drain(AMOUNTS)
    assert tally.all_state() == expected.stored(CENTS, AMOUNTS)


@pytest.mark.long
def test_the_envelopes_of_a_function_are_drained(tally, scripts):
    deployments = Deployments(tally, scripts.write(nested=NESTED_SCRIPT))
    deployments.process(CENTS, batch("first", range(12)))
    deployments.process(AMOUNTS, batch("second", range(8, 16)))
    plan = backfill(tally.checkpoint, migrations=deployments.folder, keys_per_chunk=10)
    assert plan == BackfillPlan(16, 2, {"tally": 8, f"tally@{AMOUNTS}": 8}, 0)
    deployments.process(NESTED, batch("third", range(2)))
    deployments.expected.drain(NESTED)
    assert deployments.stored() == envelopes(deployments.expected)
    assert tally.handed_rows == deployments.expected.output
    status = backfill_status(tally.checkpoint, migrations=deployments.folder)
    assert (status.keys_left, status.consumed, status.families) == (0, 2, {})
