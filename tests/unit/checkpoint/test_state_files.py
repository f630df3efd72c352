"""Changelogs, deltas and snapshots: what is written is read again, and folds to what is left."""

import io
from contextlib import suppress
from itertools import chain
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.stores import changelog as changelog_module
from statemigrate.checkpoint.stores.changelog import (
    DELETE,
    MERGE,
    PUT,
    LineageItem,
    SparkChangelogWriter,
    deletions,
    fold,
    read_changelog,
    records,
    version_of,
)
from statemigrate.checkpoint.stores.files import empty_snapshot, read_snapshot
from statemigrate.checkpoint.stores.hdfs_state import SnapshotWriter, read_state_file
from statemigrate.errors import CorruptFileError, UnsupportedError

LINEAGE = (LineageItem(4, "a-b"), LineageItem(5, "c-d"))
KEYS = st.sampled_from([b"", b"a", b"bb", b"\0" * 8])
CHANGE = st.tuples(st.sampled_from([PUT, DELETE, MERGE]), KEYS, st.binary(max_size=4))


def rows(*parts: bytes) -> Rows:
    return Rows.from_list(parts)


def changelog(version, *changes, codec="zstd", lineage=()):
    sink = io.BytesIO()
    writer = SparkChangelogWriter(sink, codec, version, lineage)
    for kind, key, value in changes:
        if kind == DELETE:
            writer.delete(rows(key))
        else:
            (writer.merge if kind == MERGE else writer.put)(rows(key), rows(value))
    writer.close()
    return sink.getvalue()


def read(data, codec="zstd"):
    found = read_changelog(io.BytesIO(data), codec, "1.changelog")
    return found, [
        (int(kind), key, value)
        for batch in found.changes
        for kind, key, value in zip(
            batch.kinds, batch.keys.to_list(), batch.values.to_list(), strict=True
        )
    ]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@given(changes=st.lists(CHANGE, max_size=6))
def test_a_changelog_is_read_as_it_was_written(version, changes):
    if version in (1, 3):
        changes = [(DELETE if kind == DELETE else PUT, *rest) for kind, *rest in changes]
    lineage = LINEAGE if version > 2 else ()
    found, read_back = read(changelog(version, *changes, lineage=lineage))
    assert (found.version, found.lineage) == (version, lineage)
    assert read_back == [(k, key, b"" if k == DELETE else value) for k, key, value in changes]


def test_the_bytes_are_those_that_spark_writes():
    one = records(PUT, rows(b"k"), rows(b"vw"), typed=False).to_list()
    assert one == [b"\0\0\0\1k\0\0\0\2vw"]
    assert records(MERGE, rows(b"k"), rows(b""), typed=True).to_list() == [b"\x11\0\0\0\1k\0\0\0\0"]
    assert deletions(rows(b"k"), typed=True).to_list() == [b"\x10\0\0\0\1k\xff\xff\xff\xff"]


@given(
    st.lists(CHANGE, max_size=12),
    st.sampled_from([b"", b","]),
    st.sampled_from([0, 40, changelog_module.WAITING]),
)
def test_changes_fold_to_what_a_dictionary_would_hold(changes, separator, waiting):
    """However often what is there is folded, before the next change comes."""
    expected: dict[bytes, list[bytes]] = {}
    for kind, key, value in changes:
        if kind == DELETE:
            expected.pop(key, None)
        elif kind == PUT:
            expected[key] = [value]
        else:
            expected.setdefault(key, []).append(value)
    files = [changelog(2, each) for each in changes]
    parts = [read_changelog(io.BytesIO(each), "zstd", "x").changes for each in files]
    with patch.object(changelog_module, "WAITING", waiting):
        keys, values = fold(chain.from_iterable(parts), separator=separator)
    assert len(keys) == len(expected)
    assert dict(zip(keys.to_list(), values.to_list(), strict=True)) == {
        key: separator.join(parts) for key, parts in expected.items()
    }


def test_values_of_many_megabytes_are_read_in_batches():
    values = [bytes([number]) * (1 << 20) for number in range(12)]
    sink = io.BytesIO()
    writer = SnapshotWriter(sink, "lz4")
    writer.put(rows(*[bytes([number]) for number in range(12)]), rows(*values))
    writer.close()
    batches = list(read_state_file(io.BytesIO(sink.getvalue()), "lz4", "1.snapshot"))
    assert len(batches) > 1
    assert [value for each in batches for value in each.values.to_list()] == values


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (1, b"\0\0\0\1k"),
        (1, b""),
        (1, b"\0\0\0\1k\xff\xff\xff\xfe"),
        (1, b"\xff\xff\xff\xffmore"),
        (2, b"\0\2v2\7"),
        (2, b"\0\2v2\1\xff\xff\xff\xff\0\0\0\0"),
        (2, b"\0\2v2\x10\0\0\0\1k\0\0\0\0\0"),
        (2, b"\0\2v2\1\0\0\0\1k\xff\xff\xff\xff\0"),
        (3, b"\0\2v3\0\2[1\xff\xff\xff\xff"),
        (4, b"\0\2v4\0\3{}a\0"),
    ],
)
def test_a_file_that_is_damaged_is_named(version, data):
    from statemigrate.checkpoint.codecs import compressing

    sink = io.BytesIO()
    out = compressing("zstd", sink)
    out.write(data)
    out.close()
    with pytest.raises(CorruptFileError, match=r"1\.changelog is not a file of state"):
        read(sink.getvalue())


@pytest.mark.parametrize("version", [0, 7])
def test_a_version_that_is_not_known_is_refused(version):
    from statemigrate.checkpoint.codecs import compressing

    sink = io.BytesIO()
    out = compressing("zstd", sink)
    out.write(b"\0\2v%d\0" % version)
    out.close()
    with pytest.raises(UnsupportedError, match=f"changelog of version {version}"):
        read(sink.getvalue())


def test_a_first_key_that_would_pass_for_a_header_is_refused():
    long = rows(bytes(0x00027632))
    assert version_of(b"\0\2v2") == 2
    with pytest.raises(UnsupportedError, match="first key is so long"):
        SparkChangelogWriter(io.BytesIO(), "zstd", 1).put(long, rows(b""))
    writer = SparkChangelogWriter(io.BytesIO(), "zstd", 1)
    writer.put(rows(b"short"), rows(b""))
    writer.put(long, rows(b""))


def test_lists_need_column_families():
    with pytest.raises(UnsupportedError, match="one value under a key"):
        SparkChangelogWriter(io.BytesIO(), "zstd", 1).merge(rows(b"k"), rows(b"v"))


def test_an_empty_snapshot_says_its_families():
    families = {"default": 1, "n": 2, "$rowCounter_n": 3}
    found = read_snapshot(io.BytesIO(empty_snapshot(families, {"$rowCounter_n"})), "1.zip")
    assert (found.shared, found.keys, found.families) == ((), 0, families)
    assert found.internal == {"$rowCounter_n"}


@given(st.data())
def test_a_damaged_snapshot_is_named_or_read(data):
    good = bytearray(empty_snapshot({"default": 1, "n": 2}))
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] = data.draw(st.integers(0, 255))
    with suppress(CorruptFileError):
        read_snapshot(io.BytesIO(good[: data.draw(st.integers(0, len(good)))]), "1.zip")
