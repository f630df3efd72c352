"""Values with complements in memory, on disk and in a page: nothing is lost, wherever they go."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from statemigrate.access import DualAccess, DualList
from statemigrate.deployment import StoredFamily, complement_of, family_name
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.errors import CheckpointError, TransformError
from statemigrate.families import Complements, MemoryFamily, MemoryListFamily, Source, Span
from statemigrate.formats import Struct
from statemigrate.lenses import Change, add, drop, lens, rename
from statemigrate.migration import Lineage, Migration
from statemigrate.pages.columns import PageId
from statemigrate.pages.page import Page
from statemigrate.pages.page_families import family_class

_BASE = Struct("name STRING, note STRING")


def _migration(revision: str, before: Migration | None, *lenses: Any) -> Migration:
    change = Change.of(lens(*lenses), _BASE if before is None else before.new)
    return Migration(
        revision,
        None if before is None else before.revision,
        "lots",
        change.old,
        change.new,
        change.upgrade,
        change.downgrade,
        change=change,
    )


_FIRST = _migration("aaa", None, rename("name", "title"), drop("note"))
_SECOND = _migration("bbb", _FIRST, add("seen", "STRING"))
_LINEAGE = Lineage.build("lots", [_FIRST, _SECOND])
_NAMES = {
    "base": {"name": "title", "note": "note"},
    "aaa": {"title": "title"},
    "bbb": {"title": "title", "seen": "seen"},
}
Open = Callable[[StoredFamily, str], Any]


class _InMemory:
    def __init__(self, _: Path) -> None:
        self._families: dict[str, Any] = {}

    def open(self, stored: StoredFamily, kind: str, *, is_target: bool) -> Any:
        make = MemoryListFamily if kind == "list" else MemoryFamily
        made = make(stored.name, stored.revision, stored.format)
        return self._families.setdefault(stored.name, made)

    def commit(self) -> None:
        pass

    def close(self) -> None:
        pass


class _OnDisk:
    def __init__(self, directory: Path) -> None:
        self._place = PartitionPaths(0, directory / "durable", directory / "working")
        self._version = 0
        self._partition = Partition(self._place, PartitionState(), 0)

    def open(self, stored: StoredFamily, kind: Any, *, is_target: bool) -> Any:
        opening = self._partition.target if is_target else self._partition.source
        return opening(stored, kind)

    def commit(self) -> None:
        state = self._partition.commit(snapshot=self._version % 3 == 0)
        self._version += 1
        self._partition = Partition(self._place, state, self._version)

    def close(self) -> None:
        self._partition.abandon()


class _InAPage:
    def __init__(self, _: Path) -> None:
        self._place = PageId(1, 0, b"k" * 16)
        self._page = Page(self._place, None)

    def open(self, stored: StoredFamily, kind: Any, *, is_target: bool) -> Any:
        made = family_class(kind)(stored)
        made.turn(self._page)
        return made

    def commit(self) -> None:
        self._page = Page(self._place, self._page.written())

    def close(self) -> None:
        pass


@pytest.fixture(params=[_InMemory, _OnDisk, _InAPage], ids=["in memory", "on disk", "in a page"])
def engine(request, tmp_path: Path) -> Iterator[Any]:
    made = request.param(tmp_path)
    yield made
    made.close()


def _family(revision: str) -> StoredFamily:
    return StoredFamily(family_name(_LINEAGE, revision), revision, _LINEAGE.format_of(revision))


def _access(engine: Any, kind: str, target: str) -> DualAccess[Any]:
    others = [each for each in reversed(_LINEAGE.revisions) if each != target]
    sources = [
        Source(engine.open(_family(each), kind, is_target=False), _LINEAGE.path(each, target))
        for each in others
    ]
    make: Any = DualList if kind == "list" else DualAccess
    return make(
        "lots",
        engine.open(_family(target), kind, is_target=True),
        sources,
        complements=Complements(engine.open(complement_of("lots"), "value", is_target=True)),
    )


def _own(value: Any, twin: dict[str, Any], target: str) -> tuple[Any, Any]:
    names = _NAMES[target]
    return {own: value[own] for own in names}, {own: twin[name] for own, name in names.items()}


def _backfill(access: DualAccess[Any]) -> None:
    def fail(_: Any, error: TransformError) -> None:
        raise error

    for source in access.sources:
        access.backfill_many(source, list(source.family.scan(Span())), fail)


@pytest.mark.parametrize("seed", range(8))
def test_values_are_those_of_a_twin_that_never_went(engine: Any, seed: int) -> None:
    rng = random.Random(seed)
    twins: dict[bytes, dict[str, Any]] = {}
    for number in range(12):
        target = rng.choice(_LINEAGE.revisions)
        access = _access(engine, "value", target)
        for _ in range(15):
            key = b"k%d" % rng.randrange(9)
            did = rng.choice(["get", "peek", "write", "delete", "blind", "scan"])
            if did == "delete":
                access.delete(key)
                twins.pop(key, None)
            elif did == "scan":
                found = dict(access.scan())
                assert found.keys() == twins.keys()
                for each, value in found.items():
                    one, other = _own(value, twins[each], target)
                    assert one == other
            elif did == "blind":
                # What this format does not have stays as it is, whoever writes without reading.
                twin = twins.setdefault(key, {"title": None, "note": None, "seen": None})
                twin |= {name: f"{name} {number}" for name in _NAMES[target].values()}
                access.put(key, {own: twin[name] for own, name in _NAMES[target].items()})
            else:
                value = access.peek(key) if did == "peek" else access.get(key)
                assert (value is None) == (key not in twins)
                if value is None:
                    continue
                one, other = _own(value, twins[key], target)
                assert one == other
                if did == "write":
                    own, name = rng.choice(list(_NAMES[target].items()))
                    value[own] = twins[key][name] = f"written {number}"
                    access.put(key, value)
        if rng.random() < 0.4:
            _backfill(access)
        engine.commit()


def test_a_key_that_was_deleted_begins_without_a_complement(engine: Any) -> None:
    _access(engine, "value", "base").put(b"k", {"name": "lamp", "note": "oak"})
    engine.commit()
    access = _access(engine, "value", "aaa")
    assert access.get(b"k") == {"title": "lamp"}
    access.delete(b"k")
    access.put(b"k", {"title": "lamp"})
    engine.commit()
    assert _access(engine, "value", "base").get(b"k") == {"name": "lamp", "note": None}


def test_a_cleared_span_leaves_no_complement(engine: Any) -> None:
    access = _access(engine, "value", "base")
    for key in (b"a1", b"a2", b"b1"):
        access.put(key, {"name": "lamp", "note": "oak"})
    engine.commit()
    access = _access(engine, "value", "aaa")
    _backfill(access)
    access.clear(Span.prefix(b"a"))
    access.put(b"a1", {"title": "lamp"})
    engine.commit()
    access = _access(engine, "value", "base")
    assert access.get(b"a1") == {"name": "lamp", "note": None}
    assert access.get(b"b1") == {"name": "lamp", "note": "oak"}


def test_a_list_keeps_what_its_elements_left_behind(engine: Any) -> None:
    old = [{"name": f"n{n}", "note": f"note {n}"} for n in range(3)]
    _access(engine, "list", "base").put(b"k", old)
    engine.commit()
    access = _access(engine, "list", "aaa")
    access.append(b"k", [{"title": "new"}])
    engine.commit()
    back = _access(engine, "list", "base").get(b"k")
    assert back == [*old, {"name": "new", "note": None}]


def test_a_damaged_complement_is_named_and_nothing_is_written(engine: Any) -> None:
    _access(engine, "value", "base").put(b"k", {"name": "lamp", "note": "oak"})
    engine.commit()
    access = _access(engine, "value", "aaa")
    access.get(b"k")
    assert access.complements is not None
    stored = access.complements.family.get(b"k")
    assert stored is not None
    access.complements.family.put(b"k", {"complement": stored["complement"][:-1]})
    engine.commit()
    access = _access(engine, "value", "base")
    with pytest.raises(CheckpointError) as caught:
        access.get(b"k")
    assert caught.value.code == "SM-LENS-011"
    assert caught.value.data["family"] == "lots__complement"
    assert not access.target.contains(b"k")
