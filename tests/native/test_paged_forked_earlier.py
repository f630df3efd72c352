"""A fork of an earlier batch knows of its pages what was true then, and nothing that came later."""

import pytest
from paged_pipeline import PagedPipeline
from tally import AMOUNTS, CENTS, CentsTally, batch
from two_paged import SEEN, Counts, Model, NewCounts, NewTally, Tally, TwoPaged, write_scripts

from statemigrate import fork, migrated, status
from statemigrate.errors import StartupError
from statemigrate.files.open import open_files
from statemigrate.pages.record import records

pytestmark = [pytest.mark.spark, pytest.mark.long]
KEYS, NAMES = 12, 4


def rows(numbers):
    return [(f"k{number}", 3 * number + 7, f"n{number % NAMES}") for number in numbers]


def test_a_fork_of_a_batch_before_a_migration_is_at_the_revision_of_that_batch(
    spark, scripts, tmp_path
):
    """One of the two operators has no name, so that both kinds of records are there."""
    query = TwoPaged(spark, tmp_path / "two", names=(None, "counts"))
    model, folder = Model(), write_scripts(scripts)
    query.feed(model.add(rows(range(KEYS))))
    query.deploy_natively((Tally(), Counts()))
    first = Model()
    first.add(rows(range(KEYS)))
    query.feed(model.add(rows([3])))
    query.deploy_natively(
        (migrated(NewTally(), migrations=folder), migrated(NewCounts(), migrations=folder))
    )
    named = {"tally": "", "counts": "counts"}
    for at, revisions in ((0, (CENTS, CENTS)), (1, (AMOUNTS, SEEN))):
        new = tmp_path / f"fork-{at}"
        fork(query.checkpoint, new, at_batch=at)
        for (store, operator), revision in zip(named.items(), revisions, strict=True):
            (found,) = status(new, migrations=folder, operator=operator, revisions=True).stores
            assert (found.store, found.revision) == (store, revision)
            assert records(open_files(new))[operator].stores[store].target.revision == revision
    # The code of that batch goes on there, with what came after it.
    forked = TwoPaged(
        spark, query.root, names=query.names, checkpoint_directory=tmp_path / "fork-0"
    )
    assert forked.values("tally", None, "") == first.old_tallies()
    forked.deploy_natively((Tally(), Counts()))
    assert forked.values("tally", None, "") == model.old_tallies()
    assert forked.values("counts", None, "counts") == model.old_counts()


def test_a_fork_of_an_earlier_batch_has_what_its_operator_meant_then(spark, tmp_path):
    pipeline = PagedPipeline(spark, tmp_path / "pipeline")
    pipeline.feed(batch("first", range(4)))
    pipeline.deploy_natively(CentsTally())
    rows = pipeline.stream()
    pipeline.feed(batch("second", range(4)))
    with pytest.raises(StartupError) as raised:
        pipeline.deploy_natively(CentsTally(), rows.where("cents > 7"))
    pipeline.more = {"accept": dict.fromkeys(raised.value.data["accept"], "small ones are noise")}
    pipeline.deploy_natively(CentsTally(), rows.where("cents > 7"))
    copy = tmp_path / "fork"
    fork(pipeline.checkpoint, copy, at_batch=0)
    pipeline.more, pipeline.checkpoint_directory = {}, copy
    records = copy / "statemigrate/operator-meaning/pages"
    assert [each.name for each in records.glob("[0-9]*")] == ["0"]
    pipeline.deploy_natively(CentsTally())
    # It has as many batches now as the original, which another filter was accepted for.
    pipeline.feed(batch("third", range(4)))
    pipeline.deploy_natively(CentsTally())
