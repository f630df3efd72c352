"""What a query on pages is refused for at its start, by name, and what it may still do."""

import shutil

import pytest
from native_pipeline import NativePipeline
from paged_pipeline import TallyPages
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StatefulProcessor
from support.file_hashes import file_hashes
from tally import (
    AMOUNTS,
    AMOUNTS_DDL,
    AMOUNTS_SCRIPT,
    CENTS,
    CENTS_DDL,
    NESTED_SCRIPT,
    AmountsTally,
    CentsTally,
    Expected,
    Scripts,
    batch,
)

from statemigrate import dry_run, migrated
from statemigrate.errors import CheckpointError, LineageError, ScriptError, StartupError

pytestmark = pytest.mark.spark
ELSEWHERE = "ffff00000000"
WITHOUT_WAY_BACK = AMOUNTS_SCRIPT[: AMOUNTS_SCRIPT.index("def downgrade")]


def deploy_twice(pipeline, scripts):
    """Thirty values; the pages of two of them under the first migration."""
    expected, folder = Expected(), scripts.write()
    pipeline.feed(first := batch("first", range(30)))
    pipeline.deploy_natively(CentsTally())
    expected.process(first, CENTS)
    pipeline.feed(second := batch("second", range(2)))
    pipeline.deploy_natively(migrated(AmountsTally(), migrations=folder))
    expected.process(second, AMOUNTS)
    pipeline.moved_along(expected, range(2), AMOUNTS)
    return expected


@pytest.fixture(scope="module")
def _once(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("standing")
    pipeline, scripts = TallyPages(spark, root / "pipeline", pages=6), Scripts(root / "migrations")
    return pipeline, scripts, deploy_twice(pipeline, scripts)


@pytest.fixture
def standing(_once):
    """Two deployments, for tests that change nothing: they share them."""
    pipeline, scripts, expected = _once
    scripts.write()
    return pipeline, scripts, expected


def refused(pipeline, processor, error=StartupError):
    """The error that the processor is refused with; nothing of the checkpoint has changed."""
    before = file_hashes(pipeline.checkpoint)
    with pytest.raises(error) as caught:
        pipeline.result(processor)
    assert file_hashes(pipeline.checkpoint) == before
    assert caught.value.next_action
    return caught.value


def test_a_deployment_that_fits_has_both_formats(standing):
    pipeline, scripts, expected = standing
    wanted = expected.stored(CENTS, AMOUNTS)
    assert pipeline.all_state() == wanted
    assert all(wanted.values())
    assert pipeline.result(migrated(AmountsTally(), migrations=scripts.directory)).isStreaming


class ListOfCents(CentsTally):
    def init(self, handle):
        self.state = handle.getListState("tally", CENTS_DDL)


class ListOfAmounts(CentsTally):
    def init(self, handle):
        self.state = handle.getListState("tally", AMOUNTS_DDL)


REWORDED = AMOUNTS_SCRIPT + "\nREWORDED = True\n"
BASE = {"tally": "base"}
REFUSED = {
    "code of another format": (
        {},
        (CentsTally, {}),
        "schema is not the one of its target revision",
        f"amount:decimal(18,2)|cents:bigint|show tally@head|{AMOUNTS}",
    ),
    "code of another kind": (
        {},
        (ListOfAmounts, {}),
        "store tally changed its kind",
        "value state|list state|another name",
    ),
    "a script of another format": (
        {"amounts": AMOUNTS_SCRIPT.replace("cents BIGINT", "cents INT")},
        (AmountsTally, {}),
        "the format stored for revision base is not the script's",
        "cents BIGINT|cents INT|restore the script's format",
    ),
    "an edited script": (
        {"amounts": REWORDED},
        (AmountsTally, {}),
        "was edited after it was applied",
        f"checksum|accept_edited=('{AMOUNTS}',)",
    ),
    "a reverted script": (
        {"amounts": None, "nested": NESTED_SCRIPT},
        (AmountsTally, {}),
        None,
        f"follows a revision that does not exist|{AMOUNTS}|restore the missing script",
    ),
    "a revision that nobody knows": (
        {"amounts": AMOUNTS_SCRIPT.replace(AMOUNTS, ELSEWHERE)},
        (AmountsTally, {}),
        f"a family of the unknown revision {AMOUNTS}",
        f"one of base, {ELSEWHERE}|{AMOUNTS} (family tally@{AMOUNTS})|history tally",
    ),
    "no script": (
        {"amounts": None},
        (CentsTally, {}),
        "store tally has families of revisions, and not one script",
        f"the scripts of {AMOUNTS}|the family tally@{AMOUNTS} in the checkpoint|bring back",
    ),
    "scripts of another store": (
        {"amounts": AMOUNTS_SCRIPT.replace('"tally"', '"total"')},
        (CentsTally, {}),
        "store tally has families of revisions, and not one script",
        f"the scripts of {AMOUNTS}",
    ),
    "two heads": (
        {"nested": AMOUNTS_SCRIPT.replace(AMOUNTS, ELSEWHERE)},
        (AmountsTally, {}),
        None,
        f"{AMOUNTS}|{ELSEWHERE}",
    ),
    "no way back": (
        {"amounts": WITHOUT_WAY_BACK},
        (CentsTally, {"targets": BASE, "accept_edited": (AMOUNTS,)}),
        "cannot go back",
        f"family tally@{AMOUNTS} holds values|a downgrade in",
    ),
    "a target of another store": (
        {},
        (AmountsTally, {"targets": {"total": "head"}}),
        "targets names the store total",
        "one of tally|correct the name",
    ),
    "a target that is no revision": (
        {},
        (AmountsTally, {"targets": {"tally": "cccc"}}),
        None,
        "cccc",
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_start_is_refused_before_anything_is_touched(standing, reason):
    pipeline, scripts, _ = standing
    written, (made, settings), problem, told = REFUSED[reason]
    folder = scripts.write(**written)
    kinds = (StartupError,) if problem else (ScriptError, LineageError)
    error = refused(pipeline, migrated(made(), migrations=folder, **settings), kinds)
    assert problem is None or problem in str(error)
    for part in told.split("|"):
        assert part in str(error)


def test_code_without_its_mark_is_refused(standing):
    pipeline, _, _ = standing
    for code in (CentsTally(), AmountsTally(), ListOfCents()):
        error = refused(pipeline, code)
        assert error.code == "SM-START-002"
        assert "migrations=" in error.next_action


def test_what_is_no_place_of_pages_is_refused_as_on_spark(spark, standing, tmp_path):
    pipeline, scripts, _ = standing
    code = migrated(AmountsTally(), migrations=scripts.directory)
    (tmp_path / "folder" / "checkpoint").mkdir(parents=True)
    (tmp_path / "folder" / "checkpoint" / "letter.txt").write_text("dear")
    folder = TallyPages(spark, tmp_path / "folder", pages=6)
    error = refused(folder, code, CheckpointError)
    assert "is not the checkpoint of a streaming query" in str(error)
    away = TallyPages(spark, tmp_path / "away", pages=6, checkpoint_directory="nosuch:/x")
    with pytest.raises(CheckpointError, match="cannot be reached"):
        away.result(code)
    counted = TallyPages(spark, tmp_path / "counted", pages=6)
    counted.feed(batch("first", range(5)))
    query = counted.start(counted.stream().groupBy("key").count())
    query.processAllAvailable()
    query.stop()
    error = refused(counted, code, CheckpointError)
    assert "not that of a transformWithState" in str(error)
    nowhere = migrated(AmountsTally(), migrations=tmp_path / "nowhere")
    refused(pipeline, nowhere, ScriptError)
    name = "spark.sql.streaming.stateStore.providerClass"
    provider = spark.conf.get(name)
    package = "org.apache.spark.sql.execution.streaming.state"
    spark.conf.set(name, f"{package}.HDFSBackedStateStoreProvider")
    try:
        error = refused(pipeline, code)
    finally:
        spark.conf.set(name, provider)
    assert "needs the RocksDB state store provider" in str(error)


@pytest.mark.long
def test_a_call_writes_nothing_where_no_query_runs(spark, tmp_path):
    query = TallyPages(spark, tmp_path / "query", pages=6)
    query.feed(batch("first", range(3)))
    wrong = tmp_path / "wrong"
    wrong_place = TallyPages(spark, tmp_path / "query", pages=6, checkpoint_directory=str(wrong))
    started = query.start(wrong_place.result(CentsTally(), query.stream()))
    with pytest.raises(StreamingQueryException) as caught:
        started.awaitTermination(240)
    told = str(caught.value)
    assert "correct checkpoint= of paged" in told
    assert not wrong.exists()
    # What was refused has begun a batch; the right call goes on with it, and a backfill finds room.
    query.deploy_natively(CentsTally())
    expected = Expected()
    expected.process(batch("first", range(3)), CENTS)
    assert query.all_state() == expected.stored(CENTS)
    assert (query.checkpoint / "statemigrate/control/pages/chunks").is_dir()


def test_state_of_sparks_own_is_told_the_way_into_pages(spark, tmp_path):
    plain = NativePipeline(spark, tmp_path / "plain")
    plain.feed(batch("first", range(3)))
    plain.deploy_natively(CentsTally())
    pages = TallyPages(spark, tmp_path / "plain", pages=6)
    error = refused(pages, CentsTally())
    assert f"`statemigrate rewrite {plain.checkpoint} NEW --pages 6 --apply`" in error.next_action


def test_another_number_of_pages_is_told_the_way_to_it(standing):
    pipeline, _, _ = standing
    other = TallyPages(pipeline.spark, pipeline.root, pages=7)
    error = refused(other, CentsTally())
    assert (
        f"`statemigrate rewrite {pipeline.checkpoint} NEW --pages 7 --apply`" in error.next_action
    )


@pytest.fixture
def paged(spark, tmp_path):
    return TallyPages(spark, tmp_path / "paged", pages=6)


@pytest.mark.long
def test_a_script_that_failed_before_it_migrated_anything_may_be_corrected(paged, scripts):
    expected = Expected()
    paged.feed(first := batch("first", range(12)))
    paged.deploy_natively(CentsTally())
    expected.process(first, CENTS)
    poison = '    if value["cents"] == 3 * 5 + 7:\n        raise ValueError("unlucky")\n'
    text = AMOUNTS_SCRIPT.replace("upgrade(value):\n", f"upgrade(value):\n{poison}")
    code = migrated(AmountsTally(), migrations=scripts.write(text))
    paged.feed(second := batch("second", [5]))
    with pytest.raises(StreamingQueryException) as caught:
        paged.deploy_natively(code)
    for part in ("Store 'tally'", "key ('k5',)", f"base to {AMOUNTS}", "ValueError: unlucky"):
        assert part in str(caught.value)
    assert paged.all_state() == expected.stored(CENTS)
    (tried,) = dry_run("tally", paged.checkpoint, migrations=scripts.write()).families
    assert (tried.tried, tried.failed) == (12, 0)
    paged.deploy_natively(migrated(AmountsTally(), migrations=scripts.directory))
    expected.process(second, AMOUNTS)
    paged.moved_along(expected, [5], AMOUNTS)
    assert paged.all_state() == expected.stored(CENTS, AMOUNTS)
    # Now it was applied, and what it did is not what another text would do.
    scripts.write(text)
    error = refused(paged, migrated(AmountsTally(), migrations=scripts.directory))
    assert "was edited after it was applied" in str(error)
    with pytest.raises(StartupError, match="was edited after it was applied"):
        dry_run("tally", paged.checkpoint, migrations=scripts.directory)


class Seen(StatefulProcessor):
    """Code that has nothing of a tally."""

    def init(self, handle):
        self.seen = handle.getValueState("seen", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        before = self.seen.get()
        self.seen.update((sum(1 for _ in rows) + (before[0] if before else 0),))
        return iter(())

    def close(self):
        pass


def stopped_by(query, pipeline):
    """What a query that was started ends with, which has left every page as it was."""
    before = pipeline.stored_pages()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(240)
    assert pipeline.stored_pages() == before
    return str(caught.value)


@pytest.mark.long
def test_a_start_is_good_for_the_query_batch_and_time_that_it_was_checked_with(
    paged, scripts, spark, tmp_path
):
    expected, folder = deploy_twice(paged, scripts), scripts.directory

    def code():
        return migrated(AmountsTally(), migrations=folder)

    shutil.copytree(paged.checkpoint, tmp_path / "copy" / "checkpoint")
    copy = TallyPages(spark, tmp_path / "copy", pages=6)
    paged.feed(rows := batch("third", range(5)))
    elsewhere, early = copy.result(code(), paged.stream()), paged.result(code())
    told = stopped_by(paged.start(elsewhere), paged)
    assert "is not the checkpoint of the query" in told
    assert "correct checkpoint= of paged" in told
    paged.time_mode = "ProcessingTime"
    with pytest.raises(StartupError) as caught:
        paged.result(code())
    (change,) = caught.value.data["changes"]
    assert (change["verdict"], "Spark does not start" in change["text"]) == ("rewrite", True)
    paged.time_mode = "None"
    paged.deploy_natively(code())
    expected.process(rows, AMOUNTS)
    paged.moved_along(expected, range(5), AMOUNTS)
    # What code without a tally leaves alone is there when it comes back.
    paged.feed(batch("passed over", range(30)))
    paged.deploy_natively(Seen())
    assert paged.all_state() == expected.stored(CENTS, AMOUNTS)
    paged.feed(rows := batch("fourth", range(2)))
    told = stopped_by(paged.start(early), paged)
    assert "was compared with" in told
    assert "at another batch" in told
    assert "call paged" in told
    paged.deploy_natively(code())
    expected.process(rows, AMOUNTS)
    paged.moved_along(expected, range(2), AMOUNTS)
    assert paged.all_state() == expected.stored(CENTS, AMOUNTS)
