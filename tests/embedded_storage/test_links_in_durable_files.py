"""Links planted in a checkpoint of the embedded engine are not followed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from statemigrate.embedded.batches import beat, remove_old_beats
from statemigrate.embedded.changelog import ChangelogWriter, read_changelog
from statemigrate.embedded.continuation import last_committed
from statemigrate.embedded.durable import confined, link_or_copy, publish_document, read_document
from statemigrate.embedded.layout import DirectoryLock, Layout
from statemigrate.embedded.manifest import Manifest
from statemigrate.embedded.retention import remove_old_versions
from statemigrate.embedded.versions import publish_manifest, read_manifest, retained_versions
from statemigrate.errors import ForeignFileError

HEX = "0" * 32
RECORD = ("counts", b"key", b"value")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout.of(tmp_path / "statemigrate" / "checkpoint")
    found.root.mkdir(parents=True)
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """What the links lead to."""
    directory = tmp_path / "home"
    (directory / "files").mkdir(parents=True)
    names = ["note", "8.txt", "0.json", f"000000000001-{HEX}.changelog", "files/" + "a" * 64]
    for name in names:
        (directory / name).write_text("mine")
    return directory


def contents(directory: Path) -> dict[str, str]:
    files = (each for each in directory.rglob("*") if each.is_file())
    return {str(each.relative_to(directory)): each.read_text() for each in files}


def planted(layout: Layout, name: str, target: Path) -> None:
    link = layout.root / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)


def _manifest(version: int) -> Manifest:
    return Manifest(version, {}, (), {}, {})


def _written(layout: Layout) -> object:
    log = ChangelogWriter(layout.partition(0), 1)
    log.add(*RECORD)
    return log.publish()


REFUSED: dict[str, tuple[str, str, Callable[[Layout], object]]] = {
    "locking": ("lock", "note", lambda at: DirectoryLock(at.lock, "the checkpoint")),
    "locking below": (".", "", lambda at: DirectoryLock(at.lock, "the checkpoint")),
    "beating": ("heartbeat", "", lambda at: beat(at, 9)),
    "removing beats": ("heartbeat", "", lambda at: remove_old_beats(at, 100, 1)),
    "reading a manifest": ("versions/0.json", "note", lambda at: read_manifest(at, 0)),
    "listing manifests": ("versions", "", retained_versions),
    "publishing a manifest": ("versions", "", lambda at: publish_manifest(at, _manifest(3))),
    "removing versions": ("versions", "", lambda at: remove_old_versions(at, 5, 1)),
    "writing a changelog": ("partitions", "", _written),
    "writing a changelog below": ("partitions/0", "", _written),
    "reading a document": (
        "partitions/0/x",
        "note",
        lambda at: read_document(at.partition(0) / "x"),
    ),
    "linking": (
        "partitions/0/x",
        "note",
        lambda at: link_or_copy(at.partition(0) / "x", at.checkpoint / "copy"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_link_in_the_place_of_a_file_or_directory_is_refused(
    layout: Layout, home: Path, case: str
) -> None:
    name, target, act = REFUSED[case]
    before = contents(home)
    if name == ".":
        layout.root.rmdir()
    planted(layout, name, home / target)
    with pytest.raises(ForeignFileError, match="is not what belongs in a checkpoint"):
        act(layout)
    assert contents(home) == before
    assert not (layout.checkpoint / "copy").exists()


def test_commits_are_not_read_through_a_link(layout: Layout, home: Path) -> None:
    (layout.checkpoint / "commits").symlink_to(home)
    with pytest.raises(ForeignFileError, match="commits"):
        last_committed(layout)


def test_links_in_the_place_of_old_files_are_removed_themselves(layout: Layout, home: Path) -> None:
    for version in (1, 2):
        publish_manifest(layout, _manifest(version))
    planted(layout, "versions/0.json", home / "0.json")
    planted(layout, "versions/.0.json.tmp", home / "note")
    os.utime(layout.versions / ".0.json.tmp", (1, 1), follow_symlinks=False)
    planted(layout, "heartbeat/8.txt", home / "8.txt")
    before = contents(home)
    remove_old_beats(layout, 100, 1)
    remove_old_versions(layout, 2, 2)
    assert contents(home) == before
    assert sorted(path.name for path in layout.versions.iterdir()) == ["1-1.json", "2-1.json"]
    assert list((layout.root / "heartbeat").iterdir()) == []


def test_writing_in_the_place_of_a_link_replaces_the_link(layout: Layout, home: Path) -> None:
    planted(layout, "heartbeat/9.txt", home / "note")
    planted(layout, "heartbeat/.9.txt", home / "note")
    planted(layout, "versions/4.json", home / "note")
    before = contents(home)
    beat(layout, 9)
    publish_document(layout.versions / "4.json", {"a": 1})
    assert contents(home) == before
    assert (layout.heartbeat / "9.txt").read_text() == "9\n"
    assert not (layout.heartbeat / "9.txt").is_symlink()
    assert read_document(layout.versions / "4.json") == {"a": 1}


def test_the_checkpoint_itself_may_be_reached_through_links(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "statemigrate-mount").symlink_to(tmp_path / "statemigrate")
    mounted = Layout.of(tmp_path / "statemigrate-mount" / "checkpoint")
    log = ChangelogWriter(mounted.partition(0), 1)
    log.add(*RECORD)
    reference = log.publish()
    assert reference is not None
    found = read_changelog(layout.partition(0) / reference.name, reference)
    assert list(found) == [RECORD]
    lock = DirectoryLock(mounted.lock, "the checkpoint")
    lock.release()


def test_every_durable_path_is_confined_to_its_own_checkpoint(tmp_path: Path) -> None:
    checkpoint = tmp_path / "statemigrate" / "versions" / "cp"
    layout = Layout(checkpoint)
    paths = [
        layout.lock,
        layout.versions / "1.json",
        layout.heartbeat / "1.txt",
        layout.partition(3) / "a.changelog",
        layout.contents(3) / ("a" * 64),
        layout.contents(3),
        layout.partition(3),
        layout.versions,
        layout.heartbeat,
    ]
    for path in paths:
        assert confined(path).root == checkpoint, path
        assert confined(path).path == path
    copy = tmp_path / "statemigrate" / "working" / "partition-3" / "CURRENT"
    assert confined(copy).parts == ("CURRENT",)
