"""A query may read anything: only the backfill source's log is read, whatever lies beside it."""

import shutil
from types import SimpleNamespace

import pytest
from support.offset_logs import METADATA, checkpoint, kill_last_batch, put, run_batch, tree
from support.source_logs import CHUNKS, KINDS, file_log, source_files

from statemigrate import pause_backfill
from statemigrate.checkpoint.logs.offsets import SourceLog
from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.native.adoption import adopt, undo_adoption
from statemigrate.native.backfill_listener import BackfillListener
from statemigrate.native.chunks import ChunkFiles
from statemigrate.native.control_source import require_control_source

FILES = [f"{name}.parquet" for name in "abc"]


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def batch(root, number, *offsets):
    put(root / "offsets" / str(number), "\n".join(["v1", METADATA, *offsets]))
    put(root / "commits" / str(number), "v1\n{}")


def with_control_source(root, kind):
    """A query of that kind whose backfill source has taken three chunks, two of them committed."""
    checkpoint(root, batches=0)
    source_files(root, 0, kind)
    for name in FILES:
        put(root / CHUNKS / "plan" / name, "keys")
    file_log(root, 1, *[[f"{root}/{CHUNKS}/plan/{name}"] for name in FILES])
    batch(root, 0, kind.first, '{"logOffset":0}')
    batch(root, 1, kind.second, '{"logOffset":1}')
    return root


def test_the_control_sources_log_is_found_beside_any_source(tmp_path, kind):
    root = with_control_source(tmp_path / "c", kind)
    files = ChunkFiles(str(root))
    taken = {f"plan/{name}": offset for offset, name in enumerate(FILES)}
    assert files.log() == SourceLog(taken, committed=1)
    require_control_source(files)


def test_a_backfill_is_paused_beside_any_source(tmp_path, kind):
    root = with_control_source(tmp_path / "c", kind)
    put(root / CHUNKS / "plan" / "d.parquet", "keys")
    assert pause_backfill(root) == 1
    assert sorted(each.name for each in (root / CHUNKS / "plan").glob("[!.]*")) == ["c.parquet"]


def test_before_its_first_batch_nothing_of_a_source_is_taken_for_a_log(tmp_path, kind):
    root = checkpoint(tmp_path / "c", batches=0)
    source_files(root, 0, kind)
    assert ChunkFiles(str(root)).log() == SourceLog()
    batch(root, 0, "-", "-")
    assert ChunkFiles(str(root)).log() == SourceLog()


def test_progress_is_told_beside_any_source(tmp_path, kind):
    root = with_control_source(tmp_path / "c", kind)
    progress = BackfillListener(root)

    def report(end, keys):
        own = SimpleNamespace(
            description="KafkaV2[Subscribe[bids]]",
            startOffset=kind.first,
            endOffset=kind.second,
            numInputRows=7,
        )
        control = SimpleNamespace(
            description=f"FileStreamSource[file:{root}/{CHUNKS}]",
            startOffset="null",
            endOffset=end,
            numInputRows=keys,
        )
        sources = [own, control]
        progress.onQueryProgress(
            SimpleNamespace(progress=SimpleNamespace(batchId=3, sources=sources))
        )

    report("null", 0)
    assert progress.latest is None
    report('{"logOffset":1}', 40)
    assert (progress.latest.keys, progress.latest.chunks_consumed) == (40, 2)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_query_that_was_not_adopted_is_told_so_whatever_it_reads(tmp_path, kind, count):
    root = checkpoint(tmp_path / "c", batches=0)
    for number in range(count):
        source_files(root, number, kind)
    batch(root, 0, *[kind.first] * count)
    (root / CHUNKS).mkdir(parents=True)
    with pytest.raises(CheckpointError, match="has run without the backfill source") as caught:
        require_control_source(ChunkFiles(str(root)))
    assert f"statemigrate backfill {root} --prepare" in caught.value.next_action
    assert caught.value.expected.startswith(f"{count + 1} sources")


@pytest.mark.parametrize("last", ["-", '{"logOffset":1}'])
def test_of_two_file_sources_the_log_tells_whether_the_last_is_the_control_source(tmp_path, last):
    root = checkpoint(tmp_path / "c", batches=0)
    batch(root, 0, '{"logOffset":1}', last)
    files = ChunkFiles(str(root))
    with pytest.raises(CheckpointError, match="is unknown whether the query of"):
        require_control_source(files)
    files.create()
    # Both are there from the first day, and the second has taken nothing.
    require_control_source(files)
    file_log(root, 1, ["/data/1.json"])
    with pytest.raises(CheckpointError, match="found: 2 sources"):
        require_control_source(files)
    file_log(root, 1, [f"{root}/{CHUNKS}/plan/a.parquet"])
    require_control_source(files)


def test_an_adopted_query_that_lost_the_folder_statemigrate_is_not_adopted_again(tmp_path):
    root = checkpoint(tmp_path / "c")
    adopt(str(root), apply=True, wait=0)
    require_control_source(ChunkFiles(str(root)))
    shutil.rmtree(root / "statemigrate")
    before = tree(root)
    untold = "is unknown whether the query of .* has the backfill source"
    with pytest.raises(CheckpointError, match=untold) as caught:
        require_control_source(ChunkFiles(str(root)))
    assert f"make the empty directory {root / CHUNKS} again" in caught.value.next_action
    assert "--prepare" not in caught.value.next_action
    with pytest.raises(CheckpointError, match=untold):
        adopt(str(root), apply=True, wait=0)
    assert tree(root) == before
    (root / CHUNKS).mkdir(parents=True)
    require_control_source(ChunkFiles(str(root)))
    with pytest.raises(CheckpointError, match="has the backfill source already"):
        adopt(str(root), apply=True, wait=0)


def test_a_streams_own_last_source_is_known_by_the_first_file_it_takes(tmp_path):
    root = checkpoint(tmp_path / "c", batches=0)
    batch(root, 0, '{"logOffset":1}', "-")
    with pytest.raises(CheckpointError, match="is unknown whether"):
        adopt(str(root), apply=True, wait=0)
    file_log(root, 1, ["/data/1.json"])
    batch(root, 1, '{"logOffset":1}', '{"logOffset":0}')
    adopt(str(root), apply=True, wait=0)
    assert (root / "offsets" / "1").read_text().endswith('{"logOffset":0}\n-')


def test_an_adoption_is_believed_and_so_is_that_it_was_undone(tmp_path):
    root = checkpoint(tmp_path / "c", sources=2)
    files = ChunkFiles(str(root))
    with pytest.raises(CheckpointError, match="found: 2 sources"):
        require_control_source(files)
    adopt(str(root), apply=True, wait=0)
    require_control_source(files)
    files.create()
    undo_adoption(str(root), apply=True, wait=0)
    with pytest.raises(CheckpointError, match="found: 2 sources"):
        require_control_source(files)


def test_before_the_first_batch_and_with_names_nothing_is_missing(tmp_path):
    root = checkpoint(tmp_path / "c", batches=0)
    require_control_source(ChunkFiles(str(root)))
    put(root / "offsets" / "0", f"v2\n{METADATA}\norders:x")
    put(root / "commits" / "0", "v1\n{}")
    require_control_source(ChunkFiles(str(root)))


def test_a_named_control_source_is_found_too(tmp_path):
    root = checkpoint(tmp_path / "c", batches=0)
    text = f"v2\n{METADATA}\norders:{KINDS['kafka'].first}\nstatemigrate_control:"
    put(root / "offsets" / "0", text + '{"logOffset":0}')
    put(root / "commits" / "0", "v1\n{}")
    line = f'{{"path":"file://{root}/{CHUNKS}/plan/a.parquet","batchId":0}}'
    put(root / "sources/statemigrate_control/0", f"v1\n{line}")
    put(root / "sources/orders/0", KINDS["kafka"].files["0"])
    assert ChunkFiles(str(root)).log() == SourceLog({"plan/a.parquet": 0}, committed=0)


@pytest.mark.parametrize("content", ["v1\n{", "v1\n5", 'v1\n{"path":"x"}', "v1\n" + "[" * 200_000])
def test_a_damaged_log_of_a_file_source_is_no_missing_one(tmp_path, content):
    root = with_control_source(tmp_path / "c", KINDS["kafka"])
    put(root / "sources" / "1" / "1", content)
    with pytest.raises(CorruptFileError, match="sources/1/1 is not a file source's log"):
        ChunkFiles(str(root)).log()


def test_a_commit_without_its_offsets_is_an_error(tmp_path):
    root = checkpoint(tmp_path / "c")
    (root / "offsets" / "2").unlink()
    with pytest.raises(CheckpointError, match="found: no such file"):
        ChunkFiles(str(root)).log()


def test_a_file_with_another_digit_in_its_name_is_no_batch(tmp_path):
    root = checkpoint(tmp_path / "c")
    (root / "commits" / "²").touch()
    (root / "offsets" / "٣").touch()
    assert ChunkFiles(str(root)).log().committed == -1
    assert len(ChunkFiles(str(root)).offsets().lines) == 1


def test_any_query_is_adopted_and_goes_back(tmp_path, kind):
    root = checkpoint(tmp_path / "c", batches=0)
    source_files(root, 0, kind)
    run_batch(root, 0, kind.first)
    run_batch(root, 1, kind.second)
    kill_last_batch(root)
    before = (root / "offsets" / "1").read_bytes()
    adopt(str(root), apply=True, wait=0, stopped=True)
    assert (root / "offsets" / "1").read_bytes() == before + b"\n-"
    undo_adoption(str(root), apply=True, wait=0, stopped=True)
    assert (root / "offsets" / "1").read_bytes() == before
