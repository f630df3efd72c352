"""What a query has taken and committed is removed; nothing before, and no count changes by it."""

import pytest
from support.offset_logs import METADATA, checkpoint, put
from support.source_logs import CHUNKS, file_log

from statemigrate.native.chunks import ChunkFiles, PlanRecord
from statemigrate.native.feeder import Feeder
from statemigrate.native.pacing import Batch

PLAN = "0123456789ab"
NAMES = [f"part-{number:05}.parquet" for number in range(30)]
ALL = {f"{PLAN}/{name}" for name in NAMES}


def wrote_offsets(root, batch, offset):
    put(root / "offsets" / str(batch), "\n".join(["v1", METADATA, "3", offset]))


@pytest.fixture
def root(tmp_path):
    """A query with thirty chunks planned, whose first batch had none of them."""
    made = checkpoint(tmp_path / "c", batches=0)
    for name in NAMES:
        put(made / CHUNKS / PLAN / name, "keys")
    put(made / CHUNKS / "_made", "")
    wrote_offsets(made, 0, "-")
    put(made / "commits" / "0", "v1\n{}")
    return made


@pytest.fixture
def files(root):
    found = ChunkFiles(str(root))
    found.write_plan(PlanRecord(PLAN, 300, 30, -1, None, ("tally",)))
    return found


def take(root, count, *, committed):
    """So many chunks are taken, one a batch; the last of them may not be committed."""
    file_log(root, 1, *[[f"{root}/{CHUNKS}/{PLAN}/{name}"] for name in NAMES[:count]])
    for number in range(count):
        wrote_offsets(root, number + 1, f'{{"logOffset":{number}}}')
        if number < count - 1 or committed:
            put(root / "commits" / str(number + 1), "v1\n{}")


def there(root):
    """The chunk files with their checksums."""
    return {f"{PLAN}/{path.name}" for path in (root / CHUNKS / PLAN).glob("*")}


def with_checksums(names):
    return {*names, *(f"{PLAN}/.{name.removeprefix(f'{PLAN}/')}.crc" for name in names)}


def test_a_committed_chunk_goes_and_so_does_its_checksum(root, files):
    take(root, 4, committed=True)
    assert files.remove_committed() == 4
    assert there(root) == with_checksums(ALL - {f"{PLAN}/{name}" for name in NAMES[:4]})
    assert (root / CHUNKS / "_made").exists()
    assert files.remove_committed() == 0


def test_a_chunk_whose_batch_is_begun_stays_and_so_do_those_that_wait(root, files):
    take(root, 4, committed=False)
    assert files.remove_committed() == 3
    assert there(root) == with_checksums(ALL - {f"{PLAN}/{name}" for name in NAMES[:3]})
    # Offsets that were written for it are no commit either.
    wrote_offsets(root, 5, '{"logOffset":3}')
    assert files.remove_committed() == 0


def test_nothing_of_a_plan_that_is_being_made_is_removed(root):
    take(root, 4, committed=True)
    files = ChunkFiles(str(root))
    put(root / CHUNKS / "empty" / "0.parquet", "none")
    log = root / "sources/1/4"
    put(log, f'v1\n{{"path":"file://{root}/{CHUNKS}/empty/0.parquet","timestamp":1,"batchId":4}}')
    wrote_offsets(root, 5, '{"logOffset":4}')
    put(root / "commits" / "5", "v1\n{}")
    assert files.remove_committed() == 1, "the chunk without a key is of no plan"
    assert there(root) == with_checksums(ALL)


def test_what_is_counted_of_a_plan_does_not_change_by_it(root, files):
    take(root, 4, committed=True)
    before = files.log()
    assert (len(before.taken), sum(map(before.is_committed, ALL))) == (4, 4)
    files.remove_committed()
    assert files.log() == before
    assert files.written() | files.log().taken.keys() == ALL
    assert len(files.written() - files.log().taken.keys()) == 26
    assert files.withdraw() == 26
    assert not (root / CHUNKS / PLAN).exists()


def test_a_feeder_removes_them_at_a_start_every_ten_batches_and_when_nothing_comes(root, files):
    take(root, 2, committed=True)
    feeder = Feeder(files)
    feeder.begin()
    assert len(files.written()) == 28
    batch = Batch(0.0, 1000.0, 0, 10)
    for number in range(3, 13):
        assert len(files.written()) == 28, "a look at the log is not taken for every batch"
        take(root, number, committed=True)
        feeder.after(batch)
    assert len(files.written()) == 18
    take(root, 13, committed=True)
    feeder.after(batch)
    feeder.idle()
    assert len(files.written()) == 17
    take(root, 14, committed=True)
    feeder.after(batch)
    for _ in range(9):
        feeder.after(Batch(0.0, 1000.0, 5))
    assert len(files.written()) == 16, "live rows alone may follow for good"


def test_where_there_is_no_chunk_the_log_is_not_read(root, files):
    for path in (root / CHUNKS / PLAN).iterdir():
        path.unlink()
    put(root / "sources/1/0", "v1\n{")
    assert files.remove_committed() == 0
