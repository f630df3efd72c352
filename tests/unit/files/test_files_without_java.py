"""Files in buckets and on HDFS that are read without Java: as on a disk, and read alone."""

import io
import os
import time

import pytest
from pyarrow import fs

from statemigrate.errors import ForeignFileError, StorageError, UnsupportedError
from statemigrate.files.hadoop_jvm import is_configured
from statemigrate.files.local import LocalFiles
from statemigrate.files.open import files_to_read
from statemigrate.files.protocol import FileEntry
from statemigrate.files.without_java import (
    ArrowStore,
    ReadFiles,
    files_without_java,
    opened,
    settings_of,
)

NAMES = ("metadata", "offsets/0", "state/0/1/2.zip", "state/0/1/SSTs/a b%41#?é.sst", "empty")


@pytest.fixture
def local(tmp_path):
    files = LocalFiles(tmp_path / "checkpoint")
    for name in NAMES:
        files.put(name, b"" if name == "empty" else name.encode() * 1000)
    # A time that every clock has as it is: pyarrow's has no nanoseconds.
    for each in (files.root, *files.root.rglob("*")):
        os.utime(each, (1_767_225_600.25, 1_767_225_600.25))
    return files


@pytest.fixture
def files(local):
    return ReadFiles("s3://bucket/checkpoint", ArrowStore(fs.LocalFileSystem()), str(local.root))


def shown(entries):
    return [(each.name, each.kind, each.size, round(each.modified, 3)) for each in entries]


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("folder", ["", "state", "state/0/1/SSTs", "none", "metadata"])
def test_folders_have_what_they_have_on_a_disk(files, local, folder, recursive):
    expected = local.list(folder, recursive=recursive)
    assert shown(files.list(folder, recursive=recursive)) == shown(expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_read_as_it_is_on_a_disk(files, local, tmp_path, name):
    content = local.get(name)
    assert files.get(name) == content
    files.fetch(name, tmp_path / "whole", most=len(content))
    assert (tmp_path / "whole").read_bytes() == content
    files.fetch(name, tmp_path / "cut", most=7, cut=True)
    assert (tmp_path / "cut").read_bytes() == content[:7]
    assert shown([files.find(name)]) == shown([local.find(name)])


def test_a_file_that_is_too_long_is_refused(files, tmp_path):
    with pytest.raises(ForeignFileError):
        files.get("metadata", most=7999)
    with pytest.raises(ForeignFileError):
        files.fetch("metadata", tmp_path / "copy", most=7999)
    assert len(files.get("metadata", most=8000)) == 8000


def test_what_is_not_there_is_missing(files, tmp_path):
    assert files.find("none") is None
    assert files.find().kind == "folder"
    with pytest.raises(FileNotFoundError, match="s3://bucket/checkpoint/none"):
        files.get("none")
    with pytest.raises(FileNotFoundError):
        files.fetch("none/below", tmp_path / "copy", most=1)


@pytest.mark.parametrize("name", ["../outside", "/absolute", "a//b", "a/./b", ""])
def test_a_name_that_leads_elsewhere_is_none(files, name):
    with pytest.raises(ValueError, match="not a name below"):
        files.get(name)


@pytest.mark.parametrize(
    "write",
    [
        lambda files: files.put("new", b"1"),
        lambda files: files.create("new", b"1"),
        lambda files: files.replace("metadata", b"1"),
        lambda files: files.delete(["metadata"]),
        lambda files: files.delete_folder("state"),
    ],
)
def test_nothing_is_written(files, local, write):
    before = shown(local.list(recursive=True))
    with pytest.raises(UnsupportedError) as raised:
        write(files)
    assert raised.value.code == "SM-STORAGE-019"
    assert shown(local.list(recursive=True)) == before


class Failing:
    def __init__(self, error):
        self.error = error

    def find(self, path):
        raise self.error

    def list(self, path, *, recursive):
        raise self.error

    def open(self, path):
        raise self.error


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("AWS Error ACCESS_DENIED during GetObject operation: Access Denied", "SM-STORAGE-006"),
        ("google::cloud::Status(PERMISSION_DENIED: no)", "SM-STORAGE-006"),
        ("AWS Error NETWORK_CONNECTION during GetObject operation", "SM-STORAGE-007"),
        ("Connection reset by peer\n\tat org.apache.hadoop.Server", "SM-STORAGE-007"),
    ],
)
def test_what_a_store_refuses_or_fails_at_is_named(text, code, tmp_path):
    files = ReadFiles("s3://bucket/checkpoint", Failing(OSError(text)), "bucket/checkpoint")
    for work in (
        lambda: files.get("a"),
        lambda: files.fetch("a", tmp_path / "a", most=1),
        lambda: files.list("a"),
        lambda: files.find("a"),
    ):
        (tmp_path / "a").unlink(missing_ok=True)
        with pytest.raises(StorageError) as raised:
            work()
        assert raised.value.code == code
        assert "org.apache" not in str(raised.value)


def test_an_answer_that_breaks_off_is_an_error(tmp_path):
    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise OSError("connection closed")

    class Store(Failing):
        def open(self, path):
            return Broken()

    files = ReadFiles("s3://b/c", Store(OSError()), "b/c")
    with pytest.raises(StorageError):
        files.fetch("a", tmp_path / "a", most=9)


@pytest.mark.parametrize(
    ("location", "root"),
    [
        ("gs://bucket/a b/%41#x/", "bucket/a b/%41#x"),
        ("gs://bucket", "bucket"),
        ("abfss://container@account.dfs.core.windows.net/a/b", "container/a/b"),
    ],
)
def test_buckets_of_other_vendors_are_opened_without_asking_them(location, root):
    files = opened(location)
    assert (files.root, files.location) == (root, location.rstrip("/"))


def test_other_places_are_not_reached_without_java():
    assert opened("dbfs:/checkpoints/orders") is None
    assert opened("s3:///no-bucket") is None


def test_a_store_that_does_not_answer_is_known_within_ten_seconds(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "secret-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    for name in ("HADOOP_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    began = time.monotonic()
    with pytest.raises(StorageError) as raised:
        files_to_read("s3://bucket/checkpoints/orders")
    assert raised.value.code == "SM-STORAGE-012"
    assert "secret-id" not in str(raised.value)
    assert time.monotonic() - began < 12


def test_settings_for_a_connector_mean_that_it_is_used(monkeypatch, tmp_path):
    (tmp_path / "core-site.xml").write_text("<name>fs.s3a.endpoint</name>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert is_configured(settings_of("s3a://bucket/a"))
    assert not is_configured(settings_of("gs://bucket/a"))
    assert not is_configured(settings_of("hdfs://host/a"))


def test_files_of_a_disk_are_those_of_a_disk(tmp_path):
    assert files_to_read(f"file://{tmp_path}") == LocalFiles(tmp_path)
    assert files_to_read(tmp_path) == LocalFiles(tmp_path)


def test_entries_tell_one_content_from_another(files, local):
    before = files.find("metadata")
    local.replace("metadata", b"other")
    after = files.find("metadata")
    assert isinstance(after, FileEntry)
    assert after.tag != before.tag


def test_azure_without_credentials_is_an_error_and_does_not_end_the_process(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("AZURE_", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(name)
    with pytest.raises(StorageError, match="cannot be reached") as refused:
        files_without_java("abfss://container@account.dfs.core.windows.net/checkpoint")
    assert refused.value.code == "SM-STORAGE-012"
    assert "AZURE_CLIENT_ID" in refused.value.expected
