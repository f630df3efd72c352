"""The log of queries with Spark's own state, in variables, in pages and in envelopes."""

import shutil

import pytest
from click.testing import CliRunner
from control_pipeline import ControlPipeline
from function_deployments import Deployments
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from tally import AMOUNTS, CENTS, FAMILIES, AmountsTally, CentsTally, batch
from tally_functions import Tally

from statemigrate import backfill, fork, migrated, pause_backfill, status
from statemigrate.cli import main
from statemigrate.commands.current import log
from statemigrate.errors import StorageError
from statemigrate.event_log.events import CODE_VERSION
from statemigrate.event_log.log import LOG
from statemigrate.native.operators import chunk_files

pytestmark = pytest.mark.spark


def told(pipeline):
    """Oldest first: what each entry says that is not of this moment."""
    return [
        (each.verb, each.batch, each.before, each.revision, each.outcome, each.code)
        for each in reversed(log(pipeline.checkpoint).entries)
    ]


@pytest.fixture(params=[NativePipeline, PagedPipeline])
def pipeline(request, spark, tmp_path, monkeypatch):
    monkeypatch.setenv(CODE_VERSION, "release-1")
    return request.param(spark, tmp_path / "pipeline")


@pytest.fixture
def deploy(pipeline, scripts):
    """Start code for a revision on what is in the input."""
    folder = scripts.write()

    def one(processor, revision, rows):
        targets = {"tally": revision}
        # Pages have their checkpoint from `paged`.
        place = {} if isinstance(pipeline, PagedPipeline) else {"checkpoint": pipeline.checkpoint}
        made = migrated(processor, migrations=folder, targets=targets, **place)
        pipeline.feed(rows)
        pipeline.deploy_natively(made)

    return one


@pytest.mark.long
def test_deployments_are_told_once_each_and_copies_take_the_log_along(
    pipeline, deploy, scripts, spark, tmp_path, monkeypatch
):
    deploy(CentsTally(), CENTS, batch("first", range(12)))
    deploy(CentsTally(), CENTS, batch("second", range(3)))
    monkeypatch.setenv(CODE_VERSION, "release-2")
    deploy(AmountsTally(), AMOUNTS, batch("third", range(3)))
    expected = [
        ("start", 0, None, CENTS, "done", "release-1"),
        ("start", 2, CENTS, AMOUNTS, "done", "release-2"),
    ]
    assert told(pipeline) == expected
    upgrade = log(pipeline.checkpoint).entries[0]
    assert upgrade.spark == spark.version
    (store,) = status(
        pipeline.checkpoint, migrations=scripts.directory, spark=spark, revisions=True
    ).stores
    assert (store.revision, store.older, store.since) == (AMOUNTS, (CENTS,), upgrade.time)
    assert (store.code, store.message, store.is_head) == ("release-2", "Change amounts", True)
    fork(pipeline.checkpoint, tmp_path / "last")
    fork(pipeline.checkpoint, tmp_path / "earlier", at_batch=1)
    forks = {name: log(tmp_path / name).entries for name in ("last", "earlier")}
    assert [(each.verb, each.batch, each.details) for each in forks["last"][:1]] == [
        ("fork", 2, {"from": str(pipeline.checkpoint)})
    ]
    assert [each.revision for each in forks["last"][1:]] == [AMOUNTS, CENTS]
    assert [(each.verb, each.batch) for each in forks["earlier"]] == [("fork", 1), ("start", 0)]


@pytest.mark.long
def test_what_a_query_with_variables_drops_is_logged(spark, tmp_path, scripts, monkeypatch):
    monkeypatch.setenv(CODE_VERSION, "release-1")
    pipeline = NativePipeline(spark, tmp_path / "pipeline")
    folder = scripts.write()

    def deploy(processor, revision, rows):
        targets = {"tally": revision}
        made = migrated(
            processor, migrations=folder, targets=targets, checkpoint=pipeline.checkpoint
        )
        pipeline.feed(rows)
        pipeline.deploy_natively(made)

    deploy(CentsTally(), CENTS, batch("first", range(4)))
    for name in ("second", "third", "fourth"):
        deploy(AmountsTally(), AMOUNTS, batch(name, range(4)))
    found = log(pipeline.checkpoint).entries
    assert [(each.verb, each.batch, each.outcome) for each in reversed(found)] == [
        ("start", 0, "done"),
        ("start", 1, "done"),
        ("retire", 2, "done"),
    ]
    assert (found[0].revision, found[0].families) == (AMOUNTS, (FAMILIES[AMOUNTS],))
    assert found[0].details == {"dropped": FAMILIES[CENTS]}


@pytest.mark.long
def test_what_an_older_release_did_is_found(pipeline, deploy, monkeypatch):
    deploy(CentsTally(), CENTS, batch("first", range(12)))
    shutil.rmtree(pipeline.checkpoint / LOG)
    deploy(AmountsTally(), AMOUNTS, batch("second", range(3)))
    assert told(pipeline) == [
        ("found", 0, None, CENTS, "done", None),
        ("start", 1, CENTS, AMOUNTS, "done", "release-1"),
    ]


def test_without_the_right_to_write_the_log_no_batch_runs(pipeline, deploy):
    (pipeline.checkpoint / LOG).parent.mkdir(parents=True)
    # A file where the folder should be: what is run as root may write anywhere.
    (pipeline.checkpoint / LOG).write_text("")
    with pytest.raises(Exception, match="cannot be written") as caught:
        deploy(CentsTally(), CENTS, batch("first", range(3)))
    assert "give the user that runs the query" in str(caught.value)
    assert not list((pipeline.checkpoint / "commits").glob("[0-9]*"))


@pytest.mark.long
def test_a_function_tells_of_its_first_start_too(spark, tmp_path, scripts, monkeypatch):
    monkeypatch.setenv(CODE_VERSION, "release-1")
    pipeline = NativePipeline(spark, tmp_path / "pipeline")
    deployments = Deployments(pipeline, scripts.write())
    place = {"checkpoint": str(pipeline.checkpoint)}
    # Wrapped and not started, as by a notebook's cell that is run again.
    deployments.wrapped(Tally(CENTS), CENTS, **place)
    begun = [path.name for path in (pipeline.checkpoint / LOG).iterdir()]
    assert len(begun) == 1
    deployments.run(CENTS, batch("first", range(12)), **place)
    assert told(pipeline) == [("start", 0, None, CENTS, "done", "release-1")]
    monkeypatch.setenv(CODE_VERSION, "release-2")
    for name in ("second", "third"):
        deployments.run(AMOUNTS, batch(name, range(3)), **place)
    assert told(pipeline) == [
        ("start", 0, None, CENTS, "done", "release-1"),
        ("start", 1, CENTS, AMOUNTS, "done", "release-2"),
    ]
    targets = {"tally": AMOUNTS}
    found = status(
        pipeline.checkpoint,
        migrations=deployments.folder,
        targets=targets,
        spark=spark,
        revisions=True,
    )
    assert [each.store for each in found.stores] == ["tally"]


def test_where_the_log_cannot_be_written_no_function_is_wrapped(spark, tmp_path, scripts):
    pipeline = NativePipeline(spark, tmp_path / "pipeline")
    deployments = Deployments(pipeline, scripts.write())
    (pipeline.checkpoint / LOG).parent.mkdir(parents=True)
    (pipeline.checkpoint / LOG).write_text("")
    with pytest.raises(StorageError, match="cannot be written") as caught:
        deployments.wrapped(Tally(CENTS), CENTS, checkpoint=str(pipeline.checkpoint))
    assert "nothing was done yet" in caught.value.next_action
    assert not (pipeline.checkpoint / "metadata").exists()


@pytest.fixture(params=[ControlPipeline, PagedPipeline])
def planned(request, spark, tmp_path, scripts):
    """A query with the backfill source whose values are all of the old revision."""
    made = request.param(spark, tmp_path / "pipeline")
    made.feed(batch("first", range(12)))
    scripts.write()
    made.deploy_natively(CentsTally())
    return made


def backfills(pipeline):
    """Oldest first: the batch and the details of what was told of backfills."""
    entries = reversed(log(pipeline.checkpoint).entries)
    return [(each.batch, each.details) for each in entries if each.verb == "backfill"]


@pytest.mark.long
def test_plans_and_pauses_of_a_backfill_are_told(planned, scripts):
    at, folder = planned.checkpoint, scripts.directory
    first = backfill(at, migrations=folder, keys_per_chunk=5)
    paused = pause_backfill(at)
    # Nothing is left to withdraw, and so there is nothing to tell.
    pause_backfill(at)
    again = backfill(at, migrations=folder, share=0.25)
    faster = backfill(at, migrations=folder, keys_per_second=300.0)
    families = ", ".join(first.families)
    keys = {"step": "planned", "keys": str(first.keys), "families": families}
    assert (again.withdrawn, faster.withdrawn) == (0, 1)
    assert backfills(planned) == [
        (0, {**keys, "chunks": str(first.chunks)}),
        (0, {"step": "paused", "withdrawn": str(paused)}),
        (0, {**keys, "share": "0.25"}),
        (0, {**keys, "withdrawn": "1", "share": "0.5", "keys_per_second": "300"}),
    ]
    shown = CliRunner().invoke(main, ["history", "--checkpoint", str(at)], env={"COLUMNS": "200"})
    assert f"backfill paused; withdrawn {paused}" in shown.output
    assert (
        f"backfill planned; chunks {first.chunks}, families {families}, keys {first.keys}"
        in shown.output
    )


@pytest.mark.long
def test_where_the_log_cannot_be_written_nothing_is_planned_or_paused(planned, scripts):
    at, folder = planned.checkpoint, scripts.directory
    backfill(at, migrations=folder, keys_per_chunk=5)
    chunks = chunk_files(str(at)).written()
    assert chunks
    shutil.rmtree(at / LOG)
    (at / LOG).write_text("")
    for call in (lambda: backfill(at, migrations=folder), lambda: pause_backfill(at)):
        with pytest.raises(StorageError, match="cannot be written") as caught:
            call()
        assert "nothing was done yet" in caught.value.next_action
    assert chunk_files(str(at)).written() == chunks
