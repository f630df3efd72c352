"""The function made for a format, against the reader that takes whatever Avro allows."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from avro_strategies import schemas_with_values
from hypothesis import given, settings
from hypothesis import strategies as st

from statemigrate.errors import FormatError
from statemigrate.formats import Avro, Format, Struct
from statemigrate.formats.avro.compiled_reading import compiled_reader
from statemigrate.formats.avro.reading import strict_reader_of

EVERY_TYPE = Struct(
    "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(38,18),"
    " i STRING, j BINARY, k DATE, l TIMESTAMP, m TIMESTAMP_NTZ, n INTERVAL DAY TO SECOND,"
    " o INTERVAL YEAR TO MONTH, p ARRAY<ARRAY<INT>>, q MAP<STRING, STRUCT<x: INT>>,"
    " r MAP<INT, STRING>, s MAP<STRUCT<x: INT, y: ARRAY<DATE>>, INT>, t STRUCT<x: STRUCT<y: INT>>"
)
VALUE: dict[str, Any] = {
    "a": True,
    "b": -128,
    "c": 32767,
    "d": -(2**31),
    "e": 2**63 - 1,
    "f": -0.0,
    "g": float("nan"),
    "h": Decimal("-12345678901234567890.123456789012345678"),
    "i": "z\u00fcrich" * 50,
    "j": bytes(range(256)),
    "k": date.max,
    "l": datetime(1, 1, 1, tzinfo=UTC),
    "m": datetime.max,
    "n": timedelta(days=-106_751_991),
    "o": -7,
    "p": [[], [1, None, 300], None],
    "q": {"": {"x": 1}, "y": None},
    "r": {7: None, -300: "x"},
    "s": {(1, (date.min, None)): 2},
    "t": {"x": {"y": None}},
}


def outcome(read: Any, data: bytes) -> str:
    """What is read, type by type, or what is said against it."""
    try:
        return repr(read(data))
    except FormatError as error:
        return error.found


def both(format_: Format, data: bytes) -> tuple[str, str]:
    """What `decode` makes of bytes, and what the strict reader does."""
    return outcome(format_.decode, data), outcome(strict_reader_of(format_.schema), data)


@pytest.mark.parametrize("index", [0, 1, 62, 63, 64, 65, 69])
def test_a_union_may_have_more_branches_than_one_byte_counts(index: int) -> None:
    # Read as one byte, the index 64 leaves bytes that are another number and another text.
    branches: list[Any] = [{"type": "fixed", "name": f"f{n}", "size": n + 1} for n in range(70)]
    branches[64] = "long"
    fields = [{"name": "u", "type": branches}, {"name": "s", "type": "string"}]
    fmt = Avro({"type": "record", "name": "r", "fields": fields})
    value = {"u": 3 if index == 64 else bytes([6]) * (index + 1), "s": "ab"}
    data = fmt.encode(value)
    assert fmt.decode(data) == strict_reader_of(fmt.schema)(data) == value
    try:
        assert compiled_reader(fmt.schema)(data) == value
    except ValueError:
        assert index >= 64


@settings(max_examples=100, deadline=None)
@given(schemas_with_values())
def test_every_value_is_read_by_the_function_made_for_it_as_by_fastavro(pair: Any) -> None:
    schema, values = pair
    format_ = Avro(schema)
    read = compiled_reader(format_.schema)
    for value in values:
        data = format_.encode(value)
        assert repr(read(data)) == outcome(strict_reader_of(format_.schema), data)


@settings(max_examples=100, deadline=None)
@given(schemas_with_values(), st.data())
def test_damaged_bytes_are_read_or_refused_in_the_same_words(
    pair: Any, data: st.DataObject
) -> None:
    schema, values = pair
    format_ = Avro(schema)
    whole = format_.encode(values[0])
    at = data.draw(st.integers(0, len(whole)))
    put = data.draw(st.binary(max_size=12))
    gone = data.draw(st.integers(0, 4))
    found, expected = both(format_, whole[:at] + put + whole[at + gone :])
    assert found == expected


@pytest.mark.parametrize("name", sorted(VALUE))
def test_every_type_of_sparks_is_read_at_its_extremes(name: str) -> None:
    for value in (VALUE, dict.fromkeys(VALUE) | {name: VALUE[name]}):
        data = EVERY_TYPE.encode(value)
        assert repr(compiled_reader(EVERY_TYPE.schema)(data)) == repr(value)
        assert repr(EVERY_TYPE.decode(data)) == repr(value)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_byte_of_any_type_that_is_another_is_read_or_refused_in_the_same_words(
    data: st.DataObject,
) -> None:
    whole = bytearray(EVERY_TYPE.encode(VALUE))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    found, expected = both(EVERY_TYPE, bytes(whole))
    assert found == expected


@pytest.mark.parametrize(
    ("type_", "hexadecimal"),
    [
        ("long", "8000"),
        ("long", "ffffffffffffffffff01"),
        ("long", "ffffffffffffffffff03"),
        ("long", "ffffffffffffffffffffff01"),
        ("boolean", "02"),
        ("string", "01"),
        ("string", "02ff"),
        ({"type": "array", "items": "int"}, "0302020400"),
        ({"type": "array", "items": "int"}, "020202020400"),
        ({"type": "map", "values": "int"}, "0402610202610400"),
        (["null", "int"], "800002"),
        (["null", "int", "string"], "040261"),
        (["null", "int"], "06"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "01"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "04"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1}, "047fff"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1}, "00"),
        ({"type": "fixed", "name": "f", "size": 4}, "010203"),
        ({"type": "int", "logicalType": "date"}, "ffffffff0f"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "feffffffffffffffff01"),
    ],
)
def test_what_avro_allows_and_nobody_writes_is_read_as_ever(type_: Any, hexadecimal: str) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "f", "type": type_}]}
    found, expected = both(Avro(schema), bytes.fromhex(hexadecimal))
    assert found == expected


def test_types_deep_within_types_are_read() -> None:
    type_: Any = "int"
    value: Any = 7
    for level in range(30):
        match level % 3:
            case 0:
                type_, value = {"type": "array", "items": type_}, [value, value][: 1 + level // 27]
            case 1:
                type_, value = {"type": "map", "values": type_}, {"k": value}
            case 2:
                fields = [{"name": "f", "type": ["null", type_]}]
                type_, value = (
                    {"type": "record", "name": f"r{level}", "fields": fields},
                    {"f": value},
                )
    format_ = Avro({"type": "record", "name": "r", "fields": [{"name": "f", "type": type_}]})
    data = format_.encode({"f": value})
    assert compiled_reader(format_.schema)(data) == {"f": value}


def test_a_list_that_states_more_items_than_there_are_bytes_is_refused_at_once() -> None:
    items = {"type": "fixed", "name": "f", "size": 4}
    format_ = Avro(
        {
            "type": "record",
            "name": "r",
            "fields": [{"name": "f", "type": {"type": "array", "items": items}}],
        }
    )
    with pytest.raises(FormatError, match="end before the value does"):
        format_.decode(bytes.fromhex("feffffffffffffff7f") + b"abcd")


def test_names_of_fields_are_never_words_of_the_code() -> None:
    name = 'x": 1}; raise SystemExit("gone") #'
    format_ = Struct(f"`{name}` INT, `p` INT, `data` INT, `value` INT, `n` INT")
    value = {name: 1, "p": 2, "data": 3, "value": 4, "n": 5}
    assert format_.decode(format_.encode(value)) == value
