"""What every implementation of `statemigrate.files.protocol.Files` does: one suite for all.

A test module names its class after the store, and gives it the fixture ``files``: an empty place.
"""

import threading
from pathlib import Path

import pytest

from statemigrate.errors import ForeignFileError
from statemigrate.files.protocol import FileEntry, Files

CONTENT = bytes(range(256)) * 5


def names(entries: tuple[FileEntry, ...]) -> list[tuple[str, str, int]]:
    return [(each.name, each.kind, each.size) for each in entries]


class FilesContract:
    """Subclasses have a fixture ``files``."""

    def test_what_was_put_is_read_back(self, files: Files, tmp_path: Path) -> None:
        local = tmp_path / "local"
        local.write_bytes(CONTENT)
        files.put("a/b c/%41é.bin", CONTENT)
        files.put("a/from-disk", local)
        files.put("a/empty", b"")
        for name in ("a/b c/%41é.bin", "a/from-disk"):
            assert files.get(name) == CONTENT
        assert files.get("a/empty") == b""

    def test_the_same_may_be_put_again(self, files: Files, tmp_path: Path) -> None:
        local = tmp_path / "local"
        local.write_bytes(CONTENT)
        for _ in range(2):
            files.put("a/bytes", CONTENT)
            files.put("a/disk", local)
        assert names(files.list("a")) == [("a/bytes", "file", 1280), ("a/disk", "file", 1280)]

    def test_a_file_is_created_once(self, files: Files) -> None:
        files.create("epochs/1.json", b"mine")
        with pytest.raises(FileExistsError):
            files.create("epochs/1.json", b"another's")
        assert files.get("epochs/1.json") == b"mine"
        assert names(files.list("epochs")) == [("epochs/1.json", "file", 4)]

    def test_who_lost_the_answer_may_create_the_same_again(self, files: Files) -> None:
        files.create("epochs/1.json", b"mine")
        files.create("epochs/1.json", b"mine")
        assert files.get("epochs/1.json") == b"mine"

    def test_of_several_that_create_one_succeeds(self, files: Files) -> None:
        barrier = threading.Barrier(4)
        won: list[int] = []

        def create(number: int) -> None:
            barrier.wait()
            try:
                files.create("epochs/7.json", b"%d" % number * 1000)
                won.append(number)
            except FileExistsError:
                pass

        threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert files.get("epochs/7.json") == b"%d" % won[0] * 1000
        assert names(files.list("epochs")) == [("epochs/7.json", "file", 1000)]

    def test_a_document_is_replaced(self, files: Files) -> None:
        for text in (b"first, longer", b"second"):
            files.replace("statemigrate/plan.json", text)
            assert files.get("statemigrate/plan.json") == text
        assert names(files.list("statemigrate")) == [("statemigrate/plan.json", "file", 6)]

    def test_what_is_not_there(self, files: Files, tmp_path: Path) -> None:
        files.put("a/b", b"x")
        for name in ("c", "a/c", "a/b/c", "d/e/f"):
            with pytest.raises(FileNotFoundError):
                files.get(name)
            with pytest.raises(FileNotFoundError):
                files.fetch(name, tmp_path / "target", most=10)
            assert files.find(name) is None
            assert files.list(name) == ()
            assert files.list(name, recursive=True) == ()
            files.delete([name])
            files.delete_folder(name)
        assert not (tmp_path / "target").exists()
        assert files.get("a/b") == b"x"

    def test_a_place_with_nothing_in_it_has_an_empty_listing(self, files: Files) -> None:
        assert files.list() == ()
        assert files.list(recursive=True) == ()
        assert files.find() is None
        files.put("a", b"x")
        assert files.find() == FileEntry("", "folder")

    def test_a_folder_is_listed_or_all_below_it(self, files: Files) -> None:
        for name in ("top", "a/2", "a/10", "a/b/c/deep", "ab/other", "a.b"):
            files.put(name, name.encode())
        assert names(files.list()) == [
            ("a", "folder", 0),
            ("a.b", "file", 3),
            ("ab", "folder", 0),
            ("top", "file", 3),
        ]
        assert names(files.list("a")) == [
            ("a/10", "file", 4),
            ("a/2", "file", 3),
            ("a/b", "folder", 0),
        ]
        assert [each.base_name for each in files.list("a")] == ["10", "2", "b"]
        assert sorted(each.name for each in files.list("a", recursive=True)) == [
            "a/10",
            "a/2",
            "a/b/c/deep",
        ]

    def test_size_and_tag_say_whether_a_file_is_another(self, files: Files) -> None:
        files.put("a/x", b"1234")
        files.replace("a/y", b"one")
        found, before = files.find("a/x"), files.find("a/y")
        assert found is not None
        assert before is not None
        assert (found.kind, found.size, found.name) == ("file", 4, "a/x")
        assert found.modified > 1_500_000_000
        listed = {each.name: each for each in files.list("a")}
        assert listed == {"a/x": found, "a/y": before}
        files.replace("a/y", b"three")
        after = files.find("a/y")
        assert after is not None
        assert before.tag != after.tag
        assert files.find("a") == FileEntry("a", "folder")

    def test_files_and_folders_are_removed(self, files: Files) -> None:
        for name in ("a/1", "a/2", "a/3", "b/c/1", "b/2", "bc/1"):
            files.put(name, b"x")
        files.delete(["a/1", "a/3", "a/never"])
        files.delete_folder("b")
        files.delete([])
        left = {each.name for each in files.list(recursive=True)}
        assert left == {"a/2", "bc/1"}
        assert files.find("b") is None

    def test_a_large_file_goes_to_a_local_one(self, files: Files, tmp_path: Path) -> None:
        content = CONTENT * 2000
        files.put("a/large", content)
        for shared in (False, True):
            target = tmp_path / f"target-{shared}"
            files.fetch("a/large", target, most=len(content), shared=shared)
            assert target.read_bytes() == content
            assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []

    def test_more_than_was_expected_is_refused(self, files: Files, tmp_path: Path) -> None:
        files.put("a/large", CONTENT)
        with pytest.raises(ForeignFileError, match="1,279"):
            files.get("a/large", most=1279)
        with pytest.raises(ForeignFileError, match="1,279"):
            files.fetch("a/large", tmp_path / "target", most=1279)
        assert not (tmp_path / "target").exists()
        assert files.get("a/large", most=1280) == CONTENT

    def test_the_start_of_a_longer_file_is_all_that_is_read(
        self, files: Files, tmp_path: Path
    ) -> None:
        files.put("a/large", CONTENT)
        for most in (0, 1279, 1280, 5000):
            for shared in (False, True):
                target = tmp_path / f"target-{most}-{shared}"
                files.fetch("a/large", target, most=most, shared=shared, cut=True)
                assert target.read_bytes() == CONTENT[:most]

    @pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "../a", "a/./b", "a/..", "a\0"])
    def test_a_name_cannot_lead_elsewhere(self, files: Files, tmp_path: Path, name: str) -> None:
        acts = (
            lambda: files.get(name),
            lambda: files.put(name, b"x"),
            lambda: files.create(name, b"x"),
            lambda: files.replace(name, b"x"),
            lambda: files.find(name) if name else files.get(name),
            lambda: files.delete([name]),
            lambda: files.delete_folder(name),
            lambda: files.fetch(name, tmp_path / "target", most=1),
            lambda: files.list(f"x/{name}"),
        )
        for act in acts:
            with pytest.raises(ValueError, match="not a name"):
                act()

    def test_the_place_is_named(self, files: Files) -> None:
        assert isinstance(files.location, str)
        assert files.location.rstrip("/") == files.location != ""
