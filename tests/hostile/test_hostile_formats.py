"""Schemas and values that somebody else wrote: bounded, or refused by name."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.errors import FormatError, ValueMismatchError
from statemigrate.formats import Avro, Format, Struct, format_from_json
from statemigrate.formats.avro.logical import MOST_ITEMS, check_items
from tests.support.hostile import bounded, fuzzed, refused_or_read


def doubling(levels: int) -> dict[str, Any]:
    """Records that use the one before them twice."""
    record: dict[str, Any] = {"type": "record", "name": "R0", "fields": [field("a", "int")]}
    for level in range(1, levels + 1):
        fields = [field("a", record), field("b", f"R{level - 1}")]
        record = {"type": "record", "name": f"R{level}", "fields": fields}
    return record


def chained(levels: int) -> dict[str, Any]:
    """Records that stand beside one another, each with the one before it in it."""
    first: dict[str, Any] = {"type": "record", "name": "R0", "fields": [field("a", "int")]}
    others = [
        {"type": "record", "name": f"R{level}", "fields": [field("a", f"R{level - 1}")]}
        for level in range(1, levels + 1)
    ]
    fields = [field(f"f{number}", each) for number, each in enumerate([first, *others])]
    return {"type": "record", "name": "Top", "fields": fields}


def field(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_}


def nested(levels: int) -> dict[str, Any]:
    items: Any = "int"
    for _ in range(levels):
        items = {"type": "array", "items": items}
    return {"type": "record", "name": "Top", "fields": [field("a", items)]}


def spark_nested(levels: int) -> dict[str, Any]:
    items: Any = "integer"
    for _ in range(levels):
        items = {"type": "array", "elementType": items, "containsNull": True}
    column = {"name": "a", "type": items, "nullable": True, "metadata": {}}
    return {"type": "struct", "fields": [column]}


def test_a_schema_that_doubles_with_each_level_is_refused_at_once() -> None:
    assert len(json.dumps(doubling(18))) < 2_200
    for levels in (14, 18, 40):
        with bounded(), pytest.raises(FormatError, match="too large"):
            format_from_json({"kind": "avro", "schema": doubling(levels)})
    assert Avro(doubling(8)).encode(Avro(doubling(8)).decode(b"\2" * 256)) == b"\2" * 256


@pytest.mark.parametrize(
    ("kind", "levels"),
    [(kind, levels) for kind in ("avro", "struct") for levels in (70, 400, 3_000, 100_000)]
    + [("chained", 70), ("chained", 400)],
)
def test_a_schema_that_is_too_deep_is_refused(kind: str, levels: int) -> None:
    schema = {"avro": nested, "struct": spark_nested, "chained": chained}[kind](levels)
    stored = {"kind": "struct" if kind == "struct" else "avro", "schema": schema}
    with bounded(), pytest.raises(FormatError, match="too large"):
        format_from_json(stored)


def test_a_wide_schema_and_a_deep_one_within_the_bounds_are_taken() -> None:
    wide = Struct(", ".join(f"c{number} BIGINT" for number in range(5_000)))
    assert len(wide.decode(wide.encode(dict.fromkeys(f"c{n}" for n in range(5_000))))) == 5_000
    deep = Avro(nested(50))
    assert deep.decode(deep.encode({"a": []})) == {"a": []}


ZERO_SIZE: dict[str, Any] = {
    "nulls": "null",
    "records without fields": {"type": "record", "name": "Nothing", "fields": []},
    "empty fixed": {"type": "fixed", "name": "Empty", "size": 0},
}


def array_of(items: Any) -> Format:
    array = {"type": "array", "items": items}
    return Avro({"type": "record", "name": "Top", "fields": [field("a", array)]})


@pytest.mark.parametrize("items", ZERO_SIZE.values(), ids=ZERO_SIZE)
def test_six_bytes_do_not_become_a_billion_items(items: Any) -> None:
    format_ = array_of(items)
    billion = b"\x80\x94\xeb\xdc\x0e\x00"
    with bounded(), pytest.raises(FormatError, match="items that take no bytes"):
        format_.decode(billion)
    with bounded(), pytest.raises(FormatError, match="items that take no bytes"):
        format_.decode_many([billion] * 8)
    blocks = b"\x80\x89\x7a" * 3 + b"\x00"
    with bounded(), pytest.raises(FormatError, match="items that take no bytes"):
        format_.decode(blocks)


@pytest.mark.parametrize("items", ZERO_SIZE.values(), ids=ZERO_SIZE)
def test_as_many_items_as_may_be_are_written_and_read(items: Any) -> None:
    one = {"nulls": None, "Nothing": {}, "Empty": b""}
    item = one[items if items == "null" else items["name"]] if items != "null" else None
    format_ = array_of(items)
    for number in (0, 5, MOST_ITEMS):
        value = {"a": [item] * number}
        data = format_.encode(value)
        assert format_.decode(data) == value
        if number < MOST_ITEMS:
            assert format_.decode_many([data] * 4) == [value] * 4
    with pytest.raises(ValueMismatchError, match="1,000,000 items"):
        format_.encode({"a": [item] * (MOST_ITEMS + 1)})


MIXED = Avro(
    {
        "type": "record",
        "name": "Top",
        "fields": [
            field("nulls", {"type": "array", "items": "null"}),
            field("map", {"type": "map", "values": {"type": "array", "items": "string"}}),
            field("union", ["null", "double", {"type": "fixed", "name": "F", "size": 3}]),
            field("long", "long"),
            field("enum", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        ],
    }
)
VALUES = st.fixed_dictionaries(
    {
        "nulls": st.lists(st.none(), max_size=3),
        "map": st.dictionaries(st.text(max_size=3), st.lists(st.text(max_size=3), max_size=3)),
        "union": st.none() | st.floats(allow_nan=False) | st.binary(min_size=3, max_size=3),
        "long": st.integers(-(2**63), 2**63 - 1),
        "enum": st.sampled_from(["A", "B"]),
    }
)


@given(VALUES)
def test_every_value_that_was_written_passes_the_count_of_its_items(value: Any) -> None:
    data = MIXED.encode(value)
    check_items(MIXED.schema, data)
    assert MIXED.decode(data) == value


@fuzzed
@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_refused_by_name(data: bytes) -> None:
    with bounded():
        refused_or_read(lambda: MIXED.decode(data))
        refused_or_read(lambda: MIXED.decode_many([data] * 5))
