"""A page whose values go to another format by columns is the page where each goes by itself."""

from __future__ import annotations

from typing import Any

import pytest
from support.lens_scripts import CHANGE, LINEAGE, OLD, value

from statemigrate.deployment import (
    Declared,
    DeploymentSettings,
    StoredFamily,
    StoredStore,
    plan_store,
)
from statemigrate.errors import TransformError
from statemigrate.families import Span
from statemigrate.formats import Struct
from statemigrate.migration import path as migration_path
from statemigrate.migration.path import ColumnWay
from statemigrate.pages.columns import NEVER, PageId
from statemigrate.pages.page import Page
from statemigrate.pages.page_families import PageStores, fingerprint
from statemigrate.processor.keys import TupleKeyCodec

KEY = Struct("k STRING").struct_type()
KEYS = TupleKeyCodec(KEY)
FAMILIES = (StoredFamily("notes", "base", OLD), StoredFamily("notes@r0", "r0", CHANGE.new))
NUMBER = 700


def key(number: int) -> bytes:
    return KEYS.encode((f"k{number}",))


def stores(life: int | None = None, on_error: Any = "raise", kind: Any = "value") -> PageStores:
    settings = DeploymentSettings(targets={"notes": "head"}, on_error=on_error)
    declared = Declared("notes", kind, CHANGE.new.struct_type(), None, life)
    plan = plan_store(declared, LINEAGE, StoredStore(kind, FAMILIES, {}, None), settings)
    return PageStores({"notes": plan}, settings, KEYS, "first")


def seeded(unfit: tuple[int, ...], newer: tuple[int, ...], expiry: int) -> Page:
    """A page with so many old values, some of which no lens takes, and with some newer ones."""
    found = Page(PageId(1, 0, b"\0" * 16), None)
    for number in range(NUMBER):
        data = OLD.encode(value(number, 1 << 40 if number in unfit else None))
        found.section("notes", fingerprint(OLD)).put(key(number), data, expiry)
    for number in newer:
        data = CHANGE.new.encode(CHANGE.upgrade(value(number, 7)))
        found.section("notes@r0", fingerprint(CHANGE.new)).put(key(number), data, expiry)
    return Page(PageId(1, 0, b"\0" * 16), found.written())


@pytest.fixture
def blocks(monkeypatch: Any) -> list[int]:
    """How many values went by columns, block by block."""
    found: list[int] = []
    bytes_of = ColumnWay.bytes_of

    def counted(self: ColumnWay, stored: Any) -> Any:
        made = bytes_of(self, stored)
        found.append(0 if made is None else len(made))
        return made

    monkeypatch.setattr(migration_path, "LOADING", 0)
    monkeypatch.setattr(ColumnWay, "bytes_of", counted)
    return found


def migrated(monkeypatch: Any, few: int, unfit: Any, newer: Any, **how: Any) -> tuple[Any, ...]:
    monkeypatch.setattr(migration_path, "FEW", few)
    opened = stores(**how)
    found = seeded(unfit, newer, 500 if how.get("life") else NEVER)
    opened.turn(found, 0)
    (access,) = opened.accesses
    (source,) = access.sources
    try:
        opened.migrate(asked=True)
        error = None
    except TransformError as raised:
        error = str(raised)
    held = [list(each.scan(Span())) for each in (access.target, source.family)]
    return error, held, opened.quarantined, access.counts, found.written()


@pytest.mark.parametrize(
    ("unfit", "newer", "how", "expected"),
    [
        ((), (), {}, [NUMBER]),
        ((3,), (), {"on_error": "quarantine"}, [0]),
        ((3,), (), {}, [0]),
        ((), (5, 6), {}, []),
        ((), (), {"life": 1_000}, []),
    ],
    ids=["as usual", "one left", "one refused", "newer ones", "values that expire"],
)
def test_a_page_is_the_same_by_columns_and_by_single_values(
    monkeypatch: Any, blocks: list[int], unfit: Any, newer: Any, how: Any, expected: list[int]
) -> None:
    by_columns = migrated(monkeypatch, 1, unfit, newer, **how)
    assert blocks == expected
    singly = migrated(monkeypatch, 10**9, unfit, newer, **how)
    assert by_columns == singly
    error, held, quarantined, _, _ = singly
    assert (error is None) == (not unfit or "on_error" in how)
    if not unfit:
        assert dict(held[0]) == {
            key(number): CHANGE.new.conform(
                CHANGE.upgrade(value(number, 7 if number in newer else None))
            )
            for number in range(NUMBER)
        }
    assert quarantined == (1 if how.get("on_error") else 0)
