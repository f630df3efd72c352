"""Durable files appear whole or not at all, and say by name when they are not what was written."""

import os

import pytest
from support.partitions import files

from statemigrate.embedded.changelog import ChangelogWriter, read_changelog
from statemigrate.embedded.durable import (
    DurableFile,
    FileReference,
    publish_document,
    read_document,
    sha256_of,
    verify,
)
from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.files.documents import RESTORE_COPY

DAMAGES = {
    "cut short": lambda data: data[:-1],
    "emptied": lambda data: b"",
    "one bit turned": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    "one byte more": lambda data: data + b"\x00",
}


def damage(path, how):
    path.write_bytes(DAMAGES[how](path.read_bytes()))


def test_a_file_appears_only_when_it_is_published(tmp_path):
    file = DurableFile(tmp_path / "deep" / "name")
    file.stream.write(b"some ")
    file.stream.write(b"bytes")
    assert not (tmp_path / "deep" / "name").exists()
    reference = file.publish()
    assert files(tmp_path) == ["deep/name"]
    assert reference == FileReference("name", sha256_of(tmp_path / "deep" / "name"), 10)
    verify(tmp_path / "deep" / "name", reference)


def test_a_file_given_up_leaves_nothing(tmp_path):
    file = DurableFile(tmp_path / "name")
    file.stream.write(b"some bytes")
    file.abandon()
    assert files(tmp_path) == []


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_on_the_way_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, step):
    old = publish_document(tmp_path / "name", {"version": 1})

    def fails(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fails)
        with pytest.raises(CheckpointError, match="No space left on device") as raised:
            publish_document(tmp_path / "name", {"version": 2})
    assert raised.value.data["path"] == str(tmp_path)
    assert "free space" in raised.value.next_action
    assert files(tmp_path) == ["name"]
    verify(tmp_path / "name", old)
    assert read_document(tmp_path / "name") == {"version": 1}


def test_a_place_that_cannot_be_written_is_a_named_error(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(CheckpointError, match="cannot write in") as raised:
        DurableFile(tmp_path / "file" / "below" / "name")
    assert raised.value.data["path"] == str(tmp_path / "file" / "below")
    assert "permissions" in raised.value.next_action
    assert files(tmp_path) == ["file"]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_is_named_and_says_what_to_do(tmp_path, how):
    file = DurableFile(tmp_path / "name")
    file.stream.write(bytes(range(100)))
    reference = file.publish()
    damage(tmp_path / "name", how)
    with pytest.raises(CorruptFileError, match="is not what was written") as raised:
        verify(tmp_path / "name", reference)
    assert str(tmp_path / "name") in raised.value.summary
    assert raised.value.data["path"] == str(tmp_path / "name")
    assert reference.sha256 in raised.value.expected
    assert raised.value.next_action == RESTORE_COPY


def test_a_missing_file_is_named_and_says_what_to_do(tmp_path):
    with pytest.raises(CorruptFileError, match="name is missing") as raised:
        verify(tmp_path / "name", FileReference("name", "0" * 64, 5))
    assert raised.value.next_action == RESTORE_COPY


@pytest.mark.parametrize("how", [*DAMAGES, "no document", "no checksum"])
def test_a_damaged_document_is_named(tmp_path, how):
    path = tmp_path / "5.json"
    publish_document(path, {"text": "a value that is long enough to be damaged", "n": 5})
    if how in ("no document", "no checksum"):
        path.write_text("[]" if how == "no document" else '{"body":{}}')
    elif how == "one byte more":
        path.write_bytes(path.read_bytes().replace(b'"n":5', b'"n":50'))
    else:
        damage(path, how if how != "cut short" else "emptied")
    with pytest.raises(CorruptFileError, match=r"5\.json is not what was written") as raised:
        read_document(path)
    assert raised.value.next_action == RESTORE_COPY


@pytest.mark.parametrize("cut", [1, 2, 10, 100])
def test_a_document_cut_anywhere_is_not_read(tmp_path, cut):
    path = tmp_path / "5.json"
    publish_document(path, {"text": "a value that is long enough to be cut", "n": 5})
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    if data[:-cut].strip() == data.strip():  # only the newline was lost
        assert read_document(path)["n"] == 5
    else:
        with pytest.raises(CorruptFileError):
            read_document(path)


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/b", "", ".", "..", ".hidden", "a\x00", "a\n"]
)
def test_a_name_that_is_no_plain_file_name_is_refused(tmp_path, name):
    with pytest.raises(CorruptFileError, match="no plain file name") as raised:
        FileReference(name, "0" * 64, 0).within(tmp_path)
    assert raised.value.found == name
    assert raised.value.next_action == RESTORE_COPY


RECORDS = [
    ("counts", b"a", b"1"),
    ("counts", b"a", None),
    ("", b"counts", None),
    ("other", b"", b""),
    ("other", b"\x00\xff", b"\x00" * 100),
]


def written(directory, records=RECORDS, version=7):
    log = ChangelogWriter(directory, version)
    for record in records:
        log.add(*record)
    return log.publish()


def test_a_changelog_reads_back_in_the_order_of_the_writes(tmp_path):
    reference = written(tmp_path)
    assert list(read_changelog(tmp_path / reference.name, reference)) == RECORDS
    assert reference.name.startswith("000000000007-")
    assert files(tmp_path) == [reference.name]


def test_a_changelog_of_many_blocks_reads_back_whole(tmp_path):
    many = [
        ("counts", n.to_bytes(4, "big"), None if n % 3 == 0 else b"x" * 10) for n in range(40_000)
    ]
    reference = written(tmp_path, many)
    assert list(read_changelog(tmp_path / reference.name, reference)) == many


def test_a_batch_without_changes_has_no_changelog(tmp_path):
    assert written(tmp_path, []) is None
    assert files(tmp_path) == []


def test_a_changelog_given_up_after_its_first_block_leaves_nothing(tmp_path):
    log = ChangelogWriter(tmp_path, 1)
    for number in range(20_000):
        log.add("counts", b"k%d" % number, b"v")
    assert len(files(tmp_path)) == 1
    log.abandon()
    assert files(tmp_path) == []


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_changelog_yields_no_record_at_all(tmp_path, how):
    reference = written(tmp_path)
    damage(tmp_path / reference.name, how)
    with pytest.raises(CorruptFileError, match=reference.name):
        next(read_changelog(tmp_path / reference.name, reference))


def test_an_intact_file_that_is_no_changelog_is_named(tmp_path):
    file = DurableFile(tmp_path / "name")
    file.stream.write(b"these bytes are no Arrow stream")
    with pytest.raises(CorruptFileError, match="is not a changelog"):
        list(read_changelog(tmp_path / "name", file.publish()))
