"""Spark's batch and the engine's version are compared, before anything is read or written."""

import pytest

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.embedded.continuation import batch_time, continued, last_committed, next_batch
from statemigrate.embedded.layout import Layout, file_name
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.versions import publish_manifest
from statemigrate.errors import CheckpointError, CorruptFileError

RECORD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000123,"conf":{}}\n{"logOffset":0}\n'


@pytest.fixture
def layout(tmp_path):
    return Layout.of(tmp_path / "checkpoint")


def logged(layout, offsets, commits, versions):
    """A checkpoint whose logs and versions end where they are said to."""
    for folder, last in (("offsets", offsets), ("commits", commits)):
        (layout.checkpoint / folder).mkdir(parents=True)
        for batch in range(last + 1):
            (layout.checkpoint / folder / str(batch)).write_text(RECORD)
            (layout.checkpoint / folder / f".{batch}.crc").write_text("")
    for version in versions:
        publish_manifest(layout, Manifest(version, {}, (PartitionState(),), {}, {}))


@pytest.mark.parametrize(
    ("what", "offsets", "commits", "newest", "first", "start"),
    [
        ("nothing yet", -1, -1, -1, 0, None),
        ("killed in the first batch, before its state", 0, -1, -1, 0, None),
        ("killed in the first batch, after its state", 0, -1, 0, 0, None),
        ("stopped between batches", 4, 4, 4, 5, 4),
        ("killed in a batch, before its state", 5, 4, 4, 5, 4),
        ("killed in a batch, after its state", 5, 4, 5, 5, 4),
        ("commits lost: the newest batch is repeated", 4, -1, 4, 4, 3),
        ("commits lost after a kill before its state", 5, -1, 4, 5, 4),
    ],
)
def test_a_batch_continues_the_newest_version_or_repeats_it(
    layout, what, offsets, commits, newest, first, start
):
    logged(layout, offsets, commits, range(newest + 1))
    assert next_batch(layout) == first
    found = continued(layout, first)
    assert (found and found.version) == start


@pytest.mark.parametrize(
    ("what", "offsets", "commits", "versions"),
    [
        ("all of Spark's logs lost", -1, -1, range(5)),
        ("Spark's logs lost, few versions kept", -1, -1, range(3, 5)),
        ("offsets lost, commits kept", -1, 4, range(5)),
        ("Spark's logs of an older copy", 2, 2, range(6)),
        ("a version out of nowhere", 4, 4, [*range(5), 7]),
    ],
)
def test_a_state_that_is_further_than_the_batch_is_refused(
    layout, what, offsets, commits, versions
):
    logged(layout, offsets, commits, versions)
    with pytest.raises(CheckpointError, match="whose state is further") as raised:
        continued(layout, next_batch(layout))
    assert raised.value.found == f"state version {max(versions)}"
    assert "one copy" in raised.value.next_action


@pytest.mark.parametrize("ending", ["changelog", "snapshot"])
@pytest.mark.parametrize("versions", [[], [0]])
def test_state_that_neither_logs_nor_versions_tell_of_is_no_first_batchs(layout, versions, ending):
    logged(layout, -1, -1, versions)
    layout.partition(3).mkdir(parents=True)
    left = layout.partition(3) / file_name(7, ending)
    left.write_bytes(b"")
    with pytest.raises(CheckpointError, match="holds state already") as raised:
        continued(layout, next_batch(layout))
    assert raised.value.data["path"] == str(left)


def test_what_a_killed_first_batch_has_left_is_no_state(layout):
    logged(layout, 0, -1, [])
    layout.contents(0).mkdir(parents=True)
    (layout.partition(0) / file_name(0, "changelog")).write_bytes(b"")
    (layout.partition(0) / f".{file_name(1, 'changelog')}.tmp").write_bytes(b"")
    (layout.partition(0) / "notes.txt").write_text("someone's")
    assert continued(layout, 0) is None


@pytest.mark.parametrize("commits", [4, 9], ids=["begun", "committed"])
def test_a_batch_further_than_the_state_is_refused(layout, commits):
    logged(layout, 9, commits, range(5))
    with pytest.raises(CorruptFileError, match=r"state version [89] is missing"):
        continued(layout, next_batch(layout))


def test_batches_without_any_version_are_another_engines(layout):
    logged(layout, 3, 3, [])
    with pytest.raises(CheckpointError, match="does not use the embedded engine"):
        continued(layout, next_batch(layout))


def test_batches_whose_versions_are_lost_are_this_engines_and_to_be_restored(layout):
    logged(layout, 3, 3, [])
    layout.partition(0).mkdir(parents=True)
    assert CheckpointDirectory(layout.files).is_embedded
    for look in (lambda: continued(layout, next_batch(layout)), lambda: last_committed(layout)):
        with pytest.raises(CorruptFileError) as raised:
            look()
        assert raised.value.data["path"] == str(layout.versions)
        assert "restore the whole checkpoint directory from one copy" in raised.value.next_action


def test_a_reader_without_commits_says_so_and_not_that_there_is_nothing(layout):
    logged(layout, 4, -1, range(5))
    with pytest.raises(CheckpointError, match="commits are missing") as raised:
        last_committed(layout)
    assert raised.value.expected == "the commit of batch 3, whose state is there"


@pytest.mark.parametrize("uncommitted", [0, 1])
def test_a_reader_sees_what_spark_has_committed(layout, uncommitted):
    logged(layout, 4, 4, range(5 + uncommitted))
    assert last_committed(layout).version == 4


def test_a_batchs_time_is_the_one_that_spark_noted(layout):
    logged(layout, 0, -1, [])
    assert batch_time(layout, 0) == 1_700_000_000_123


@pytest.mark.parametrize(
    "text",
    [None, "", "v1\n{}\n-\n", 'v1\n{"batchTimestampMs":"1"}\n-\n', RECORD.replace("v1", "v9")],
)
def test_a_record_without_a_time_is_named(layout, text):
    logged(layout, 0, -1, [])
    path = layout.checkpoint / "offsets" / "0"
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(CheckpointError, match=str(path)):
        batch_time(layout, 0)
