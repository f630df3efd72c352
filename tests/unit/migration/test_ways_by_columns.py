"""Stored values that go through lenses by columns, against going one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.columnar_formats import columnar_values
from support.lens_scripts import lineage_of
from support.random_lenses import fitting_changes

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, Struct, Value
from statemigrate.formats.examples import made_up_values
from statemigrate.lenses import (
    Change,
    add,
    cast,
    drop,
    function,
    lens,
    map_values,
    move,
    rename,
    scale,
)
from statemigrate.migration import Lineage, Migration, MigrationPath
from statemigrate.migration import path as migration_path
from statemigrate.migration.path import FEW, LOADING, ColumnWay


def one_by_one(path: MigrationPath, old: Format, new: Format, stored: Sequence[bytes]) -> Any:
    """The bytes that each becomes by itself; None where one of them does not."""
    try:
        return [new.encode(path.apply(old.decode(data))) for data in stored]
    except (TransformError, ValueMismatchError):
        return None


@pytest.fixture
def _loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration_path, "LOADING", 0)


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration_path, "FEW", 1)
    monkeypatch.setattr(migration_path, "LOADING", 0)


@pytest.mark.long
@pytest.mark.usefixtures("_few")
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(columnar_values() | columnar_values(lists=True), st.data())
def test_values_become_the_same_bytes_as_one_by_one(
    pair: tuple[Format, list[Value]], data: st.DataObject
) -> None:
    fmt, values = pair
    first = data.draw(fitting_changes(fmt))
    assume(first.new.schema.fields)
    second = data.draw(fitting_changes(first.new))
    lineage = lineage_of(first, second)
    values = [*values, *made_up_values(fmt, 30)]
    formats = {"base": fmt, "r0": first.new, "r1": second.new}
    ways = [("base", "r0", ()), ("base", "r1", ()), ("r1", "r0", (second,))]
    ways += [("r0", "base", (first,)), ("r1", "base", (first, second))]
    for source, target, back in ways:
        if any(change.downgrade is None for change in back):
            continue
        path, old, new = lineage.path(source, target), formats[source], formats[target]
        if path.columns is None:
            continue
        assert path.columns.leads(old, new)
        stored = [
            old.encode(each) for each in (values if source == "base" else made_up_values(old, 30))
        ]
        expected = one_by_one(path, old, new, stored)
        found = path.columns.bytes_of(stored)
        assert found is None or found == expected
        if expected is None:
            # Those that do go are the same.
            for data_ in stored[:10]:
                alone = path.columns.bytes_of([data_])
                assert alone is None or alone == one_by_one(path, old, new, [data_])


ORDER = Struct("id BIGINT NOT NULL, n BIGINT, t STRING, at TIMESTAMP, s STRUCT<x: DOUBLE, y: INT>")
PLAIN = lens(
    rename("t", "title"),
    scale("n", 2),
    cast("s.y", "BIGINT"),
    add("seen", "TIMESTAMP"),
    drop("at"),
    map_values("title", {"": "none"}, otherwise="keep", back={"none": ""}),
)


@pytest.mark.usefixtures("_few")
def test_lenses_in_a_chain_go_by_columns_up_and_down() -> None:
    first = Change.of(PLAIN, ORDER)
    second = Change.of(lens(rename("title", "name")), first.new)
    lineage = lineage_of(first, second)
    for source, target, old, new in (
        ("base", "r1", ORDER, second.new),
        ("r1", "base", second.new, ORDER),
    ):
        path = lineage.path(source, target)
        stored = [old.encode(value) for value in made_up_values(old, 40)]
        plain = [data for data in stored if one_by_one(path, old, new, [data]) is not None]
        assert len(plain) > 10
        assert path.columns is not None
        assert path.columns.bytes_of(plain) == one_by_one(path, old, new, plain)


def test_few_values_are_not_worth_loading_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = False
    monkeypatch.setattr(migration_path, "is_arrow_loaded", lambda: loaded)
    path = lineage_of(Change.of(PLAIN, ORDER)).path("base", "r0")
    stored = [ORDER.encode({"id": 1, "n": 2, "t": "x", "at": None, "s": None})] * 1_024
    assert path.columns is not None
    blocks = [path.columns.bytes_of(stored) is not None for _ in range(LOADING // 1_024 + 2)]
    assert blocks == [False] * (LOADING // 1_024) + [True] * 2
    loaded = True
    path = lineage_of(Change.of(PLAIN, ORDER)).path("base", "r0")
    assert path.columns is not None
    assert path.columns.bytes_of(stored) is not None


@pytest.mark.usefixtures("_loaded")
def test_few_values_are_not_worth_their_columns() -> None:
    path = lineage_of(Change.of(PLAIN, ORDER)).path("base", "r0")
    data = ORDER.encode({"id": 1, "n": 2, "t": "x", "at": None, "s": None})
    assert path.columns is not None
    assert path.columns.bytes_of([data] * (FEW - 1)) is None
    assert path.columns.bytes_of([data] * FEW) is not None


@pytest.mark.usefixtures("_loaded")
def test_one_value_that_a_lens_does_not_take_leaves_all_to_go_one_by_one() -> None:
    change = Change.of(lens(cast("n", "TINYINT", unfit="fail")), Struct("n BIGINT"))
    path = lineage_of(change).path("base", "r0")
    stored = [change.old.encode({"n": n % 100}) for n in range(FEW)]
    assert path.columns is not None
    assert path.columns.bytes_of(stored) is not None
    assert path.columns.bytes_of([*stored, change.old.encode({"n": 128})]) is None


@pytest.mark.usefixtures("_few")
def test_what_may_not_fit_the_format_between_two_scripts_goes_one_by_one() -> None:
    item = "STRUCT<price: INT NOT NULL, title: STRING>"
    first = Change.of(lens(add("item", item)), Struct("k INT"))
    second = Change.of(lens(move("item.title", "title")), first.new)
    lineage = lineage_of(first, second)
    assert lineage.path("base", "r1").columns is not None
    # The way back makes a struct for the title alone, whose price may not be None: what the format
    # between the two refuses, no later way may drop.
    whole, back = lineage.path("r1", "base"), lineage.path("r1", "r0").columns
    assert (second.downgrade_fits, whole.columns) == (False, None)
    assert whole.apply({"k": 1, "item": {"price": 3}, "title": "lamp"}) == {"k": 1}
    with pytest.raises(TransformError) as caught:
        whole.apply({"k": 1, "item": None, "title": "lamp"})
    assert caught.value.code == "SM-TRANSFORM-008"
    assert back is not None
    fits, unfit = (
        second.new.encode({"item": None, "k": 1, "title": each}) for each in (None, "lamp")
    )
    assert back.bytes_of([fits]) == [first.new.encode({"k": 1, "item": None})]
    # At the end it is the format that refuses it, and on the way what looks at nulls.
    assert back.bytes_of([fits, unfit]) is None
    tables = (second.downgrade_table, first.downgrade_table)
    one_after_the_other = ColumnWay(second.new, first.old, tables, (first.new,))
    assert one_after_the_other.bytes_of([fits, fits]) == [first.old.encode({"k": 1})] * 2
    assert one_after_the_other.bytes_of([fits, unfit]) is None


@pytest.mark.usefixtures("_few")
def test_a_value_that_a_lens_on_the_way_does_not_take_goes_by_itself_though_it_is_dropped() -> None:
    first = Change.of(lens(cast("n", "TINYINT", unfit="fail")), Struct("n BIGINT, m INT"))
    second = Change.of(lens(drop("n")), first.new)
    way = lineage_of(first, second).path("base", "r1").columns
    assert way is not None
    assert len(way.functions) == 2
    fits, unfit = (first.old.encode({"n": n, "m": 5}) for n in (127, 128))
    assert way.bytes_of([fits, fits]) == [second.new.encode({"m": 5})] * 2
    assert way.bytes_of([fits, unfit]) is None


@pytest.mark.usefixtures("_few")
def test_a_long_chain_of_lenses_is_one_function_of_columns() -> None:
    changes, fmt = [], Struct("n BIGINT, t STRING NOT NULL")
    for number in range(12):
        name = "t" if number == 0 else f"t{number}"
        changes.append(Change.of(lens(rename(name, f"t{number + 1}")), fmt))
        fmt = changes[-1].new  # type: ignore[assignment]
    lineage = lineage_of(*changes)
    ways = (("base", "r11", changes[0].old, fmt), ("r11", "base", fmt, changes[0].old))
    for source, target, old, new in ways:
        path = lineage.path(source, target)
        stored = [old.encode(value) for value in made_up_values(old, 20)]
        assert path.columns is not None
        assert len(path.columns.functions) == 1
        assert path.columns.bytes_of(stored) == one_by_one(path, old, new, stored)


@pytest.mark.usefixtures("_loaded")
def test_damaged_bytes_leave_all_to_go_one_by_one() -> None:
    path = lineage_of(Change.of(PLAIN, ORDER)).path("base", "r0")
    data = ORDER.encode({"id": 1, "n": 2, "t": "x", "at": None, "s": None})
    assert path.columns is not None
    assert path.columns.bytes_of([data] * FEW + [data[:-1]]) is None


def _hand(value: Value) -> Value:
    return value


@pytest.mark.parametrize(
    ("old", "chain"),
    [
        (Struct("n BIGINT, m BIGINT"), lens(function("n", lambda n: n, lambda n: n))),
        (Struct("n BIGINT, m MAP<INT, INT>"), lens(rename("n", "k"))),
    ],
)
def test_what_has_no_columns_goes_one_by_one(old: Format, chain: Any) -> None:
    assert lineage_of(Change.of(chain, old)).path("base", "r0").columns is None


def test_functions_by_hand_and_no_step_at_all_have_no_columns() -> None:
    fmt = Struct("n BIGINT")
    hand = Migration(
        store="notes",
        revision="r0",
        down_revision=None,
        old=fmt,
        new=fmt,
        upgrade=_hand,
        downgrade=_hand,
    )
    lineage = Lineage.build("notes", [hand])
    assert lineage.path("base", "r0").columns is None
    assert lineage.path("base", "base").columns is None
