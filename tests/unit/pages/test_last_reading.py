"""What a start may go by of what an earlier one read in the pages."""

from statemigrate.files import LocalFiles
from statemigrate.pages.record import (
    RECORD,
    LastReading,
    PagesRecord,
    record_document,
)
from statemigrate.pages.record import (
    read_pages_record as read_record,
)

LAST = LastReading("one", 3, frozenset({"tally", "tally@aaaa"}))


def test_it_is_good_for_the_query_and_for_twice_as_many_batches():
    assert [LAST.is_good_for("one", at) for at in (2, 3, 6, 7)] == [False, True, True, False]
    assert not LAST.is_good_for("other", 3)
    assert not LAST.is_good_for(None, -1)


def test_it_is_in_the_record_and_one_without_it_is_as_releases_before_wrote_it(tmp_path):
    files, key = LocalFiles(tmp_path), {"type": "struct", "fields": []}
    for reading in (LAST, None):
        record = PagesRecord(4, key, {}, "d", frozenset({"x"}), reading)
        files.replace(RECORD, record_document(record))
        assert read_record(files) == record
    assert "reading" not in record.to_json()
