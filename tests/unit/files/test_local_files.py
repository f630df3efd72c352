"""Files on a local disk: on disk when a call returns, whole, and never through a link."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from statemigrate.errors import ForeignFileError, StorageError, UnsupportedError
from statemigrate.files import protocol
from statemigrate.files.local import LocalFiles, copy_local
from statemigrate.files.protocol import FileEntry


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "checkpoint"
    directory.mkdir()
    return directory


@pytest.fixture
def files(root: Path) -> LocalFiles:
    return LocalFiles(root)


WRITES: dict[str, Callable[[LocalFiles, str], None]] = {
    "put": lambda files, name: files.put(name, b"bytes"),
    "create": lambda files, name: files.create(name, b"bytes"),
    "replace": lambda files, name: files.replace(name, b"bytes"),
}


def test_a_link_is_listed_and_never_followed(root: Path, files: LocalFiles, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_bytes(b"secret")
    (root / "folder").symlink_to(secret)
    (root / "file").symlink_to(secret / "file")
    assert [(each.name, each.kind) for each in files.list()] == [
        ("file", "other"),
        ("folder", "other"),
    ]
    assert [each.kind for each in files.list(recursive=True)] == ["other", "other"]
    for act in (
        lambda: files.get("file"),
        lambda: files.get("folder/file"),
        lambda: files.fetch("file", tmp_path / "target", most=100),
        lambda: files.put("folder/new", b"x"),
        lambda: files.list("folder"),
        lambda: files.delete_folder("folder"),
        lambda: files.delete(["folder/file"]),
        lambda: files.find("folder/file"),
    ):
        with pytest.raises(ForeignFileError):
            act()
    files.delete(["file", "folder"])
    assert list(root.iterdir()) == []
    assert [each.name for each in secret.iterdir()] == ["file"]
    assert (secret / "file").read_bytes() == b"secret"


@pytest.mark.parametrize("how", ["put", "replace"])
def test_a_link_in_the_place_of_a_file_is_replaced(
    root: Path, files: LocalFiles, tmp_path: Path, how: str
) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"another's")
    (root / "file").symlink_to(other)
    WRITES[how](files, "file")
    assert ((root / "file").is_symlink(), (root / "file").read_bytes()) == (False, b"bytes")
    assert other.read_bytes() == b"another's"


def test_a_local_file_that_is_a_link_is_not_put(files: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(ForeignFileError):
        files.put("file", tmp_path / "link")
    assert files.list() == ()


def test_on_one_disk_large_files_share_their_bytes(
    root: Path, files: LocalFiles, tmp_path: Path
) -> None:
    local = tmp_path / "local"
    local.write_bytes(b"bytes")
    for _ in range(2):
        files.put("file", local)
    files.fetch("file", tmp_path / "shared", most=5, shared=True)
    files.fetch("file", tmp_path / "own", most=5)
    inodes = [p.stat().st_ino for p in (local, root / "file", tmp_path / "shared")]
    assert len(set(inodes)) == 1
    assert (tmp_path / "own").stat().st_ino not in inodes
    assert [each.name for each in files.list()] == ["file"]


def test_where_files_cannot_share_they_are_copied(
    root: Path, files: LocalFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_links(monkeypatch)
    (tmp_path / "local").write_bytes(b"bytes")
    files.put("file", tmp_path / "local")
    files.fetch("file", tmp_path / "target", most=5, shared=True)
    assert files.get("file") == (tmp_path / "target").read_bytes() == b"bytes"


def refuse_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)


def test_a_disk_without_links_creates_only_where_that_is_allowed(
    files: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_links(monkeypatch)
    with pytest.raises(UnsupportedError, match=protocol.ALLOW_RACES):
        files.create("file", b"first")
    assert files.list() == ()
    monkeypatch.setenv(protocol.ALLOW_RACES, "1")
    files.create("file", b"first")
    with pytest.raises(FileExistsError):
        files.create("file", b"second")
    assert files.get("file") == b"first"


@pytest.mark.parametrize("how", WRITES)
def test_file_and_directory_are_on_disk_when_a_call_returns(
    root: Path, files: LocalFiles, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    synced = []
    real = os.fsync

    def note(descriptor: int) -> None:
        kind = os.fstat(descriptor).st_mode
        opened = Path(f"/proc/self/fd/{descriptor}")
        names = [each.name for each in opened.iterdir()] if stat.S_ISDIR(kind) else None
        synced.append((names, os.fstat(descriptor).st_size if names is None else 0))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    WRITES[how](files, "folder/file")
    assert synced[0] == (["folder"], 0)
    assert synced[1] == (None, 5)
    assert "file" in (synced[-1][0] or [])


@pytest.mark.parametrize("how", WRITES)
def test_a_full_disk_leaves_nothing_and_is_a_named_error(
    root: Path, files: LocalFiles, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    files.put("folder/other", b"x")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left") as raised:
        WRITES[how](files, "folder/file")
    assert raised.value.data["path"] == str(root / "folder")
    assert [each.name for each in files.list("folder")] == ["folder/other"]


def test_a_replaced_file_keeps_its_rights(root: Path, files: LocalFiles) -> None:
    files.replace("file", b"old")
    (root / "file").chmod(0o640)
    files.replace("file", b"new")
    assert stat.S_IMODE((root / "file").stat().st_mode) == 0o640
    assert files.get("file") == b"new"


def test_a_directory_that_cannot_be_read_is_no_empty_one(root: Path, files: LocalFiles) -> None:
    def refuse(*_: object) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied")

    files.put("folder/file", b"x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "listdir", refuse)
        with pytest.raises(StorageError, match="Permission denied"):
            files.list("folder")
    assert files.list("folder") != ()


def test_names_that_are_no_text_are_left_out(root: Path, files: LocalFiles) -> None:
    (root / "file").write_bytes(b"x")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff")).touch()
    assert [each.name for each in files.list()] == ["file"]


def test_a_pipe_is_not_waited_for(root: Path, files: LocalFiles) -> None:
    os.mkfifo(root / "pipe")
    found = files.find("pipe")
    assert isinstance(found, FileEntry)
    assert found.kind == "other"
    with pytest.raises(ForeignFileError):
        files.get("pipe")


def test_copies_are_files_of_their_own_under_their_new_names(root: Path, tmp_path: Path) -> None:
    old, new = LocalFiles(root), LocalFiles(tmp_path / "new")
    for name in ("a/1", "a/2", "b"):
        old.put(name, name.encode() * 100_000)
    new.put("c/2", b"of another attempt")
    names = {"a/1": "c/1", "a/2": "c/2", "b": "b"}
    assert list(copy_local(old, new, names)) == list(names)
    assert {each.name for each in new.list(recursive=True)} == set(names.values())
    for name, copy in names.items():
        assert new.get(copy) == old.get(name)
        assert (tmp_path / "new" / copy).stat().st_ino != (root / name).stat().st_ino


def test_of_copies_that_fail_nothing_is_there(root: Path, tmp_path: Path) -> None:
    old, new = LocalFiles(root), LocalFiles(tmp_path / "new")
    old.put("a", b"a")
    (root / "link").symlink_to(root / "a")
    with pytest.raises(FileNotFoundError, match="gone"):
        list(copy_local(old, new, {"a": "x/a", "gone": "x/gone"}))
    with pytest.raises(ForeignFileError, match="link"):
        list(copy_local(old, new, {"a": "x/a", "link": "x/link"}))
    assert new.list("x") == ()


def test_copies_are_on_disk_before_they_have_their_names(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = LocalFiles(root), LocalFiles(tmp_path / "new")
    (tmp_path / "new").mkdir()
    for name in ("a", "b"):
        old.put(name, b"content")
    happened: list[str] = []

    def noted(name: str) -> None:
        method = getattr(os, name)

        def call(*args: object, **kwargs: object) -> object:
            is_folder = name == "fsync" and stat.S_ISDIR(os.fstat(args[0]).st_mode)  # type: ignore[arg-type]
            happened.append("folder" if is_folder else name)
            return method(*args, **kwargs)

        monkeypatch.setattr(os, name, call)

    noted("fsync")
    noted("replace")
    list(copy_local(old, new, {"a": "a", "b": "b"}))
    assert happened == ["fsync", "fsync", "replace", "replace", "folder"]
