"""One look at a checkpoint asks once, and sees what is written through it."""

import pytest
from support.object_store import MemoryFiles

from statemigrate.files.cached import Remembered


def test_nothing_is_asked_twice() -> None:
    files = MemoryFiles.holding({"a/1": b"x", "a/2": b"y"})
    look = Remembered(files)
    for _ in range(2):
        assert look.get("a/1") == b"x"
        assert [each.name for each in look.list("a")] == ["a/1", "a/2"]
        assert look.find("a/2") is not None
        assert look.find("a/3") is None
        with pytest.raises(FileNotFoundError):
            look.get("a/4")
        assert look.find("b") is None
    verbs = [(each.verb, each.name) for each in files.store.requests]
    assert verbs == [
        ("get", "a/1"),
        ("list", "a"),
        ("get", "a/4"),
        ("head", "b"),
        ("list", "b"),
        ("list", "a"),
    ]


def test_what_is_written_is_seen() -> None:
    look = Remembered(MemoryFiles.holding({"a/1": b"x"}))
    assert len(look.list("a")) == 1
    look.put("a/2", b"y")
    assert len(look.list("a")) == 2
    look.replace("a/1", b"z")
    assert look.get("a/1") == b"z"
    look.delete(["a/1"])
    assert look.find("a/1") is None
    look.create("a/1", b"new")
    assert look.get("a/1") == b"new"
    look.delete_folder("a")
    assert look.list("a") == ()
