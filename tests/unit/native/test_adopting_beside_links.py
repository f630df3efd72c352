"""`adopt` on a checkpoint in which somebody has planted links, or whose files are private."""

import stat
from contextlib import suppress
from pathlib import Path

import pytest

from statemigrate.errors import ForeignFileError
from statemigrate.native.adoption import adopt, undo_adoption
from tests.support.offset_logs import checkpoint


def adopted(root: Path) -> None:
    adopt(str(root), apply=True, stopped=True, wait=0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "home"
    directory.mkdir()
    (directory / "private").write_text("v1\n{}\nmine")
    (directory / "private").chmod(0o600)
    return directory


def contents(directory: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in directory.rglob("*") if each.is_file()}


PLANTED = [
    "offsets/1",
    "offsets/.1.crc",
    "offsets",
    "commits",
    "sources",
    "statemigrate",
    "statemigrate/adoption",
    "statemigrate/adoption/1",
    "statemigrate/adoption/1/offsets",
    "metadata",
]


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("to", ["file", "directory"])
def test_nothing_is_read_or_written_through_a_link(
    tmp_path: Path, home: Path, name: str, to: str
) -> None:
    root = checkpoint(tmp_path / "c", batches=2)
    place = root / name
    if place.exists():
        place.rename(tmp_path / "aside")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(home / "private" if to == "file" else home)
    before, mine = contents(home), contents(root / "statemigrate")
    # A link in the place of a checksum file is removed, any other is refused.
    with suppress(ForeignFileError):
        adopted(root)
    assert contents(home) == before
    assert [each.name for each in home.iterdir()] == ["private"]
    assert "mine" not in str(set(contents(root / "statemigrate").items()) - set(mine.items()))


def test_a_copy_has_the_rights_of_what_it_is_a_copy_of(tmp_path: Path) -> None:
    root = checkpoint(tmp_path / "c", batches=2)
    for path in (root / "offsets").iterdir():
        path.chmod(0o600)
    adopted(root)
    copies = list((root / "statemigrate/adoption/1/offsets").iterdir())
    assert copies
    paths = [*copies, *(root / "offsets").iterdir()]
    assert {stat.S_IMODE(each.stat().st_mode) for each in paths} == {0o600}


def test_undoing_moves_no_directory_through_a_link(tmp_path: Path, home: Path) -> None:
    root = checkpoint(tmp_path / "c", batches=2)
    adopted(root)
    (root / "sources/1").mkdir(parents=True, exist_ok=True)
    (root / "statemigrate/adoption/1/sources").symlink_to(home)
    before = contents(home)
    with pytest.raises(ForeignFileError, match="adoption/1/sources"):
        undo_adoption(str(root), apply=True, stopped=True, wait=0)
    assert contents(home) == before
    assert [each.name for each in home.iterdir()] == ["private"]
