"""A checkpoint that an older release has written is opened, and its query goes on from there.

``releases/0.1.tar.xz`` was written by 0.1.0: two partitions, five batches, snapshots and changelogs
of each, two revisions; with it are its input and all that a reader found in it then.
"""

import json
import tarfile
from pathlib import Path

import pytest
from support.histories.lives import Deployment, backfill, look, run
from support.histories.scenes import changes
from support.histories.story import Story

from statemigrate.embedded.layout import Layout
from statemigrate.embedded.retention import remove_old_versions
from statemigrate.embedded.versions import published, read_manifest

RELEASE = Path(__file__).parent / "releases" / "0.1.tar.xz"
STORES = ("lists", "notes")


@pytest.fixture
def root(tmp_path):
    with tarfile.open(RELEASE) as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "working").mkdir()
    (tmp_path / "output").mkdir()
    return tmp_path


@pytest.fixture
def expected(root):
    return json.loads((root / "expected.json").read_text())


def found(root, name="looked"):
    return json.loads(json.dumps(look(str(root), str(root / name))))


def test_all_that_was_in_it_is_read(root, expected):
    assert found(root) == expected
    assert expected["version"] == 4
    assert len(expected["entries"]) == 24


def test_the_query_goes_on_and_every_version_after_it_has_an_epoch(root, expected):
    deployed = Deployment(STORES, "r1", partitions=2, snapshot_every=2, retain=3)
    story = Story(root, [])
    story.feed(changes(STORES), {0: []}, {0: []}, {0: []}, {0: []})
    run(str(root), deployed.to_json())
    layout = Layout.of(root / "checkpoint")
    names = [(each.version, each.epoch) for each in published(layout)]
    assert names[-1] == (9, 1)
    after = found(root)
    assert {tuple(each[:4]) for each in after["entries"]} >= {
        tuple(each[:4]) for each in expected["entries"] if each[2] not in (1,)
    } - {tuple(each[:4]) for each in expected["entries"] if each[1] != "r1"}
    # Old versions go as ever, and with them content that had its hash as its name.
    assert [version for version, _ in names] == [6, 7, 8, 9]
    before = {path.name for path in (layout.contents(0)).iterdir()}
    assert remove_old_versions(layout, 9, 2) > 0
    assert {path.name for path in (layout.contents(0)).iterdir()} <= before
    assert found(root, "again") == after


def test_a_stopped_querys_backfill_is_an_epoch_of_the_same_version(root, expected):
    deployed = Deployment(STORES, "r2", partitions=2, retire=True)
    backfill(str(root), deployed.to_json())
    layout = Layout.of(root / "checkpoint")
    manifest = read_manifest(layout, 4)
    assert manifest.epoch >= 2
    assert (layout.versions / "4.json").exists()
    after = found(root)
    assert {each[1] for each in after["entries"]} == {"r2"}
    keys = [[each[0], *each[2:4]] for each in after["entries"]]
    assert sorted(keys) == sorted([each[0], *each[2:4]] for each in expected["entries"])
