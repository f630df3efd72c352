"""The log of queries with Spark's own state, in variables, in pages and in envelopes."""

import shutil

import pytest
from function_deployments import Deployments
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, batch

from statemigrate import current, fork, log, migrated
from statemigrate.logbook.code import CODE_VERSION
from statemigrate.logbook.folder import LOG

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
    (store,) = current(pipeline.checkpoint, migrations=scripts.directory, spark=spark).stores
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


def test_a_function_tells_from_its_second_start_on(spark, tmp_path, scripts, monkeypatch):
    monkeypatch.setenv(CODE_VERSION, "release-1")
    pipeline = NativePipeline(spark, tmp_path / "pipeline")
    deployments = Deployments(pipeline, scripts.write())
    place = {"checkpoint": str(pipeline.checkpoint)}
    deployments.run(CENTS, batch("first", range(12)), **place)
    assert told(pipeline) == []
    for name in ("second", "third"):
        deployments.run(AMOUNTS, batch(name, range(3)), **place)
    assert told(pipeline) == [("start", 1, None, AMOUNTS, "done", "release-1")]
    targets = {"tally": AMOUNTS}
    found = current(
        pipeline.checkpoint, migrations=deployments.folder, targets=targets, spark=spark
    )
    assert [each.store for each in found.stores] == ["tally"]
