"""A query that is forked goes on in the new place as it would have in the old one."""

import json
import shutil

import pytest
from support.pages import DOCS, Page, Reader

import statemigrate
from statemigrate.checkpoint.shape import describe
from statemigrate.event_log.log import read_event
from statemigrate.files import LocalFiles

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

FORKED = [
    ("windows", "hdfs"),
    ("windows", "rocksdb"),
    ("windows", "changelogs"),
    ("windows", "rocksdb with ids"),
    ("join", "changelogs with ids"),
    ("variables", "rocksdb"),
    ("variables", "changelogs"),
    ("variables", "changelogs with ids"),
]


@pytest.mark.parametrize(("name", "way"), FORKED)
def test_a_fork_of_any_batch_goes_on_as_the_query_did(spark, tmp_path, name, way):
    from state_queries import WAYS, StateQuery

    old = StateQuery(spark, tmp_path / "query", name)
    for batch in range(4):
        old.feed(batch)
    old.run(**WAYS[way])
    last = max(old.output)
    middle = statemigrate.fork(old.checkpoint, tmp_path / "middle", at_batch=1)
    newest = statemigrate.fork(str(old.checkpoint), f"{tmp_path}/newest")
    assert (middle.batch, newest.batch) == (1, last)
    again = StateQuery(spark, old.root, name, tmp_path / "middle")
    again.run(**WAYS[way])
    # The files of the batches after the fork are taken again, one a batch.
    assert again.output == {batch: found for batch, found in old.output.items() if batch > 1}
    for batch in (4, 5):
        old.feed(batch)
    old.run(**WAYS[way])
    # From here nothing can come from the old place.
    shutil.move(old.checkpoint, tmp_path / "away")
    for place in ("middle", "newest"):
        query = StateQuery(spark, old.root, name, tmp_path / place)
        query.run(**WAYS[way])
        assert query.output == {b: found for b, found in old.output.items() if b > last}
    assert sum(map(len, query.output.values()))


def test_a_fork_keeps_the_last_two_entries_and_the_query(made, tmp_path):
    old = made("variables", "changelogs with ids").checkpoint
    done = statemigrate.fork(old, tmp_path / "new", at_batch=2)
    new = LocalFiles(tmp_path / "new")
    shape, expected = describe(new), describe(LocalFiles(old), 2)
    assert shape == expected
    assert (tmp_path / "new/metadata").read_bytes() == (old / "metadata").read_bytes()
    assert {each.base_name for each in new.list("offsets")} == {"1", "2"}
    assert {each.base_name for each in new.list("commits")} == {"1", "2"}
    assert {each.base_name for each in new.list("sources/0")} == {"0", "1", "2"}
    files = new.list(recursive=True)
    assert done.files == len(files)
    assert done.bytes == sum(each.size for each in files)
    # Of its own the fork has what its log says of how it was made, and nothing else.
    (own,) = {each.name for each in files} - {
        each.name for each in LocalFiles(old).list(recursive=True)
    }
    event = read_event(new, own)
    assert (event.verb, event.batch, event.details["from"]) == ("fork", 2, str(old))
    for each in files:
        if each.name != own and not each.name.startswith("state/0/_metadata/v2"):
            assert new.get(each.name) == (old / each.name).read_bytes(), each.name
            assert (tmp_path / "new" / each.name).stat().st_ino != (old / each.name).stat().st_ino
    text = (tmp_path / "new/state/0/_metadata/v2/0").read_text()
    assert f"file:{tmp_path}/new/state/0/_stateSchema" in text
    assert str(old) not in text


def test_a_fork_may_have_an_id_of_its_own(made, tmp_path):
    old = made("aggregation", "hdfs").checkpoint
    done = statemigrate.fork(old, tmp_path / "new", new_id=True)
    assert json.loads((tmp_path / "new/metadata").read_text()) == {"id": done.query_id}
    assert done.query_id != json.loads((old / "metadata").read_text())["id"]


def test_the_page_does_what_it_says(made, tmp_path):
    reader = Reader(tmp_path, tmp_path / "saved")
    shutil.copytree(made("aggregation", "hdfs").checkpoint, tmp_path / "checkpoints/orders")
    (block,) = Page(DOCS / "fork.md").blocks
    reader._do(block)
    assert describe(LocalFiles(tmp_path / "backup/orders")).batch == 3
    assert describe(LocalFiles(tmp_path / "staging/orders")).batch == 2
