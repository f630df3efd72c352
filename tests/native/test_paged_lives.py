"""A life of a query on pages: it begins with an initial state, migrates, is copied, and goes on."""

import shutil

import pytest
from paged_pipeline import TallyPages, check_families
from pyspark.errors import StreamingQueryException
from support.file_hashes import file_hashes
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import backfill, backfill_status, migrated

pytestmark = [pytest.mark.spark, pytest.mark.long]
BEGUN = "begun"


def beginning(keys):
    return [(f"k{number}", 100 + number) for number in keys]


class Beginning:
    """Takes a key's first cents from the initial state."""

    def handleInitialState(self, key, initialState, timerValues):
        assert key[0] == initialState.key
        self.state.update(self.made(1, initialState.first, BEGUN, 0))


class BegunCents(Beginning, CentsTally):
    pass


class Lines(Beginning, AmountsTally):
    """Counts lines for itself, as the rows are taken from its generator, which is said."""

    kept_between_keys = ("lines",)

    def init(self, handle):
        super().init(handle)
        self.lines = 0

    def handleInputRows(self, key, rows, timer_values):
        for row in super().handleInputRows(key, rows, timer_values):
            self.lines += 1
            yield row


class Remembering(Lines):
    """Has the last key in itself only when its generator comes to its end."""

    def init(self, handle):
        super().init(handle)
        self.last = ""

    def handleInputRows(self, key, rows, timer_values):
        yield from super().handleInputRows(key, rows, timer_values)
        self.last = key[0]


class Pages(TallyPages):
    frame = None

    @property
    def more(self):
        return {} if self.frame is None else {"initialState": self.frame.groupBy("key")}


def test_a_query_that_began_with_a_state_migrates_and_goes_on_in_two_places(
    spark, tmp_path, scripts
):
    pages, expected, folder = Pages(spark, tmp_path, pages=8), Expected(), scripts.write()
    pages.frame = spark.createDataFrame(beginning(range(20)), "key STRING, first BIGINT")
    pages.feed(rows := batch("first", range(15, 30)))
    pages.deploy_natively(BegunCents())
    for key, first in beginning(range(20)):
        expected.values[key] = [1, first, BEGUN, 0, CENTS]
    expected.process(rows, CENTS)
    check_families(pages, expected, CENTS)

    # The initial state is for the first batch of all, whatever is given later.
    pages.frame = spark.createDataFrame(beginning([1, 40]), "key STRING, first BIGINT")
    mark = migrated(migrations=folder)
    pages.feed(rows := batch("second", range(4)))
    before = pages.stored_pages()
    with pytest.raises(StreamingQueryException, match="ProcessorError: Remembering keeps"):
        pages.deploy_natively(migrated(Remembering(), migrations=folder))
    assert pages.stored_pages() == before
    pages.deploy_natively(mark(Lines)())
    expected.process(rows, AMOUNTS)
    pages.moved_along(expected, range(4), AMOUNTS)
    check_families(pages, expected, CENTS, AMOUNTS)

    plan = backfill(pages.checkpoint, migrations=folder, keys_per_chunk=2)
    assert plan.chunks > 1
    shutil.copytree(pages.checkpoint, tmp_path / "copy")
    copy = Pages(spark, tmp_path, pages=8, checkpoint_directory=tmp_path / "copy")
    pages.feed(rows := batch("third", range(10, 35)))
    original, both = file_hashes(pages.checkpoint), expected.copy()
    for each, model in ((copy, both), (pages, expected)):
        if each is pages:
            assert file_hashes(pages.checkpoint) == original
        each.deploy_natively(migrated(Lines(), migrations=folder))
        model.process(rows, AMOUNTS)
        model.drain(AMOUNTS)
        check_families(each, model, AMOUNTS)
        status = backfill_status(each.checkpoint, migrations=folder)
        assert (status.keys_left, status.consumed, status.waiting) == (0, plan.chunks, 0)
    # Each goes its own way.
    pages.feed(rows := batch("fourth", range(3)))
    copy.deploy_natively(migrated(Lines(), migrations=folder, targets={"tally": AMOUNTS}))
    both.process(rows, AMOUNTS)
    check_families(copy, both, AMOUNTS)
    check_families(pages, expected, AMOUNTS)
