"""A machine's copies of what is in a store: nothing is left over, and nothing goes on unseen."""

import hashlib
import threading
import time
import tracemalloc

import pytest
from support.object_store import MemoryFiles

from statemigrate.embedded.durable import FileReference
from statemigrate.embedded.layout import PARTITIONS, Layout, file_name
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.mirror import Mirror, take, write_pack
from statemigrate.errors import StorageError

MEGABYTE = 1 << 20


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path / "mirror", MemoryFiles())


def reference(data, version=1):
    name = file_name(version, "changelog")
    return FileReference(name, hashlib.sha256(data).hexdigest(), len(data))


def state_of(*files):
    state = PartitionState()
    for each in files:
        state = state.followed_by(each, 1)
    return state


def test_a_pack_that_a_killed_driver_left_is_removed_with_what_is_old(layout):
    kept = reference(b"kept")
    layout.files.put(f"{PARTITIONS}/0/{kept.name}", b"kept")
    mirror = Mirror(layout)
    mirror.bring([state_of(kept)])
    folder = layout.checkpoint / PARTITIONS
    for name in (file_name(1, "pack"), f"{file_name(1, 'pack')}.{'0' * 32}"):
        (folder / name).write_bytes(b"left")
    mirror.prune([[state_of(kept)]])
    assert [path.name for path in folder.iterdir()] == ["0"]
    assert [path.name for path in (folder / "0").iterdir()] == [kept.name]


def test_a_changelog_is_taken_from_a_pack_without_having_it_in_memory(tmp_path):
    data = [bytes([number]) * (8 * MEGABYTE + number) for number in range(3)]
    files = [reference(each) for each in data]
    for file, each in zip(files, data, strict=True):
        (tmp_path / file.name).write_bytes(each)
    packs = write_pack(tmp_path / file_name(1, "pack"), [(tmp_path, file) for file in files])
    pack = tmp_path / packs[files[0].name].name
    tracemalloc.start()
    for file in files:
        take(pack, packs[file.name].offset, file, tmp_path / f"{file.name}-taken")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * MEGABYTE
    for file, each in zip(files, data, strict=True):
        assert (tmp_path / f"{file.name}-taken").read_bytes() == each


def test_after_an_error_no_request_goes_on(layout):
    files = [reference(bytes([number])) for number in range(30)]
    missing, failed, asked, answered = files[0].name, threading.Event(), [], []

    def watch(request):
        asked.append(request.name)
        if request.name.endswith(missing):
            failed.set()
            raise StorageError("SM-STORAGE-007", "the store has refused it", path=request.name)
        failed.wait()
        time.sleep(0.05)
        answered.append(request.name)

    for number, each in enumerate(files[1:], 1):
        layout.files.put(f"{PARTITIONS}/0/{each.name}", bytes([number]))
    layout.files.store.watch = watch
    with pytest.raises(StorageError) as raised:
        Mirror(layout).bring([state_of(*files)])
    assert raised.value.data["path"].endswith(missing)
    assert sorted(asked) == sorted([*answered, raised.value.data["path"]])
