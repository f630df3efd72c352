"""Lenses on formats and values that nobody chose: their way back, and both of their forms."""

from __future__ import annotations

import copy
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from support.random_lenses import fitting_changes

from statemigrate.errors import ScriptError, ValueMismatchError
from statemigrate.formats import Format, Struct, Value
from statemigrate.formats.arrow_values import plain_array, plain_values
from statemigrate.formats.avro.column_types import arrow_type
from statemigrate.formats.examples import made_up_values
from statemigrate.lenses import Change, cast, default, lens, move


def _outcome(function_: Any, value: Value) -> tuple[Value | None, Exception | None]:
    try:
        return function_(copy.deepcopy(value)), None
    except ValueError as error:
        return None, error


def _same(fmt: Format, one: Value, other: Value) -> bool:
    return fmt.encode(one) == fmt.encode(other)


@given(fitting_changes())
@settings(max_examples=40, deadline=None)
def test_what_a_change_says_that_it_brings_back_comes_back(change: Change) -> None:
    for value in made_up_values(change.old, 60):
        made, error = _outcome(change.upgrade, value)
        if made is None:
            assert not change.is_total, error
            continue
        conformed = change.new.conform(made)
        if change.comes_back:
            assert change.downgrade is not None
            assert _same(change.old, change.downgrade(copy.deepcopy(conformed)), value)


@given(fitting_changes())
@settings(max_examples=40, deadline=None)
def test_what_a_change_says_that_comes_forth_comes_forth(change: Change) -> None:
    if not change.comes_forth:
        return
    assert change.downgrade is not None
    for value in made_up_values(change.new, 60):
        back, _ = _outcome(change.downgrade, value)
        try:
            there = None if back is None else change.old.conform(back)
        except ValueMismatchError:
            continue
        if there is not None:
            again, error = _outcome(change.upgrade, there)
            assert again is not None, error
            assert _same(change.new, again, value)


def test_a_default_claims_nothing_of_a_none_that_is_written_later() -> None:
    change = Change.of(lens(default("currency", "EUR")), Struct("currency STRING"))
    assert not change.comes_forth
    assert not change.comes_back
    never_none = Change.of(lens(default("n", 7)), Struct("n INT NOT NULL"))
    assert never_none.comes_forth
    assert never_none.comes_back


_MOVES = {
    "into a struct": ("item STRUCT<price: INT{}>, title STRING", "item.title"),
    "into a struct of a struct": (
        "item STRUCT<price: INT, of: STRUCT<n: INT{}>>, title STRING",
        "item.of.title",
    ),
    "into a struct that is made within another": ("item STRUCT<price: INT{}>, title STRING",
                                                  "item.names.title"),
}  # fmt: skip


@pytest.mark.parametrize("name", _MOVES)
def test_a_field_that_moves_into_a_struct_that_may_be_none_makes_one(name: str) -> None:
    ddl, to = _MOVES[name]
    change = Change.of(lens(move("title", to)), Struct(ddl.format("")))
    (made,) = [change.new.conform(change.upgrade({"item": None, "title": "lamp"}))]
    found: Any = made
    for part in to.split("."):
        found = found[part]
    assert found == "lamp"
    assert change.losses
    assert change.downgrade is not None
    assert change.downgrade(made)["title"] == "lamp"
    nothing = change.new.conform(change.upgrade({"item": None, "title": None}))
    assert nothing["item"] is None


@pytest.mark.parametrize("name", _MOVES)
def test_a_field_does_not_move_where_it_would_make_an_invalid_struct(name: str) -> None:
    ddl, to = _MOVES[name]
    with pytest.raises(ScriptError) as raised:
        Change.of(lens(move("title", to)), Struct(ddl.format(" NOT NULL")))
    assert raised.value.code == "SM-LENS-003"


def test_a_field_moves_out_of_a_struct_with_fields_that_cannot_be_none() -> None:
    old = Struct("item STRUCT<price: INT NOT NULL, title: STRING>")
    change = Change.of(lens(move("item.title", "title")), old)
    assert change.downgrade is not None
    for value in made_up_values(old):
        made = change.new.conform(change.upgrade(copy.deepcopy(value)))
        assert _same(old, change.downgrade(made), value)
    with pytest.raises(ValueMismatchError):
        old.conform(change.downgrade({"item": None, "title": "lamp"}))


@given(fitting_changes())
@settings(max_examples=40, deadline=None)
def test_a_table_becomes_what_its_values_become_one_by_one(change: Change) -> None:
    pairs = [(v, _outcome(change.upgrade, v)) for v in made_up_values(change.old, 60)]
    _check_table(change.upgrade_table, change.old, change.new, pairs)
    if change.downgrade is not None:
        back = [(v, _outcome(change.downgrade, v)) for v in made_up_values(change.new, 60)]
        _check_table(change.downgrade_table, change.new, change.old, back)


def _check_table(table_function: Any, old: Format, new: Format, pairs: list[Any]) -> None:
    taken = [(value, made) for value, (made, _) in pairs if made is not None]
    failing = [value for value, (made, _) in pairs if made is None]
    kind = arrow_type(old.schema)
    keys = pa.array([{"k": n} for n in range(len(taken))])
    table = pa.table({"key": keys, "value": plain_array([v for v, _ in taken], kind)})
    made = table_function(table)["value"]
    assert [f.name for f in made.type] == [f.name for f in new.schema.fields]
    found = [each_ for chunk in made.chunks for each_ in plain_values(chunk)]
    assert repr(found) == repr([each_ for _, each_ in _plain(taken, new)])
    for value in failing[:3]:
        single = pa.table({"key": pa.array([{"k": 1}]), "value": plain_array([value], kind)})
        with pytest.raises(ValueError, match=r"fit|digits|among"):
            table_function(single)


def _plain(taken: list[Any], new: Format) -> list[Any]:
    """The values as Arrow gives them back."""
    kind = arrow_type(new.schema)
    values = plain_values(plain_array([made for _, made in taken], kind))
    return list(zip(range(len(values)), values, strict=True))


@pytest.mark.parametrize("places", [0, 1, 10, 20, 38])
def test_the_largest_decimals_stay_as_they_are_where_the_new_type_holds_them(places: int) -> None:
    """All 38 digits are compared, more than Python's arithmetic has by default."""
    ddl = f"DECIMAL(38,{places})"
    old = Struct(f"n {ddl} NOT NULL")
    change = Change.of(lens(cast("n", ddl, unfit="null")), old)
    largest = Decimal(10**38 - 1).scaleb(-places, Context(prec=38))
    for value in (largest, largest.copy_negate(), largest.next_minus(Context(prec=38))):
        assert change.upgrade({"n": value}) == {"n": value}
