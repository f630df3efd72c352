"""The object store in memory keeps its own rules, so that tests against it prove something."""

import pytest
from support.object_store import Fault, MemoryFiles, ObjectStore, Request

from statemigrate.errors import StorageError
from statemigrate.files.protocol import ConflictError


def test_a_name_is_written_once_unless_it_is_replaced() -> None:
    files = MemoryFiles.holding({"a": b"1", "b": b"1"})
    files.put("a", b"1")
    files.replace("b", b"2")
    with pytest.raises(AssertionError, match="a is written over"):
        files.put("a", b"2")
    assert files.content == {"a": b"1", "b": b"2"}


def test_every_request_is_written_down() -> None:
    files = MemoryFiles()
    files.create("a/1", b"1")
    files.list("a")
    files.find("a")
    files.delete(["a/1", "a/2"])
    assert files.store.requests == [
        Request("create", "a/1"),
        Request("list", "a"),
        Request("head", "a"),
        Request("list", "a"),
        Request("delete", "a/1"),
    ]


@pytest.mark.parametrize("status", [409, 503])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("verb", ["put", "create", "replace", "get", "list", "delete", "find"])
def test_one_fault_at_any_request_changes_nothing(verb: str, status: int, done: bool) -> None:
    files = MemoryFiles.holding({"a": b"1", "old": b"1"})
    files.store.faults = {0: Fault(status, done)}  # type: ignore[arg-type]
    answers = {
        "put": lambda: files.put("new", b"2"),
        "create": lambda: files.create("new", b"2"),
        "replace": lambda: files.replace("new", b"2"),
        "get": lambda: files.get("a"),
        "list": lambda: [each.name for each in files.list()],
        "delete": lambda: files.delete(["old"]),
        "find": lambda: getattr(files.find("a"), "size", None),
    }
    expected = {"get": b"1", "list": ["a", "old"], "find": 1}
    assert answers[verb]() == expected.get(verb)
    left = {"a": b"1"} | ({} if verb == "delete" else {"old": b"1"})
    new = {"new": b"2"} if verb in ("put", "create", "replace") else {}
    assert files.content == left | new


def test_of_two_that_create_the_second_is_told_even_after_a_conflict() -> None:
    files = MemoryFiles.holding({"epoch": b"another's"})
    for fault in (Fault(409), Fault(503), Fault(503, done=False)):
        files.store.faults = {len(files.store.requests): fault}
        with pytest.raises(FileExistsError):
            files.create("epoch", b"mine")
    assert files.content == {"epoch": b"another's"}


def test_a_store_that_stays_away_is_an_error() -> None:
    files = MemoryFiles()
    files.store.faults = {number: Fault(503) for number in range(4)}
    with pytest.raises(StorageError, match="get of a: 503"):
        files.get("a")
    files.store.faults = {number: Fault(409) for number in range(4, 30)}
    with pytest.raises(ConflictError):
        files.create("a", b"1")
    assert files.content == {}


def test_a_listing_may_lag_behind() -> None:
    files = MemoryFiles(ObjectStore(lag=2))
    files.put("1", b"x")
    assert files.list() == ()
    files.put("2", b"x")
    assert [each.name for each in files.list()] == ["1"]
    assert [each.name for each in files.list()] == ["1", "2"]
    files.delete(["1"])
    assert [each.name for each in files.list()] == ["1", "2"]
    assert files.get("2") == b"x"
    with pytest.raises(FileNotFoundError):
        files.get("1")
    assert [each.name for each in files.list()] == ["2"]
