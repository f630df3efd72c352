"""Files that appear whole, under the rights they should have."""

import os
import stat
from pathlib import Path

import pytest

from statemigrate.files.documents import replacing


def rights(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_private_file_is_its_owners_alone(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("for all")
    target.chmod(0o666)
    with replacing(target, private=True) as stream:
        stream.write(b"values")
    assert (target.read_bytes(), rights(target)) == (b"values", 0o600)


def test_a_file_keeps_its_rights_and_a_new_one_has_the_usual(tmp_path: Path) -> None:
    old = tmp_path / "applied.json"
    old.write_text("{}")
    old.chmod(0o640)
    mask = os.umask(0o022)
    try:
        for target in (old, tmp_path / "new.json"):
            with replacing(target) as stream:
                stream.write(b"text")
    finally:
        os.umask(mask)
    assert (rights(old), rights(tmp_path / "new.json")) == (0o640, 0o644)


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("before")
    with pytest.raises(ValueError, match="closed file"), replacing(target) as stream:
        stream.close()
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "foreign").write_text("private")
    (tmp_path / "report.html").symlink_to(tmp_path / "foreign")
    with replacing(tmp_path / "report.html", private=True) as stream:
        stream.write(b"values")
    assert (tmp_path / "foreign").read_text() == "private"
    assert not (tmp_path / "report.html").is_symlink()
