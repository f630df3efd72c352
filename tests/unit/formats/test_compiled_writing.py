"""The function made for a format, against the writer that goes type by type."""

import copy
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from avro_strategies import schemas_with_values
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.records import KINDS, RecordKind
from statemigrate.errors import ValueMismatchError
from statemigrate.formats import Avro, Format, Struct
from statemigrate.formats.avro import Unfit
from statemigrate.formats.avro.compiled_writing import compiled_writer
from statemigrate.formats.avro.writing import writer_of

EDGES = [
    0, 1, -1, 63, 64, -64, -65, 8191, 8192, -8192, -8193, 2**20 - 1, 2**20, -(2**20), -(2**20) - 1,
    2**27 - 1, 2**27, -(2**27), -(2**27) - 1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63),
]  # fmt: skip
ODD: list[Any] = [None, True, 1, 2**31, 2**63, 1.5, "x", "\ud800", b"x", [], [None], {}, {"a": 1}]


def by_type(format_: Format, value: Any) -> bytes | None:
    """What the writer makes that asks every type; None for what it does not take as it is."""
    out = bytearray()
    try:
        writer_of(format_.schema)(value, out)
    except Unfit:
        return None
    return bytes(out)


def by_made(format_: Format, value: Any) -> bytes | None:
    """What the function made for the format makes."""
    try:
        return compiled_writer(format_.schema)(value)
    except Exception:
        return None


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to every value within a value."""
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    return [path, *(way for key, each in items for way in places(each, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """A copy with another value at the end of a way."""
    if not path:
        return other
    changed = copy.copy(value)
    changed[path[0]] = replaced(value[path[0]], path[1:], other)
    return changed


@settings(max_examples=100, deadline=None)
@given(schemas_with_values())
def test_every_value_has_the_same_bytes_by_both(pair: Any) -> None:
    schema, values = pair
    format_ = Avro(schema)
    for value in values:
        expected = by_type(format_, value)
        assert by_made(format_, value) == expected
        assert expected in (None, format_.encode(value))
    assert format_.encode_many(values) == [format_.encode(value) for value in values]


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(schemas_with_values(), st.data())
def test_what_is_not_of_its_type_is_taken_or_refused_by_both(pair: Any, data: Any) -> None:
    schema, values = pair
    format_ = Avro(schema)
    way = data.draw(st.sampled_from(places(values[0])))
    value = replaced(values[0], way, data.draw(st.sampled_from(ODD)))
    assert by_made(format_, value) == by_type(format_, value)


@pytest.mark.parametrize("number", EDGES)
def test_numbers_of_every_length_are_those_of_fastavro(number: int) -> None:
    format_ = Struct("n BIGINT, i INT NOT NULL, t TINYINT NOT NULL, s SMALLINT NOT NULL")
    value = {"n": number, "i": 0, "t": 0, "s": 0}
    for name, low in (("i", 2**31), ("t", 2**7), ("s", 2**15)):
        if -low <= number < low:
            value[name] = number
        else:
            assert by_made(format_, {**value, name: number}) is None
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(format_.avro_schema), value)
    assert by_made(format_, value) == buffer.getvalue()
    assert by_made(format_, {**value, "n": number * 2**40}) == by_type(
        format_, {**value, "n": number * 2**40}
    )


def test_a_field_too_many_or_too_few_is_left_to_the_writer_that_names_it() -> None:
    format_ = Struct("a INT, b INT")
    for value in ({"a": 1}, {"a": 1, "c": 1}, {"a": 1, "b": 2, "c": 3}):
        assert by_made(format_, value) is None
        with pytest.raises(ValueMismatchError):
            format_.encode_many([{"a": 1, "b": 2}, value])


def test_long_texts_and_lists_have_lengths_of_several_bytes() -> None:
    format_ = Struct("t STRING, l ARRAY<INT>, m MAP<STRING, INT>")
    for size in (63, 64, 8191, 8192, 20_000):
        value = {"t": "ü" * size, "l": [7] * size, "m": {str(n): n for n in range(size)}}
        assert by_made(format_, value) == by_type(format_, value) == format_.encode(value)
        assert format_.decode(format_.encode(value)) == value


def test_types_deep_within_types_are_written() -> None:
    type_: Any = "int"
    value: Any = 7
    for level in range(30):
        if level % 2:
            type_, value = {"type": "array", "items": type_}, [value]
        else:
            fields = [{"name": "f", "type": ["null", type_]}]
            type_, value = {"type": "record", "name": f"r{level}", "fields": fields}, {"f": value}
    format_ = Avro({"type": "record", "name": "r", "fields": [{"name": "f", "type": type_}]})
    assert by_made(format_, {"f": value}) == by_type(format_, {"f": value})


def test_names_of_fields_are_never_words_of_the_code() -> None:
    name = 'x": 1}; raise SystemExit("gone") #'
    format_ = Struct(f"`{name}` INT, `p` INT, `value` INT, `n` INT, `longs` INT")
    value = {name: 1, "p": 2, "value": 4, "n": 5, "longs": 6}
    assert by_made(format_, value) == by_type(format_, value)


DECIMALS = [
    "0", "0.00", "0E+2", "0E-9", "1", "1.5", "1.50", "-1.50", "1.500", "1.505", "99.99", "-99.99",
    "100", "1E+1", "1E+2", "1E+999999", "1E-999999", "10.00000", "NaN", "sNaN", "Infinity", "-0.00",
]  # fmt: skip


@pytest.mark.parametrize("text", DECIMALS)
@pytest.mark.parametrize("column", ["DECIMAL(4,2)", "DECIMAL(4,2) NOT NULL"])
def test_decimals_have_the_bytes_of_the_other_writer_or_none(text: str, column: str) -> None:
    format_ = Struct(f"a {column}")
    value = {"a": Decimal(text)}
    expected, made = by_type(format_, value), by_made(format_, value)
    if made is not None and expected is None:
        # More zeros than the scale has: those bytes are what it is made to fit in.
        expected = by_type(format_, {"a": Decimal(text).quantize(Decimal("0.01"))})
    assert made == expected
    if made is not None:
        assert format_.decode(made) == value


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(KINDS), st.booleans())
def test_records_like_those_at_work_have_the_bytes_of_fastavro(
    number: int, kind: RecordKind, sparse: bool
) -> None:
    format_ = Struct(kind.ddl)
    value = kind.sparse(number) if sparse else kind.value(number)
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(format_.avro_schema), value)
    assert by_made(format_, value) == by_type(format_, value) == buffer.getvalue()
    assert format_.decode(buffer.getvalue()) == value
    assert kind.fields == len(value)
