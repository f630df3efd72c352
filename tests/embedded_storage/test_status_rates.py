"""The rate that one look at a checkpoint gives: from the versions that are still kept."""

import os
from pathlib import Path

import pytest
from support import checkpoints
from support.checkpoints import FAMILY, KEY, NEW, REVISION

from statemigrate import status
from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.versions import manifest_name, publish_manifest

TARGET = StoredFamily(f"items@{REVISION}", REVISION, NEW)


def commit(layout: Layout, version: int, at: float, *left: int | None) -> None:
    """A version of which only the counts matter."""
    states = tuple(
        PartitionState(entries={FAMILY.name: count, TARGET.name: None}) for count in left
    )
    stores = {"items": StoredStore("value", (TARGET, FAMILY))}
    publish_manifest(layout, Manifest(version, KEY.jsonValue(), states, stores, {}))
    os.utime(layout.checkpoint / manifest_name(version, 1), (at, at))
    (layout.checkpoint / "commits").mkdir(exist_ok=True)
    (layout.checkpoint / "commits" / str(version)).touch()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.of(tmp_path / "checkpoint")


def test_one_look_tells_rate_and_time_left(layout: Layout, tmp_path: Path) -> None:
    commit(layout, 0, 1_000.0, 100, 100)
    commit(layout, 1, 1_004.0, 70, 80)
    commit(layout, 2, 1_010.0, 30, 50)
    (store,) = status(layout.checkpoint, migrations=checkpoints.scripts(tmp_path)).stores
    assert (store.left, store.families[0].partitions) == (80, {0: 30, 1: 50})
    assert (store.rate, store.seconds) == pytest.approx((12.0, 80 / 12))


@pytest.mark.parametrize("before", [None, (30, 50), (10, 10)])
def test_without_progress_there_is_no_rate(
    layout: Layout, tmp_path: Path, before: tuple[int, int] | None
) -> None:
    if before is not None:
        commit(layout, 0, 1_000.0, *before)
    commit(layout, 1, 1_010.0, 30, 50)
    (store,) = status(layout.checkpoint, migrations=checkpoints.scripts(tmp_path)).stores
    assert (store.rate, store.seconds) == (None, None)


def test_versions_whose_counts_are_not_known_are_no_measure(layout: Layout, tmp_path: Path) -> None:
    commit(layout, 0, 1_000.0, None, 100)
    commit(layout, 1, 1_010.0, 30, 50)
    (store,) = status(layout.checkpoint, migrations=checkpoints.scripts(tmp_path)).stores
    assert store.rate is None
