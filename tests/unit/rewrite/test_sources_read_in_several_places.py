"""Which line of the offset log is a folder's, where a query reads one stream in several places."""

import pytest
from support.offset_logs import METADATA, checkpoint, put
from support.source_logs import KINDS, file_log, source_files

from statemigrate.checkpoint.logs.entries import is_read_twice, lines_of_folders
from statemigrate.checkpoint.logs.offsets import SourceLines, SourceLog, parse_offsets
from statemigrate.errors import UnsupportedError
from statemigrate.files.open import open_files


def at(number):
    return "-" if number is None else f'{{"logOffset":{number}}}'


def query(root, batches, logs, kind=None):
    """A checkpoint of these lines, batch by batch, whose folders have taken so many files."""
    checkpoint(root, batches=0)
    (root / "sources").mkdir(exist_ok=True)
    for number, lines in enumerate(batches):
        texts = [each if isinstance(each, str) else at(each) for each in lines]
        put(root / "offsets" / str(number), "\n".join(["v1", METADATA, *texts]))
        put(root / "commits" / str(number), "v1\n{}")
    for number, taken in logs.items():
        (root / "sources" / str(number)).mkdir(exist_ok=True)
        file_log(root, number, *[[f"/in/{number}/{each}"] for each in range(taken)])
    return open_files(root)


def offsets_of(files, batch):
    return parse_offsets(files.get(f"offsets/{batch}"), "offsets")


def lines(files, batch):
    return lines_of_folders(files, offsets_of(files, batch))


@pytest.mark.parametrize(
    ("newest", "logs", "wanted"),
    [
        # One stream in two places: alone, before another one, after it, and around it.
        ((3, 3), {0: 4}, {"0": "0"}),
        ((3, 3, 5), {0: 4, 1: 6}, {"0": "0", "1": "2"}),
        ((5, 3, 3), {0: 6, 1: 4}, {"0": "0", "1": "1"}),
        ((3, 5, 3), {0: 4, 1: 6}, {"0": "0", "1": "1"}),
        # Two operators on pages with names: the stream, a backfill source, the stream, another one.
        ((1, None, 1, None), {0: 2, 1: 0, 2: 0}, {"0": "0", "1": "1", "2": "3"}),
        ((1, 4, 1, 2), {0: 2, 1: 5, 2: 3}, {"0": "0", "1": "1", "2": "3"}),
        # A file may be in the log before its batch is in that of offsets.
        ((1, 1, 4), {0: 3, 1: 6}, {"0": "0", "1": "2"}),
        # Each has its own folder, or has none yet in a bucket.
        ((1, 1, 1), {0: 2, 1: 2, 2: 2}, {"0": "0", "1": "1", "2": "2"}),
        ((1, None, 2, None), {0: 2, 2: 3}, {"0": "0", "2": "2"}),
        ((1, None), {0: 2}, {"0": "0"}),
    ],
)
def test_folders_are_matched_by_how_far_their_logs_have_come(tmp_path, newest, logs, wanted):
    files = query(tmp_path / "c", [newest], logs)
    found = lines(files, 0)
    assert {folder: newest[int(line)] for folder, line in found.items()} == {
        folder: newest[int(line)] for folder, line in wanted.items()
    }
    assert found == wanted
    is_twice = any(folder != line for folder, line in wanted.items()) or len(wanted) < sum(
        each is not None for each in newest
    )
    assert is_read_twice(offsets_of(files, 0), found) == is_twice


def test_an_earlier_batch_goes_by_the_lines_of_the_newest_one(tmp_path):
    files = query(tmp_path / "c", [(0, 0, 0), (1, 1, 4)], {0: 2, 1: 5})
    assert lines(files, 0) == {"0": "0", "1": "2"}


def test_sources_of_other_kinds_count_as_those_of_files_do(tmp_path):
    kind = KINDS["kafka"]
    files = query(tmp_path / "c", [(kind.first, kind.first, 4)], {1: 5})
    source_files(tmp_path / "c", 0, kind)
    assert lines(files, 0) == {"0": "0", "1": "2"}


def test_where_two_lines_fit_with_offsets_that_differ_nothing_is_guessed(tmp_path):
    # The third source may be that of the third line or of the fourth: one of them repeats another.
    files = query(tmp_path / "c", [(2, 1, 2, 1), (3, 3, 3, 3)], {0: 4, 1: 4, 2: 4})
    with pytest.raises(UnsupportedError, match="which offset is that of sources/2") as caught:
        lines(files, 0)
    assert caught.value.code == "SM-CHECKPOINT-034"
    # At the newest batch both say the same.
    assert lines(files, 1)["2"] == "2"


def test_a_chunk_is_committed_though_the_stream_has_come_almost_as_far_in_another_place(tmp_path):
    files = query(tmp_path / "c", [(2, 3, 2, 1)], {0: 3, 2: 2})
    below = "statemigrate/control/chunks"
    chunks = [[f"{files.location}/{below}/plan/{each}.parquet"] for each in range(4)]
    file_log(tmp_path / "c", 1, *chunks)
    assert SourceLog.read(files, below).committed == 3


def test_two_streams_at_one_offset_are_not_taken_for_one_that_is_read_twice():
    line = '{"logOffset":0}'
    found = SourceLines([line, line, "-"], [0, 0, -1], {0: 0, 1: 0})
    assert [found.of(number) for number in (0, 1)] == [[0], [1]]
