"""Retained versions keep what they need; everything else goes."""

import os
import shutil

import pytest
from support.partitions import as_first_release, batch, contents, files

from statemigrate.embedded.batches import Batches, Engine
from statemigrate.embedded.embedded_options import EmbeddedOptions
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.partition import PartitionPaths
from statemigrate.embedded.retention import DAY, remove_old_versions
from statemigrate.embedded.versions import publish_manifest
from statemigrate.errors import CorruptFileError

PARTITIONS = 2


@pytest.fixture
def layout(tmp_path):
    return Layout.of(tmp_path / "checkpoint")


def place(layout, number):
    return PartitionPaths(number, layout.partition(number), layout.checkpoint.parent / f"w{number}")


def run(layout, versions, *, snapshot_every=3, states=None):
    """Batches of two partitions, each committed by its manifest; the states by version."""
    states = {-1: (PartitionState(),) * PARTITIONS, **(states or {})}
    for version in versions:
        states[version] = tuple(
            batch(
                place(layout, number), states[version - 1][number], version,
                {b"last": version, b"v%d" % version: number},
                snapshot=(version + number) % snapshot_every == 0,
            )
            for number in range(PARTITIONS)
        )  # fmt: skip
        publish_manifest(layout, Manifest(version, {}, states[version], {}, {}))
    return states


def aged(layout, days, *names):
    """Files, or all there are, made as much older, by the clock of their disk."""
    paths = [layout.root / name for name in names] or layout.root.rglob("*")
    for path in paths:
        stamp = path.lstat().st_mtime - days * DAY
        os.utime(path, (stamp, stamp), follow_symlinks=False)


def expected(version, number):
    return {b"last": version, **{b"v%d" % each: number for each in range(version + 1)}}


def test_every_retained_version_can_still_be_restored(layout):
    states = run(layout, range(12))
    assert remove_old_versions(layout, 11, retain=4) > 0
    assert sorted(path.name for path in layout.versions.iterdir()) == [
        "10-1.json", "11-1.json", "8-1.json", "9-1.json",
    ]  # fmt: skip
    for version in range(8, 12):
        for number in range(PARTITIONS):
            shutil.rmtree(place(layout, number).working, ignore_errors=True)
            found = contents(place(layout, number), states[version][number])
            assert found == expected(version, number)


def test_nothing_is_left_that_no_retained_version_needs(layout):
    states = run(layout, range(12))
    remove_old_versions(layout, 11, retain=1)
    for number in range(PARTITIONS):
        state = states[11][number]
        names = {path for path in files(layout.partition(number)) if not path.startswith("files/")}
        chain = {each.file.name for each in state.changelogs}
        # And the one that leads from the version before to the snapshot.
        assert names == {state.snapshot.file.name, state.snapshot.step.file.name, *chain}
        with pytest.raises(CorruptFileError):
            contents(place(layout, number), states[3][number])
    assert remove_old_versions(layout, 11, retain=1) == 0


def test_files_of_attempts_that_did_not_commit_are_removed_once_they_are_a_day_old(layout):
    states = run(layout, range(4))
    for number in range(PARTITIONS):
        batch(place(layout, number), states[3][number], 4, {b"zombie": 1}, snapshot=True)
        (layout.partition(number) / ".half.changelog.abc.tmp").write_bytes(b"half")
    before = {number: set(files(layout.partition(number))) for number in range(PARTITIONS)}
    aged(layout, 2)
    states |= run(layout, range(4, 7), states=states)
    assert remove_old_versions(layout, 6, retain=3) > 0
    for number in range(PARTITIONS):
        removed = before[number] - set(files(layout.partition(number)))
        assert not any(name.startswith("000000000004-") for name in removed)
        assert ".half.changelog.abc.tmp" in removed
    states |= run(layout, range(7, 9), states=states)
    remove_old_versions(layout, 8, retain=3)
    for number in range(PARTITIONS):
        removed = before[number] - set(files(layout.partition(number)))
        assert any(name.startswith("000000000004-") for name in removed)
        assert contents(place(layout, number), states[8][number]) == expected(8, number)


def test_files_that_are_younger_than_a_day_stay_whatever_names_them(layout):
    states = run(layout, range(4))
    batch(place(layout, 0), states[3][0], 4, {b"zombie": 1})
    (layout.partition(0) / ".half.changelog.abc.tmp").write_bytes(b"half")
    run(layout, range(4, 12), states=states)
    stray = [name for name in files(layout.partition(0)) if "half" in name]
    left = set(files(layout.partition(0)))
    remove_old_versions(layout, 11, retain=1)
    assert stray == [".half.changelog.abc.tmp"]
    unnamed = {name for name in left if name.startswith("000000000004-")}
    assert len(unnamed & set(files(layout.partition(0)))) == 1
    assert set(stray) < set(files(layout.partition(0)))


def test_a_manifest_that_was_being_written_in_a_crash_is_removed(layout):
    half = layout.versions / ".2-1.json.abc.tmp"
    half.parent.mkdir(parents=True)
    half.write_text('{"sha256":')
    aged(layout, 2, "versions/.2-1.json.abc.tmp")
    run(layout, range(2))
    remove_old_versions(layout, 1, retain=10)
    assert not half.exists()
    assert sorted(path.name for path in layout.versions.iterdir()) == ["0-1.json", "1-1.json"]


def test_with_a_damaged_manifest_nothing_is_removed(layout):
    run(layout, range(6))
    path = layout.versions / "4-1.json"
    path.write_text(path.read_text().replace('"version":4', '"version":5'))
    before = files(layout.root)
    with pytest.raises(CorruptFileError, match=r"4-1\.json"):
        remove_old_versions(layout, 5, retain=3)
    assert files(layout.root) == before


def test_removal_that_was_interrupted_is_completed_the_next_time(layout):
    states = run(layout, range(7))
    (layout.versions / "0-1.json").unlink()
    (layout.versions / "1-1.json").unlink()
    aged(layout, 2)
    states |= run(layout, range(7, 9), states=states)
    remove_old_versions(layout, 8, retain=2)
    kept = {each.file.name for version in (7, 8) for each in states[version][0].all_changelogs}
    found = {path.name for path in layout.partition(0).glob("*.changelog")}
    assert found == kept


STRAY = ["8 (copy).json", "\u00b2.json", "08.json", "notes.txt", "-1.json", "9.json.bak"]
STRAY += ["8-01.json", "8-0.json", "8-1-1.json"]


def test_files_of_somebody_else_are_neither_read_nor_removed(layout):
    run(layout, range(9))
    foreign = [layout.versions / name for name in STRAY]
    foreign += [layout.partition(0) / name for name in ("mine.csv", "000000000001-x.changelog")]
    foreign += [layout.contents(1) / "README"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        aged(layout, 9, path.relative_to(layout.root))
    assert remove_old_versions(layout, 8, retain=2) > 0
    assert all(path.read_text() == "mine" for path in foreign)
    left = {path.name for path in layout.versions.iterdir()} - set(STRAY)
    assert left == {"7-1.json", "8-1.json"}


def test_a_damaged_manifest_that_nobody_needs_is_removed_unread(layout):
    states = run(layout, range(9))
    (layout.versions / "3-1.json").write_text("damaged")
    remove_old_versions(layout, 8, retain=2)
    assert not (layout.versions / "3-1.json").exists()
    shutil.rmtree(place(layout, 0).working)
    assert contents(place(layout, 0), states[8][0]) == expected(8, 0)


def test_nothing_goes_before_all_that_stands_for_it_was_read_back(layout):
    states = run(layout, range(9))
    for version in range(9):
        old = tuple(as_first_release(state) for state in states[version])
        publish_manifest(layout, Manifest(version, {}, old, {}, {}, epoch=2))
    remove_old_versions(layout, 8, retain=2)
    assert len(list(layout.versions.glob("*-2.json"))) == 9
    shutil.rmtree(place(layout, 1).working)
    assert contents(place(layout, 1), states[1][1]) == expected(1, 1)
    for version in range(9, 14):
        states = (
            {8: tuple(as_first_release(state) for state in states[8])} if version == 9 else states
        )
        states[version] = tuple(
            batch(place(layout, number), states[version - 1][number], version,
                  {b"last": version}, snapshot=(version + number) % 3 == 0)
            for number in range(PARTITIONS)
        )  # fmt: skip
        publish_manifest(layout, Manifest(version, {}, states[version], {}, {}, epoch=3))
    remove_old_versions(layout, 13, retain=2)
    assert {path.name for path in layout.versions.iterdir()} == {"12-3.json", "13-3.json"}


def test_clean_up_that_fails_is_told_and_ends_no_batch(layout, caplog):
    states = run(layout, range(6))
    path = layout.versions / "4-1.json"
    path.write_text("damaged")
    options = EmbeddedOptions(snapshot_every=5, retain=3)
    engine = Engine(layout, "", None, None, None, options, None, None)
    batches = Batches(engine, lambda _: {})
    before = files(layout.root)
    three, four, five = (Manifest(n, {}, states[n], {}, {}) for n in (3, 4, 5))
    assert batches._cleaned_up(three, four)
    assert batches._cleaned_up(four, five) is False
    assert "the query goes on" in caplog.text
    assert "4-1.json" in caplog.text
    assert files(layout.root) == before
    path.unlink()
    assert batches._cleaned_up(four, five)
