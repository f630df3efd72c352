"""An operator in one call: on the first day, on the day of a change, on pages, and refused."""

from functools import partial

import pytest
from pyspark.sql import functions as F  # noqa: N812
from support.file_hashes import file_hashes
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import backfill, migrated, paged, stateful, status, with_backfill
from statemigrate.deployment.code import only_looking
from statemigrate.errors import StartupError
from statemigrate.native.adoption import undo_adoption
from statemigrate.native.deployment_check import call_of

pytestmark = pytest.mark.spark


class Story:
    """A query of cents that goes on with amounts, each deployed by one call."""

    def __init__(self, pipeline, folder):
        self.pipeline, self.folder, self.expected = pipeline, folder, Expected()

    def feed(self, name, keys, target):
        rows = batch(name, keys)
        self.pipeline.feed(rows)
        self.expected.process(rows, target)

    def result(self, processor, **options):
        given = {"by": self.pipeline.by, "output": self.pipeline.output, **options}
        return stateful(
            self.pipeline.stream(),
            processor=processor,
            checkpoint=self.pipeline.checkpoint,
            migrations=self.folder,
            **given,
        )

    def run(self, processor, **options):
        query = self.pipeline.start(self.result(processor, **options))
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return query

    def check(self):
        assert self.pipeline.handed_rows == self.expected.output


@pytest.fixture
def story(pipeline, scripts):
    return Story(pipeline, scripts.write())


@pytest.mark.long
def test_a_query_of_plain_spark_migrates_from_its_next_start_on(story):
    story.feed("one", range(8), CENTS)
    story.pipeline.deploy_natively(CentsTally())
    story.feed("two", range(4), AMOUNTS)
    story.run(AmountsTally())
    story.check()
    assert call_of(story.pipeline.checkpoint) == "stateful"
    assert story.pipeline.all_state() == story.expected.stored(CENTS, AMOUNTS)
    found = status(story.pipeline.checkpoint, migrations=story.folder, spark=story.pipeline.spark)
    assert [store.left for store in found.stores] == [4]
    backfill(story.pipeline.checkpoint, migrations=story.folder, spark=story.pipeline.spark)
    story.run(AmountsTally())
    story.expected.drain(AMOUNTS)
    assert story.pipeline.all_state() == story.expected.stored(CENTS, AMOUNTS)


@pytest.mark.long
def test_a_query_that_begins_with_it_needs_no_adoption(story):
    story.feed("one", range(3), AMOUNTS)
    story.run(AmountsTally())
    story.feed("two", range(5), AMOUNTS)
    story.run(
        migrated(AmountsTally(), migrations=story.folder, checkpoint=story.pipeline.checkpoint)
    )
    story.check()
    assert call_of(story.pipeline.checkpoint) == "migrated"
    assert story.pipeline.all_state() == story.expected.stored(AMOUNTS)
    assert not (story.pipeline.checkpoint / "statemigrate" / "adoptions").exists()


def test_code_that_is_only_tried_leaves_the_checkpoint_alone(story):
    story.feed("one", range(3), CENTS)
    story.pipeline.deploy_natively(CentsTally())
    before = file_hashes(story.pipeline.checkpoint)
    with only_looking(str(story.pipeline.root / "elsewhere")):
        story.result(AmountsTally())
    assert file_hashes(story.pipeline.checkpoint) == before


@pytest.mark.long
def test_what_is_adopted_can_be_undone_before_the_first_batch(story):
    story.feed("one", range(3), CENTS)
    story.pipeline.deploy_natively(CentsTally())
    story.result(AmountsTally())
    undo_adoption(story.pipeline.checkpoint, apply=True, wait=0.1)
    story.feed("two", range(3), CENTS)
    story.pipeline.deploy_natively(CentsTally())
    story.check()


@pytest.mark.long
def test_with_pages_the_state_of_many_keys_is_in_one(story):
    story.feed("one", range(6), AMOUNTS)
    story.run(AmountsTally(), pages=2, operator="tallies")
    story.feed("two", range(6), AMOUNTS)
    story.run(AmountsTally(), pages=2, operator="tallies")
    story.check()
    assert (story.pipeline.checkpoint / "statemigrate" / "paged" / "tallies.json").exists()
    assert "statemigrate_pages_tallies" in story.pipeline.variables()


@pytest.mark.parametrize("options", [{"operator": "tallies"}, {"operator": 0, "pages": 2}])
def test_an_operator_has_a_number_on_sparks_state_and_a_name_on_pages(story, options):
    story.feed("one", range(3), CENTS)
    story.pipeline.deploy_natively(CentsTally())
    before = file_hashes(story.pipeline.checkpoint)
    with pytest.raises(StartupError) as caught:
        story.result(migrated(AmountsTally(), migrations=story.folder), **options)
    assert caught.value.code == "SM-START-032"
    assert file_hashes(story.pipeline.checkpoint) == before


def recorded(story):
    """What the checkpoint has of batches and of what they mean, but for files of backfills."""
    found = file_hashes(story.pipeline.checkpoint)
    return {path: each for path, each in found.items() if "control" not in path.parts}


def by_parts(story, accept=None):
    """What `stateful` is made of: the stream with the backfill source, and a migrated processor."""
    pipeline = story.pipeline
    stream = with_backfill(
        pipeline.stream(), pipeline.by, checkpoint=pipeline.checkpoint, accept=accept
    )
    code = migrated(AmountsTally(), migrations=story.folder, checkpoint=pipeline.checkpoint)
    return stream.groupBy(pipeline.by).transformWithState(code, pipeline.output, "Update", "None")


def on_pages(story, accept=None):
    pipeline = story.pipeline
    code = migrated(AmountsTally(), migrations=story.folder)
    return paged(
        pipeline.stream(),
        by=pipeline.by,
        processor=code,
        output=pipeline.output,
        checkpoint=pipeline.checkpoint,
        pages=2,
        accept=accept,
    )


def in_one_call(story, accept=None, **options):
    return story.result(AmountsTally(), accept=accept, **options)


CALLS = {
    "stateful": in_one_call,
    "stateful on pages": partial(in_one_call, pages=2, operator="tallies"),
    "with_backfill and migrated": by_parts,
    "paged": on_pages,
}


@pytest.mark.long
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_filter_or_another_key_before_it_is_refused_before_the_first_batch(story, call):
    story.feed("one", range(6), AMOUNTS)
    query = story.pipeline.start(call(story))
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    before = recorded(story)
    plain = story.pipeline.stream
    (key, *_) = story.pipeline.by if isinstance(story.pipeline.by, tuple) else (story.pipeline.by,)
    call(story)
    for change, rule in (
        (lambda: plain().where(f"{key} IS NOT NULL AND length({key}) > 1"), "filter"),
        (lambda: plain().withColumn(key, F.upper(key)), "key"),
    ):
        story.pipeline.stream = change
        with pytest.raises(StartupError) as caught:
            call(story)
        assert caught.value.code == "SM-MEANING-001"
        assert rule in [each["rule"] for each in caught.value.data["changes"]]
        assert recorded(story) == before
    accept = dict.fromkeys(caught.value.data["accept"], "keys are given in capitals from now on")
    accepted = call(story, accept=accept)
    assert recorded(story) == before
    story.feed("two", range(6), AMOUNTS)
    query = story.pipeline.start(accepted)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    # It is what state means from now on.
    call(story)
    story.pipeline.stream = plain
    with pytest.raises(StartupError) as caught:
        call(story)
    assert caught.value.code == "SM-MEANING-001"


def test_a_plain_processor_behind_the_backfill_source_leaves_no_record(story):
    pipeline = story.pipeline
    plain = with_backfill(pipeline.stream(), pipeline.by, checkpoint=pipeline.checkpoint)
    plain.groupBy(pipeline.by).transformWithState(CentsTally(), pipeline.output, "Update", "None")
    assert recorded(story) == {}
    by_parts(story)
    assert recorded(story) == {}, "no query runs there"
