"""A full disk and a damaged block: named errors, whatever fails a second time while cleaning up."""

import errno

import pytest
from support.partitions import COUNTS, batch, contents, files

from statemigrate.embedded.database import Database
from statemigrate.embedded.durable import HashingFile
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import opened
from statemigrate.errors import CheckpointError

MANY = {number.to_bytes(4, "big"): number for number in range(5_000)}


class FullDisk:
    """A file that takes nothing any more, not even what is left in its buffer."""

    def __init__(self, file):
        self._file = file

    def _full(self, *_):
        raise OSError(errno.ENOSPC, "No space left on device")

    write = flush = _full

    def fileno(self):
        return self._file.fileno()

    def close(self):
        self._file.close()
        self._full()


def fills_up(patch):
    made = HashingFile.__init__

    def full(self, file):
        made(self, FullDisk(file))

    patch.setattr(HashingFile, "__init__", full)


def write_too_much(place, state):
    with opened(place, state, 1) as partition:
        partition._log._open()
        # What closes the file is what has its buffer.
        partition._log._file._file = partition._log._file.stream._file
        target = partition.target(COUNTS, "value")
        for number in range(20_000):
            target.put(b"%d" % number, {"n": number})


def test_a_disk_that_is_full_also_while_the_batch_is_given_up(place, monkeypatch):
    state = batch(place, PartitionState(), 0, MANY)
    before = files(place.directory)
    with monkeypatch.context() as patch:
        fills_up(patch)
        with pytest.raises(CheckpointError, match="No space left on device") as raised:
            write_too_much(place, state)
    assert raised.value.data["path"] == str(place.directory)
    assert files(place.directory) == before
    assert contents(place, state) == MANY


def test_what_ended_the_batch_is_raised_and_not_what_failed_after_it(place, monkeypatch):
    state = batch(place, PartitionState(), 0, MANY)
    end = Database.close

    def fails(self, *closed):
        end(self, *closed)
        raise CheckpointError("SM-CHECKPOINT-003", "RocksDB failed: No space left on device")

    def ends():
        with opened(place, state, 1):
            raise ZeroDivisionError("the processor's own")

    with monkeypatch.context() as patch:
        patch.setattr(Database, "close", fails)
        with pytest.raises(ZeroDivisionError, match="own") as raised:
            ends()
    assert raised.value.__notes__ == [
        "giving the batch up failed too: RocksDB failed: No space left on device "
        "[SM-CHECKPOINT-003]"
    ]
    assert contents(place, state) == MANY


READS = {
    "get": lambda family: [family.get(key) for key in MANY],
    "contains": lambda family: [family.contains(key) for key in MANY],
    "read ahead": lambda family: family.read_ahead(list(MANY)),
}


@pytest.mark.parametrize("how", READS)
def test_a_damaged_block_in_a_working_copy_is_named_whoever_reads_it(place, how):
    state = batch(place, PartitionState(), 0, MANY)
    (table,) = (path for path in place.working.glob("*.sst") if path.stat().st_size > 20_000)
    data = bytearray(table.read_bytes())
    data[100:5_000] = bytes(4_900)
    table.write_bytes(data)

    def read():
        with opened(place, state, 1) as partition:
            READS[how](partition.target(COUNTS, "value"))

    with pytest.raises(CheckpointError, match="RocksDB failed on the working copy") as raised:
        read()
    assert raised.value.data["path"] == str(place.working)
    assert contents(place, state) == MANY
