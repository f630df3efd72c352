"""Below its root a confined path follows no link, whatever is done to it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from statemigrate.errors import ForeignFileError
from statemigrate.files import ConfinedPath, LocalFiles
from tests.support.hostile import bounded

Act = Callable[[ConfinedPath], object]

ON_A_FILE: dict[str, Act] = {
    "open": lambda path: path.open(),
    "create": lambda path: path.open("xb"),
    "read_bytes": lambda path: path.read_bytes(),
    "lock": lambda path: path.open_to_lock(),
    "stat": lambda path: path.stat(),
    "exists": lambda path: path.exists(),
    "is_file": lambda path: path.is_file(),
}
ON_A_DIRECTORY: dict[str, Act] = {
    "names": lambda path: path.names(),
    "iterdir": lambda path: path.iterdir(),
    "mkdir": lambda path: path.mkdir(),
    "mkdir below": lambda path: (path / "new").mkdir(),
    "glob": lambda path: path.glob("*"),
    "is_dir": lambda path: path.is_dir(),
    "remove_tree": lambda path: path.remove_tree(),
    "read below": lambda path: (path / "file").read_bytes(),
    "create below": lambda path: (path / "other").open("xb"),
    "unlink below": lambda path: (path / "file").unlink(missing_ok=True),
    "remove_tree below": lambda path: (path / "inner").remove_tree(),
    "exists below": lambda path: (path / "file").exists(),
    "rename below": lambda path: (path / "file").rename_to(path / "renamed"),
}


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    directory = tmp_path / "foreign"
    (directory / "inner").mkdir(parents=True)
    (directory / "file").write_text("private")
    (directory / "inner" / "file").write_text("private")
    return directory


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "checkpoint"
    directory.mkdir()
    return directory


def intact(foreign: Path) -> bool:
    found = {str(each.relative_to(foreign)) for each in foreign.rglob("*")}
    texts = {(foreign / name).read_text() for name in ("file", "inner/file")}
    return found == {"file", "inner", "inner/file"} and texts == {"private"}


@pytest.mark.parametrize("act", ON_A_FILE.values(), ids=ON_A_FILE)
def test_a_link_to_a_file_is_refused(root: Path, foreign: Path, act: Act) -> None:
    (root / "link").symlink_to(foreign / "file")
    with pytest.raises(ForeignFileError, match="link is not what belongs"):
        act(ConfinedPath(root) / "link")
    assert intact(foreign)


@pytest.mark.parametrize("act", ON_A_DIRECTORY.values(), ids=ON_A_DIRECTORY)
def test_a_link_to_a_directory_is_refused(root: Path, foreign: Path, act: Act) -> None:
    (root / "link").symlink_to(foreign)
    with pytest.raises(ForeignFileError, match="link is not what belongs"):
        act(ConfinedPath(root) / "link")
    assert intact(foreign)


def test_a_link_that_leads_nowhere_creates_nothing(root: Path, tmp_path: Path) -> None:
    (root / "link").symlink_to(tmp_path / "appears")
    for act in (ON_A_FILE["create"], ON_A_FILE["lock"], ON_A_DIRECTORY["mkdir"]):
        with pytest.raises(ForeignFileError):
            act(ConfinedPath(root) / "link")
    assert not (tmp_path / "appears").exists()


def test_unlinking_removes_the_link_alone(root: Path, foreign: Path) -> None:
    (root / "link").symlink_to(foreign / "file")
    (ConfinedPath(root) / "link").unlink()
    assert not (root / "link").is_symlink()
    assert intact(foreign)


def test_removing_a_tree_removes_the_links_in_it_alone(root: Path, foreign: Path) -> None:
    (root / "tree").mkdir()
    (root / "tree" / "link").symlink_to(foreign)
    (ConfinedPath(root) / "tree").remove_tree()
    assert not (root / "tree").exists()
    assert intact(foreign)


def test_renaming_onto_a_link_replaces_the_link(root: Path, foreign: Path) -> None:
    (root / "link").symlink_to(foreign / "file")
    (root / "new").write_text("new")
    (ConfinedPath(root) / "new").rename_to(ConfinedPath(root) / "link")
    assert (root / "link").read_text() == "new"
    assert not (root / "link").is_symlink()
    assert intact(foreign)


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (root / "file").write_text("ours")
    (tmp_path / "mounted").symlink_to(root)
    assert (ConfinedPath(tmp_path / "mounted") / "file").read_bytes() == b"ours"


def test_a_pipe_is_refused_and_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(ForeignFileError, match="no file of data"):
        (ConfinedPath(root) / "pipe").read_bytes()


def test_a_file_to_lock_that_has_a_second_name_is_refused(root: Path, foreign: Path) -> None:
    (root / "lock").hardlink_to(foreign / "file")
    with pytest.raises(ForeignFileError, match="another name"):
        (ConfinedPath(root) / "lock").open_to_lock()
    assert intact(foreign)


def test_a_link_is_not_given_a_second_name_outside(root: Path, foreign: Path) -> None:
    (root / "link").symlink_to(foreign / "file")
    with pytest.raises(ForeignFileError):
        (ConfinedPath(root) / "link").link_to(ConfinedPath(root) / "copy")
    assert not os.path.lexists(root / "copy")


@pytest.mark.parametrize("name", ["..", "a/../b", "", ".", "/etc", "a//b", "a\0b"])
def test_a_name_that_leads_elsewhere_is_refused(root: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        ConfinedPath(root) / name


def test_a_document_that_is_too_large_to_be_read_as_a_whole_is_refused(root: Path) -> None:
    with (root / "metadata").open("wb") as file:
        file.truncate(1 << 40)
    with bounded():
        with pytest.raises(ForeignFileError, match="a document of 1,099,511,627,776 bytes"):
            (ConfinedPath(root) / "metadata").read_bytes()
        with pytest.raises(ForeignFileError, match="metadata"):
            LocalFiles(root).get("metadata")


def test_files_and_directories_come_and_go(root: Path) -> None:
    directory = ConfinedPath(root) / "a/b"
    assert (directory.exists(), directory.is_dir()) == (False, False)
    assert list(directory.glob("*")) == []
    directory.mkdir()
    for name in ("2.json", "1.json", ".tmp"):
        with (directory / name).open("xb") as file:
            file.write(name.encode())
    assert [path.name for path in directory.glob("*.json")] == ["1.json", "2.json"]
    assert directory.names() == [".tmp", "1.json", "2.json"]
    assert (directory / "1.json").read_bytes() == b"1.json"
    (directory / "1.json").rename_to(directory / "3.json")
    (directory / ".tmp").unlink()
    (directory / ".tmp").unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError, match=r"a/b/\.tmp"):
        (directory / ".tmp").unlink()
    with pytest.raises(FileExistsError, match=r"a/b/3\.json"):
        (directory / "3.json").open("xb")
    with pytest.raises(ForeignFileError, match="a directory"):
        directory.read_bytes()
    assert directory.names() == ["2.json", "3.json"]
    directory.remove_tree()
    assert not directory.exists()
