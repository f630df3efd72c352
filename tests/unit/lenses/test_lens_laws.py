"""Lenses on formats and values that nobody chose: their way back, and both of their forms."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemigrate.errors import ScriptError
from statemigrate.formats import Avro, Format, Struct, Value
from statemigrate.formats.arrow_values import plain_array, plain_values
from statemigrate.formats.examples import made_up_values
from statemigrate.formats.schema.matching import kind_of
from statemigrate.formats.schema.nodes import Array, Map, Node, Record, without_none
from statemigrate.lenses import (
    Chain,
    Change,
    Lens,
    add,
    cast,
    default,
    drop,
    each,
    entries,
    function,
    join,
    map_values,
    move,
    rename,
    scale,
    split,
    unwrap,
    wrap,
)
from statemigrate.lenses.columns import arrow_type

_LEAVES = [
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY"),
    *("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL(5,2)", "DECIMAL(38,10)", "VARCHAR(9)"),
]
_NUMBERS = [*_LEAVES[1:5], "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,10)", "STRING"]
_NAMES = ["a", "b", "c", "d", "e"]
_NEW = ["x", "y", "z"]


@st.composite
def _types(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["leaf"] * 4 + ["struct", "list", "map"] * (depth > 0)))
    if kind == "leaf":
        return draw(st.sampled_from(_LEAVES))
    if kind == "struct":
        return f"STRUCT<{draw(_fields(depth - 1))}>"
    inner = draw(st.one_of(_types(depth - 1), _fields(depth - 1).map(lambda f: f"STRUCT<{f}>")))
    return f"ARRAY<{inner}>" if kind == "list" else f"MAP<STRING, {inner}>"


@st.composite
def _fields(draw: st.DrawFn, depth: int = 2) -> str:
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True))
    rest = st.sampled_from(["", "", " NOT NULL"])
    return ", ".join(f"{name}: {draw(_types(depth))}{draw(rest)}" for name in names)


@st.composite
def _formats(draw: st.DrawFn) -> Format:
    fmt = Struct(f"struct<{draw(_fields())}>")
    if draw(st.booleans()):
        try:
            return Avro(fmt.avro_schema)
        except Exception:  # not every struct is an Avro schema
            return fmt
    return fmt


_UNFIT = st.sampled_from([None, "fail", "null"])
_FILLINGS = {
    "integer": {7: 0, 0: 7},
    "text": {"text": "0", "0": "text"},
    "float": {1.5: 0.5},
    "boolean": {True: False, False: True},
}


def _paths(record: Record, around: str = "") -> Iterator[tuple[str, Node]]:
    for field in record.fields:
        path = f"{around}{field.name}"
        yield path, without_none(field.type)
        if isinstance(inner := without_none(field.type), Record):
            yield from _paths(inner, f"{path}.")


@st.composite
def _lens(draw: st.DrawFn, record: Record, depth: int = 1) -> Lens:
    """A lens that fits a struct, or nearly."""
    path, node = draw(st.sampled_from(list(_paths(record))))
    around = path.rpartition(".")[0]
    new = draw(st.sampled_from(_NEW))
    to = f"{around}.{new}" if around else new
    top = st.sampled_from([field.name for field in record.fields])
    found = [
        st.just(rename(path, new)),
        st.just(move(path, new)),
        st.just(move(path, f"{new}.{draw(st.sampled_from(_NAMES))}")),
        st.lists(top, min_size=1, max_size=2).map(lambda names: wrap(new, *names)),
        st.builds(add, st.just(to), st.sampled_from(_LEAVES)),
        st.just(add(to, *draw(st.sampled_from([("INT", 1), ("STRING", "text")])))),
        st.just(drop(path)),
        st.just(function(path, lambda v: v, lambda v: v)),
    ]
    if isinstance(node, Record):
        found = [st.just(unwrap(path)), top.map(lambda name: move(name, f"{path}.{new}"))]
    elif isinstance(node, Array | Map):
        inner = without_none(node.items if isinstance(node, Array) else node.values)
        if depth and isinstance(inner, Record):
            of = each if isinstance(node, Array) else entries
            found = [_lens(inner, depth - 1).map(lambda one: of(path, one))]
    else:
        kind = kind_of(node)
        filling = _FILLINGS.get(kind, {})
        found += [
            st.builds(cast, st.just(path), st.sampled_from(_NUMBERS), unfit=_UNFIT),
            st.builds(scale, st.just(path), st.integers(0, 4), unfit=_UNFIT),
            st.just(default(path, next(iter(filling), "text"))),
            st.builds(
                map_values,
                st.just(path),
                st.sampled_from([filling, dict.fromkeys(filling, next(iter(filling), 0))]),
                otherwise=st.sampled_from(["keep", "fail", "null"]),
                back=st.sampled_from([None, {each_: each_ for each_ in filling}]),
            ),
        ]
        if kind == "text":
            texts = [name for name, each_ in _paths(record) if kind_of(each_) == "text"]
            found += [
                st.just(split(path, (f"{new}1", f"{new}2"), "t")),
                st.just(join(to, (path.rpartition(".")[2], draw(st.sampled_from(texts))), " ")),
            ]
    return draw(st.one_of(found))


@st.composite
def _fitting(draw: st.DrawFn) -> Change:
    """Lenses that fit a format, of some that do not."""
    fmt = draw(_formats())
    change = Change.of(Chain(()), fmt)
    for _ in range(draw(st.integers(2, 6))):
        if not change.new.schema.fields:
            break
        one = draw(_lens(change.new.schema))
        try:
            change = Change.of(Chain((*change.chain.lenses, one)), fmt)
        except ScriptError as error:
            if not error.code.startswith("SM-LENS-"):
                raise
    return change


def _outcome(function_: Any, value: Value) -> tuple[Value | None, Exception | None]:
    try:
        return function_(copy.deepcopy(value)), None
    except ValueError as error:
        return None, error


def _same(fmt: Format, one: Value, other: Value) -> bool:
    return fmt.encode(one) == fmt.encode(other)


@given(_fitting())
@settings(max_examples=120, deadline=None)
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


@given(_fitting())
@settings(max_examples=120, deadline=None)
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
