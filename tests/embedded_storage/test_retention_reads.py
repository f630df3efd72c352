"""Retention looks at many manifests every few batches, and reads each of them once."""

import pytest

from statemigrate.embedded import retention as needs
from statemigrate.embedded.durable import FileReference
from statemigrate.embedded.layout import Layout, file_name
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.retention import remove_old_versions
from statemigrate.embedded.versions import publish_manifest


@pytest.fixture
def layout(tmp_path):
    return Layout.of(tmp_path / "checkpoint")


@pytest.fixture
def read(monkeypatch):
    names = []
    original = needs.read_published

    def noted(layout, version, epoch):
        names.append(f"{version}-{epoch}")
        return original(layout, version, epoch)

    monkeypatch.setattr(needs, "read_published", noted)
    return names


def published(layout, version, state, epoch=1):
    """Commit ``version``: ``state``, and one more changelog, which is there."""
    name = file_name(version, "changelog")
    layout.partition(0).mkdir(parents=True, exist_ok=True)
    (layout.partition(0) / name).write_bytes(b"")
    after = state.followed_by(FileReference(name, f"{version:064x}", 0), 1)
    publish_manifest(layout, Manifest(version, {}, (after,), {}, {}, epoch))
    return after


def names(layout):
    return {path.name for path in layout.partition(0).iterdir()}


def test_a_manifest_is_read_once(layout, read):
    state = PartitionState()
    for version in range(5):
        state = published(layout, version, state)
    remove_old_versions(layout, 4, retain=10)
    assert read == ["0-1", "1-1", "2-1", "3-1", "4-1"]
    read.clear()
    after = published(layout, 5, state)
    remove_old_versions(layout, 5, retain=10)
    assert read == ["5-1"]
    read.clear()
    # As a stopped query's backfill does: the same version, with one more changelog.
    again = published(layout, 5, after, epoch=2)
    remove_old_versions(layout, 5, retain=10)
    assert read == ["5-2"]
    assert names(layout) == {each.file.name for each in again.changelogs}
    assert not (layout.versions / "5-1.json").exists()
