"""Tuples made of a format's bytes and written as such, against plain values."""

from typing import Any

import pytest
from avro_strategies import schemas_with_values
from hypothesis import given, settings
from hypothesis import strategies as st

from statemigrate.formats import Avro, Format, Struct
from statemigrate.formats.avro.codec import direct_conversion


def tried(call: Any, argument: Any) -> Any:
    try:
        return call(argument)
    except Exception:
        return None


@settings(max_examples=70, deadline=None)
@given(schemas_with_values(), st.randoms())
def test_a_tuple_has_the_bytes_of_its_plain_value_and_is_read_from_them(
    pair: Any, random: Any
) -> None:
    schema, values = pair
    format_ = Avro(schema)
    names = [field.name for field in format_.schema.fields]
    random.shuffle(names)
    columns = [(name, None) for name in names]
    ways = direct_conversion(format_.schema, columns, columns)
    if ways is None:
        # Nothing to write, or arrays whose items take no bytes.
        return
    write, read = ways[0](), ways[1]()
    for value in filter(lambda value: set(value) == set(names), values):
        row = tuple(value[name] for name in names)
        data = format_.encode(value)
        assert tried(write, row) in (None, data)
        found = tried(read, data)
        assert found in (None, tuple(format_.decode(data)[name] for name in names))


def test_what_is_regular_is_never_left_to_plain_values() -> None:
    format_: Format = Struct("n BIGINT, t STRING, l ARRAY<STRUCT<x: DOUBLE>>, m MAP<STRING, INT>")
    columns = [(name, None) for name in ("m", "n", "l", "t")]
    ways = direct_conversion(format_.schema, columns, columns)
    assert ways is not None
    write, read = ways[0](), ways[1]()
    for row in (({"a": 1}, 2**40, [{"x": 1.5}], "ü"), (None, None, None, None)):
        value = dict(zip("mnlt", row, strict=True))
        assert write(row) == format_.encode(value)
        assert read(format_.encode(value)) == row


def test_converters_are_for_what_is_not_null() -> None:
    format_ = Struct("a INT, b STRING")
    given_, handed = [("b", str.upper), ("a", None)], [("a", str), ("b", None)]
    ways = direct_conversion(format_.schema, given_, handed)
    assert ways is not None
    write, read = ways[0](), ways[1]()
    assert write(("x", 1)) == format_.encode({"a": 1, "b": "X"})
    assert read(format_.encode({"a": 1, "b": "X"})) == ("1", "X")
    assert read(write((None, None))) == (None, None)


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"], ["a", "c"], ["a", "a"], []], ids=str)
def test_other_columns_than_the_fields_have_no_straight_way(names: list[str]) -> None:
    columns = [(name, None) for name in names]
    assert direct_conversion(Struct("a INT, b INT").schema, columns, columns) is None


@pytest.mark.parametrize("row", [(), (1,), (1, "x", 2), [1, "x"], {"a": 1, "b": "x"}, "ab", None])
def test_what_is_no_tuple_of_the_columns_is_refused(row: Any) -> None:
    columns = [("a", None), ("b", None)]
    ways = direct_conversion(Struct("a INT, b STRING").schema, columns, columns)
    assert ways is not None
    assert tried(ways[0](), row) is None


def test_bytes_behind_the_value_are_refused() -> None:
    format_ = Struct("a INT")
    ways = direct_conversion(format_.schema, [("a", None)], [("a", None)])
    assert ways is not None
    assert tried(ways[1](), format_.encode({"a": 1}) + b"\x00") is None
    assert tried(ways[1](), format_.encode({"a": 1})[:-1]) is None
