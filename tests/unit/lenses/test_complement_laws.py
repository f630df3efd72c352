"""What a value leaves behind on its way, and that it comes back: on lenses that nobody chose."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_lenses import fitting_changes

from statemigrate.errors import CheckpointError, ValueMismatchError
from statemigrate.formats import Format, Struct, Value
from statemigrate.formats.examples import made_up_values
from statemigrate.lenses import (
    Change,
    Complement,
    Remainder,
    ScriptRemainder,
    add,
    cast,
    default,
    drop,
    each,
    entries,
    function,
    join,
    lens,
    map_values,
    rename,
    split,
)


def _same(fmt: Format, one: Value, other: Value) -> bool:
    return fmt.encode(one) == fmt.encode(other)


def _stored(remainder: Remainder | None) -> Remainder | None:
    """A remainder as it is after it was written and read."""
    if remainder is None:
        return None
    bytes_ = Complement({"r": ScriptRemainder("upgrade", "f", remainder)}).to_bytes()
    return Complement.from_bytes(bytes_).entries["r"].remainder


def _tried(function: Any, *arguments: Any) -> Any:
    """None for a value that the lenses, or the format after them, do not take."""
    try:
        return function(*arguments)
    except (ValueError, ValueMismatchError):
        return None


@given(fitting_changes())
@settings(max_examples=15, deadline=None)
def test_a_value_that_goes_up_and_comes_back_is_what_it_was(change: Change) -> None:
    if change.down is None:
        return
    for value in made_up_values(change.old, 40):
        made = _tried(change.get, value)
        if made is None:
            continue
        there, left = made
        back, _ = change.put(there, _stored(left))
        assert _same(change.old, back, value)


@given(fitting_changes())
@settings(max_examples=15, deadline=None)
def test_a_value_that_goes_back_and_comes_up_again_is_what_it_was(change: Change) -> None:
    if change.down is None:
        return
    for value in made_up_values(change.new, 40):
        made = _tried(change.put, value)
        if made is None:
            continue
        there, left = made
        again, _ = change.get(there, _stored(left))
        assert _same(change.new, again, value)


@given(fitting_changes(), st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_what_is_written_between_the_ways_is_never_lost(change: Change, rng: random.Random) -> None:
    """Any number of times: up, perhaps another value is written, back, perhaps another one."""
    if change.down is None:
        return
    old, new = made_up_values(change.old, 30), made_up_values(change.new, 30)
    value, left = rng.choice(old), None
    for _ in range(4):
        made = _tried(change.get, value, left)
        if made is None:
            return
        there, left = made[0], _stored(made[1])
        if rng.random() < 0.6:
            there = _mixed(rng, there, rng.choice(new))
        back = _tried(change.put, there, left)
        if back is None:
            return
        came, left = back[0], _stored(back[1])
        again = _tried(change.get, came, left)
        assert again is not None
        assert _same(change.new, again[0], there)
        value = _mixed(rng, came, rng.choice(old)) if rng.random() < 0.6 else came


def _mixed(rng: random.Random, value: Value, other: Value) -> Value:
    """A value of which some fields were written."""
    return {name: rng.choice([value, other])[name] for name in value}


_AUCTION = Struct(
    "name STRING, note STRING, state STRING, first STRING, last STRING, "
    "total STRING, tags ARRAY<STRUCT<word: STRING, by: STRING>>, "
    "prices MAP<STRING, STRUCT<amount: BIGINT, by: STRING>>, currency STRING"
)
_CHANGE = Change.of(
    lens(
        rename("name", "title"),
        drop("note"),
        map_values("state", {"done": "closed", "archived": "closed"}, back={"closed": "done"}),
        join("full", ("first", "last"), " "),
        cast("total", "INT", unfit="null"),
        each("tags", lens(drop("by"))),
        entries("prices", lens(drop("by"))),
        default("currency", "EUR"),
        add("seen", "TIMESTAMP"),
    ),
    _AUCTION,
)
_VALUE: dict[str, Any] = {
    "name": "chair",
    "note": "a note",
    "state": "archived",
    "first": "Ada Augusta",
    "last": "Lovelace",
    "total": "many",
    "tags": [{"word": "old", "by": "ann"}, {"word": "red", "by": "bob"}],
    "prices": {"eur": {"amount": 1, "by": "ann"}, "usd": {"amount": 2, "by": "bob"}},
    "currency": None,
}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({}, {}),
        ({"title": "table"}, {"name": "table"}),
        ({"state": "open"}, {"state": "open"}),
        ({"currency": "USD"}, {"currency": "USD"}),
        ({"total": 5}, {"total": "5"}),
        ({"full": "Grace Hopper"}, {"first": "Grace", "last": "Hopper"}),
        # Only together are its parts what was written, so neither is taken from before.
        ({"full": "Ada B Lovelace"}, {"first": "Ada", "last": "B Lovelace"}),
        (
            {"tags": [{"word": "new"}, {"word": "red"}]},
            {"tags": [{"word": "new", "by": None}, {"word": "red", "by": "bob"}]},
        ),
        (
            {"prices": {"usd": {"amount": 3}}},
            {"prices": {"usd": {"amount": 3, "by": "bob"}}},
        ),
    ],
)
def test_a_field_that_was_written_stays_and_every_other_comes_back(
    written: dict[str, Any], expected: dict[str, Any]
) -> None:
    there, left = _CHANGE.get(_VALUE)
    back, _ = _CHANGE.put({**there, **written}, _stored(left))
    assert back == {**_VALUE, **expected}


def test_a_value_whose_way_back_fails_comes_back_whole_if_nobody_wrote_it() -> None:
    change = Change.of(
        lens(map_values("a", {"x": "y", "z": "w"}, otherwise="keep"), cast("b", "BIGINT")),
        Struct("a STRING, b INT"),
    )
    narrowed = Change.of(lens(split("a", ("c", "d"), "-")), Struct("a STRING NOT NULL"))
    there, left = narrowed.get({"a": "p-q"})
    assert narrowed.put(there, left)[0] == {"a": "p-q"}
    there, left = change.put({"a": "y", "b": 5})
    assert change.get(there, left)[0] == {"a": "y", "b": 5}


def test_functions_that_do_not_undo_each_other_lose_nothing() -> None:
    change = Change.of(lens(function("a", str.strip, str.upper)), Struct("a STRING, b STRING"))
    there, left = change.get({"a": " x ", "b": "y"})
    assert change.put({**there, "b": "z"}, _stored(left))[0] == {"a": " x ", "b": "z"}
    assert change.put({**there, "a": "w"}, _stored(left))[0] == {"a": "W", "b": "y"}


def test_a_lossless_change_leaves_nothing_behind() -> None:
    change = Change.of(lens(rename("a", "b")), Struct("a STRING"))
    assert change.get({"a": "x"}) == ({"b": "x"}, None)
    assert change.put({"b": "x"}) == ({"a": "x"}, None)


@pytest.mark.parametrize(
    "damaged",
    [
        lambda data: b"",
        lambda data: data[:3],
        lambda data: data[:-1],
        lambda data: b"\x01" + data[1:],
        lambda data: data[:-2] + bytes([data[-2] ^ 1]) + data[-1:],
    ],
    ids=["empty", "cut early", "cut", "of another version", "one bit"],
)
def test_a_damaged_complement_is_named(damaged: Any) -> None:
    _, left = _CHANGE.get(_VALUE)
    assert left is not None
    data = Complement({"abc": ScriptRemainder("upgrade", "f", left)}).to_bytes()
    assert Complement.from_bytes(data).entries["abc"].remainder == left
    with pytest.raises(CheckpointError) as caught:
        Complement.from_bytes(damaged(data))
    assert caught.value.code == "SM-LENS-011"


def test_a_complement_of_another_script_is_named() -> None:
    _, left = _CHANGE.get(_VALUE)
    assert left is not None
    complement = Complement({"abc": ScriptRemainder("upgrade", "f", left)})
    assert complement.remainder("abc", "downgrade", "f") is left
    assert complement.remainder("other", "downgrade", "f") is None
    for way, formats in (("upgrade", "f"), ("downgrade", "g")):
        with pytest.raises(CheckpointError) as caught:
            complement.remainder("abc", way, formats)  # type: ignore[arg-type]
        assert caught.value.code == "SM-LENS-012"
