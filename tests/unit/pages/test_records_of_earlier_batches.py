"""A record of pages goes back to what was true at any batch that is still there."""

import pytest

from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.errors import CheckpointError
from statemigrate.files import LocalFiles
from statemigrate.formats import Struct
from statemigrate.pages.record import (
    RECORD,
    LastReading,
    PagesRecord,
    read_pages_record,
    record_document,
)
from statemigrate.rewrite.fork import record_then

KEY = {"type": "struct", "fields": []}


def made(*revisions, deployment="", reading=None):
    """The record of a deployment that writes the first of these families, and reads the others."""
    families = tuple(StoredFamily(f"tally@{r}", r, Struct(f"{r} INT")) for r in revisions)
    stores = {"tally": StoredStore("value", families)} if families else {}
    return PagesRecord(4, KEY, stores, deployment, frozenset(), reading)


def revisions(record):
    return [each.revision for each in record.stores["tally"].families]


def started(*starts, oldest=0):
    """The record after these starts, each after the last batch that was committed by then."""
    left = None
    for committed, record in starts:
        left = record.after(left, committed, oldest)
    return left


def test_each_batch_has_the_record_of_the_start_that_wrote_it():
    last = started((-1, made("a")), (3, made("b", "a")), (7, made("b")))
    assert [revisions(last.at(batch)) for batch in (0, 3, 4, 7, 8, 20)] == [
        ["a"], ["a"], ["b", "a"], ["b", "a"], ["b"], ["b"]
    ]  # fmt: skip
    assert [each.since for each in (last, *last.earlier)] == [8, 4, 0]
    # What it goes back to can go back further.
    assert revisions(last.at(5).at(2)) == ["a"]
    assert last.at(5).earlier == last.earlier[1:]


def test_a_start_of_the_same_code_adds_nothing():
    once = started((-1, made("a", deployment="one")))
    again = started((-1, made("a", deployment="one")), (5, made("a", deployment="two")))
    assert (again.since, again.earlier, again.deployment) == (0, (), "two")
    assert once.describes() == again.describes()


def test_a_start_without_a_batch_leaves_no_record():
    last = started((-1, made("a")), (3, made("b", "a")), (3, made("c", "a")))
    assert [each.since for each in (last, *last.earlier)] == [4, 0]
    assert revisions(last.at(9)) == ["c", "a"]


def test_records_of_batches_that_are_gone_are_dropped():
    starts = [(4 * number - 1, made(f"r{number}")) for number in range(5)]
    assert [each.since for each in started(*starts, oldest=8).earlier] == [12, 8]
    assert [each.since for each in started(*starts, oldest=7).earlier] == [12, 8, 4]


def test_what_was_read_later_is_no_reading_of_an_earlier_batch():
    reading = LastReading("one", 6, frozenset({"tally@b"}))
    last = started((-1, made("a")), (6, made("b", reading=reading)))
    assert last.at(7).reading == reading
    assert last.at(6).reading is None
    # A start of the same code has read the pages anew.
    again = made("b", reading=LastReading("one", 12, frozenset({"tally@b"}))).after(last, 12, 0)
    assert again.since == 7
    assert again.at(8).reading is None


def test_a_record_is_read_as_it_was_written(tmp_path):
    files = LocalFiles(tmp_path)
    record = started((-1, made("a")), (3, made("b", "a")))
    files.replace(RECORD, record_document(record))
    assert read_pages_record(files) == record
    assert record_then(files, RECORD, 2) == record_document(record.at(2))


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (made("a").after(made("b"), 3, 0), "what they had at later batches"),
        (made("a"), "does not say since when"),
    ],
)
def test_what_no_record_says_of_a_batch_is_refused(tmp_path, record, found):
    files = LocalFiles(tmp_path)
    files.replace(RECORD, record_document(record))
    with pytest.raises(CheckpointError, match=found) as caught:
        record_then(files, RECORD, 2)
    assert caught.value.code == "SM-FORK-008"
    assert caught.value.data["path"] == f"{tmp_path}/{RECORD}"
