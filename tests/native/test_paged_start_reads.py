"""A start on pages reads them where an older family may be in one, and else hardly ever."""

from dataclasses import replace

import pytest
from paged_pipeline import TallyPages
from pyspark.errors import StreamingQueryException
from tally import AMOUNTS, AmountsTally, CentsTally, batch

from statemigrate import migrated
from statemigrate.files import LocalFiles
from statemigrate.pages.record import (
    RECORD,
    LastReading,
    record_document,
)
from statemigrate.pages.record import (
    read_pages_record as read_record,
)

pytestmark = pytest.mark.spark
KEYS = range(12)
NEW = f"tally@{AMOUNTS}"


def jobs(pipeline, processor):
    """How many jobs Spark runs for a start's check."""
    context = pipeline.spark.sparkContext
    context.setJobGroup("check", "a start's check")
    before = len(context.statusTracker().getJobIdsForGroup("check"))
    try:
        pipeline.result(processor)
    finally:
        context.setJobGroup("other", "")
    return len(context.statusTracker().getJobIdsForGroup("check")) - before


def reading(pipeline):
    found = read_record(LocalFiles(pipeline.checkpoint)).reading
    return None if found is None else (found.batch, found.families)


@pytest.mark.long
def test_pages_are_read_as_long_as_one_may_have_an_older_family(spark, tmp_path, scripts):
    tally = TallyPages(spark, tmp_path / "tally", pages=3)
    tally.feed(*(batch(each, KEYS) for each in "abcd"))
    tally.deploy_natively(CentsTally())
    assert reading(tally) is None
    assert jobs(tally, CentsTally()) > 0
    tally.feed(batch("e", KEYS))
    tally.deploy_natively(CentsTally())
    assert reading(tally) == (3, {"tally"})
    assert jobs(tally, CentsTally()) == 0

    folder = scripts.write()
    assert jobs(tally, migrated(AmountsTally(), migrations=folder)) > 0
    tally.feed(batch("f", range(1)), batch("g", KEYS))
    tally.deploy_natively(migrated(AmountsTally(), migrations=folder))
    # What was written since is taken for full, and what was full for full, until pages are read.
    assert reading(tally) == (4, {"tally", NEW})
    assert jobs(tally, migrated(AmountsTally(), migrations=folder)) > 0
    tally.feed(batch("h", KEYS))
    tally.deploy_natively(migrated(AmountsTally(), migrations=folder))
    assert reading(tally) == (6, {NEW})
    assert jobs(tally, migrated(AmountsTally(), migrations=folder)) == 0
    # The way back finds the values that it has to take.
    back = migrated(CentsTally(), migrations=folder, targets={"tally": "base"})
    assert jobs(tally, back) > 0

    # A record that knows too little costs no value: the page that is visited is compared.
    before, files = tally.stored_pages(), LocalFiles(tally.checkpoint)
    record = read_record(files)
    known = LastReading(record.reading.query, 7, frozenset({"tally"}))
    files.replace(RECORD, record_document(replace(record, stores={}, reading=known)))
    tally.feed(batch("i", KEYS))
    with pytest.raises(StreamingQueryException, match="which was not there when the query was"):
        tally.deploy_natively(CentsTally())
    assert tally.stored_pages() == before
