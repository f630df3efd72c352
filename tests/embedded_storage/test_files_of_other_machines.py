"""What tasks say they have written is looked at by the driver before a manifest names it."""

import pytest
from support.object_store import MemoryFiles
from support.partitions import batch, batches

from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.mirror import Mirror
from statemigrate.embedded.partition import PartitionPaths
from statemigrate.errors import CheckpointError

EMPTY = PartitionState()
MANY = {number.to_bytes(4, "big"): number for number in range(2_000)}


@pytest.fixture(params=["local", "remote"])
def layout(request, tmp_path):
    remote = MemoryFiles() if request.param == "remote" else None
    return Layout(tmp_path / "checkpoint", remote)


@pytest.fixture
def place(layout, tmp_path):
    return PartitionPaths(0, layout.partition(0), tmp_path / "working")


def file_of(layout, ending):
    return next(each for each in layout.partition(0).rglob("*") if each.name.endswith(ending))


def look(layout, state, *, before=EMPTY, reads_back=False):
    return Mirror(layout, reads_back=reads_back).hand_over(0, [before], [state])


@pytest.mark.parametrize("ending", ["changelog", "snapshot", "content"])
def test_a_file_that_is_on_another_machine_is_an_error_that_names_it(layout, place, ending):
    state = batch(place, EMPTY, 0, MANY, snapshot=ending != "changelog")
    there = file_of(layout, ending)
    there.unlink()
    with pytest.raises(CheckpointError) as raised:
        look(layout, state)
    assert raised.value.data["path"] == str(there)
    assert raised.value.found == "no such file"
    assert "shared_path=True" in raised.value.next_action
    if layout.remote is not None:
        assert layout.remote.list(recursive=True) == ()


@pytest.mark.parametrize("ending", ["changelog", "snapshot", "content"])
def test_a_file_that_is_cut_short_is_an_error(layout, place, ending):
    state = batch(place, EMPTY, 0, MANY, snapshot=ending != "changelog")
    there = file_of(layout, ending)
    data = there.read_bytes()
    there.unlink()
    there.write_bytes(data[:-1])
    with pytest.raises(CheckpointError) as raised:
        look(layout, state)
    assert raised.value.found == f"{len(data) - 1:,} bytes"


@pytest.mark.parametrize("ending", ["changelog", "content"])
def test_on_a_shared_disk_its_bytes_are_compared_too(layout, place, ending):
    state = batch(place, EMPTY, 0, MANY, snapshot=ending != "changelog")
    there = file_of(layout, ending)
    data = bytearray(there.read_bytes())
    data[-1] ^= 1
    there.unlink()
    there.write_bytes(data)
    with pytest.raises(CheckpointError) as raised:
        look(layout, state, reads_back=True)
    assert raised.value.data["path"] == str(there)


def test_what_the_version_before_has_is_not_looked_at_again(layout, place):
    before, after = batches(place, [MANY, {b"k": 1}], snapshots=[0])
    file_of(layout, "content").unlink()
    assert len(look(layout, after, before=before, reads_back=True)) == 1
