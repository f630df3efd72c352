"""The compiled codec against the codec in Python: the same bytes, values and errors."""

import datetime as dt
import logging
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import statemigrate_codec
from avro_strategies import schemas_with_values
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from test_compiled_reading import EVERY_TYPE, VALUE

from benchmarks.records import KINDS, RecordKind
from statemigrate.errors import FormatError
from statemigrate.formats import Avro, Struct
from statemigrate.formats.avro import extension
from statemigrate.formats.avro.compiled_writing import compiled_writer
from statemigrate.formats.avro.logical import contains_arrays_without_bytes, stored_as
from statemigrate.formats.avro.writing import long_bytes
from statemigrate.processor.handle import struct_of
from statemigrate.processor.rows import TupleCodec
from tests.support.codec_twins import Twins, in_compiled_code, in_python, outcome
from tests.support.struct_values import ODD, exact, places, replaced, structs

many = settings(max_examples=40)


@st.composite
def structs_with_values(draw: st.DrawFn) -> tuple[str, Any]:
    ddl, values = draw(structs())
    return ddl, draw(values)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes cut, longer, with others in them, or all others."""
    if draw(st.integers(0, 5)) == 0:
        return draw(st.binary(max_size=40))
    at = draw(st.integers(0, len(whole)))
    return whole[:at] + draw(st.binary(max_size=11)) + whole[at + draw(st.integers(0, 4)) :]


# Formats that nobody chose.


@many
@given(structs_with_values())
def test_a_value_of_sparks_has_the_same_bytes_and_is_read_as_the_same_value(pair: Any) -> None:
    ddl, value = pair
    twins = Twins(lambda: Struct(ddl))
    twins.write_alike(value)
    twins.read_alike(twins.pure.encode(value))


@many
@given(schemas_with_values())
def test_a_value_of_avros_has_the_same_bytes_and_is_read_as_the_same_value(pair: Any) -> None:
    schema, values = pair
    twins = Twins(lambda: Avro(schema))
    for value in values:
        twins.write_alike(value)
        twins.read_alike(twins.pure.encode(value))


@many
@given(schemas_with_values())
def test_what_is_regular_is_not_left_to_python(pair: Any) -> None:
    schema, values = pair
    record = Avro(schema).schema
    with in_compiled_code():
        write, read = extension.extension_writer(record), extension.extension_reader(record)
    assert write is not None
    assert read is not None
    for value in values:
        expected = compiled_writer(record)(value)
        assert write(value) == expected
        if not contains_arrays_without_bytes(stored_as(record)):
            assert exact(read(expected)) == exact(Avro(schema).decode(expected))


@many
@given(structs_with_values(), st.data())
def test_a_value_that_does_not_fit_is_taken_or_refused_in_the_same_words(
    pair: Any, data: Any
) -> None:
    ddl, value = pair
    for _ in range(data.draw(st.integers(1, 2))):
        way = data.draw(st.sampled_from(places(value)))
        value = replaced(value, way, data.draw(st.sampled_from(ODD)))
    Twins(lambda: Struct(ddl)).write_alike(value)


@many
@given(schemas_with_values(), st.data())
def test_a_value_that_is_not_of_avros_type_is_taken_or_refused_in_the_same_words(
    pair: Any, data: Any
) -> None:
    schema, values = pair
    way = data.draw(st.sampled_from(places(values[0])))
    value = replaced(values[0], way, data.draw(st.sampled_from(ODD)))
    Twins(lambda: Avro(schema)).write_alike(value)


@many
@given(schemas_with_values(), st.data())
def test_damaged_bytes_of_avros_are_read_or_refused_in_the_same_words(pair: Any, data: Any) -> None:
    schema, values = pair
    twins = Twins(lambda: Avro(schema))
    twins.read_alike(data.draw(damaged(twins.pure.encode(values[0]))))


# Each type, and each value that may be wrong.


EVERY = "t TINYINT NOT NULL, v VARCHAR(3), c CHAR(2), u STRING COLLATE UNICODE_CI, w VARIANT"
NARROW: dict[str, Any] = {"t": 0, "v": "abc", "c": "", "u": "x", "w": None}


@pytest.mark.parametrize("name", sorted(VALUE))
def test_every_type_takes_or_refuses_every_value_in_the_same_words(name: str) -> None:
    twins = Twins(lambda: Struct(EVERY_TYPE.ddl))
    for odd in ODD:
        twins.write_alike({**VALUE, name: odd})


@pytest.mark.parametrize("name", sorted(NARROW))
def test_every_narrow_type_takes_or_refuses_every_value_in_the_same_words(name: str) -> None:
    twins = Twins(lambda: Struct(EVERY))
    for odd in ODD:
        twins.write_alike({**NARROW, name: odd})


TIMES = {
    "type": "record",
    "name": "times",
    "fields": [
        {"name": "d", "type": {"type": "int", "logicalType": "date"}},
        {"name": "t", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "m", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "l", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "u", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "i", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]},
    ],
}
TIME_VALUE: dict[str, Any] = {
    "d": dt.date(2024, 2, 29),
    "t": dt.time(23, 59, 59, 999999),
    "m": dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC),
    "l": dt.datetime.min,
    "u": dt.datetime.max.replace(tzinfo=dt.UTC),
    "i": None,
}


@pytest.mark.parametrize("name", sorted(TIME_VALUE))
def test_every_time_takes_or_refuses_every_value_in_the_same_words(name: str) -> None:
    twins = Twins(lambda: Avro(TIMES))
    for odd in ODD:
        twins.write_alike({**TIME_VALUE, name: odd})


@pytest.mark.parametrize("make", [lambda: Struct(EVERY_TYPE.ddl), lambda: Avro(TIMES)])
def test_every_byte_of_every_type_may_be_wrong(make: Any) -> None:
    twins = Twins(make)
    whole = twins.pure.encode(VALUE if isinstance(twins.pure, Struct) else TIME_VALUE)
    size = len(whole)
    # Of the long bytes and text in the middle only some.
    for at in sorted({*range(0, size, 7), *range(min(60, size)), *range(max(0, size - 120), size)}):
        twins.read_alike(whole[:at])
        for byte in {whole[at] ^ 1, whole[at] ^ 128, 0, 127, 255}:
            twins.read_alike(whole[:at] + bytes((byte,)) + whole[at + 1 :])


PLAIN_AND_NESTED: list[Any] = [
    {"type": "enum", "name": "e", "symbols": ["A", "B", "C"]},
    ["null", "int"],
    ["int", "null"],
    ["int", "string", "boolean"],
    ["string"],
    {"type": "array", "items": "int"},
    {"type": "map", "values": "boolean"},
    {"type": "fixed", "name": "f", "size": 2},
    *("boolean", "int", "long", "float", "double", "string", "bytes", "null"),
]


LONG_NUMBERS = [
    b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\xff" * 9 + b"\x03", b"\x80" * 9 + b"\x02",
    b"\x80" * 9 + b"\x00", b"\x80" * 10 + b"\x00", b"\x80\x00", b"\xfe" + b"\xff" * 8 + b"\x01",
]  # fmt: skip
"""Numbers of 64 bits, of more, and of more bytes than they need."""


@pytest.mark.parametrize("type_", PLAIN_AND_NESTED, ids=str)
def test_every_first_byte_is_read_or_refused_in_the_same_words(type_: Any) -> None:
    fields = [{"name": "f", "type": type_}]
    twins = Twins(lambda: Avro({"type": "record", "name": "r", "fields": fields}))
    for byte in range(256):
        for rest in (b"", b"\x00", b"\x02\x00", bytes(7)):
            twins.read_alike(bytes((byte,)) + rest)
    for number in LONG_NUMBERS:
        for before, rest in ((b"", b""), (b"", b"\x00\x00"), (b"\x02", b""), (b"\x02", b"\x00")):
            twins.read_alike(before + number + rest)


SOME_DAYS = [range(-719_163, -718_000), range(-800, 800), range(2_932_000, 2_932_900)]


@pytest.mark.parametrize("days", SOME_DAYS, ids=str)
def test_days_are_those_of_pythons_calendar(days: range) -> None:
    schema = {**TIMES, "fields": TIMES["fields"][:1]}
    twins = Twins(lambda: Avro(schema))
    for day in days:
        data = long_bytes(day)
        found = twins.read_alike(data)
        if found[0][0] is dict:
            twins.write_alike(twins.pure.decode(data))


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**17), 10**18))
def test_numbers_are_the_same_moments_or_none(number: int) -> None:
    for place in range(1, len(TIMES["fields"])):
        schema = {**TIMES, "fields": TIMES["fields"][place : place + 1]}
        Twins(lambda schema=schema: Avro(schema)).read_alike(long_bytes(number))
    Twins(lambda: Struct("i INTERVAL DAY TO SECOND NOT NULL")).read_alike(long_bytes(number))


@given(st.integers(0, 18), st.integers(1, 38), st.binary(max_size=19), st.data())
def test_bytes_are_the_same_decimal_or_none(size: int, digits: int, rest: bytes, data: Any) -> None:
    scale = data.draw(st.integers(0, digits))
    of = {"logicalType": "decimal", "precision": digits, "scale": scale}
    for type_ in ({"type": "bytes"}, {"type": "fixed", "name": "f", "size": len(rest)}):
        fields = [{"name": "f", "type": {**type_, **of}}]
        schema = {"type": "record", "name": "r", "fields": fields}
        with suppress(FormatError):
            Avro(schema)
            twins = Twins(lambda schema=schema: Avro(schema))
            prefix = long_bytes(len(rest)) if type_["type"] == "bytes" else b""
            for body in (rest, b"\x00" * (len(rest) - 1) + rest[:1]):
                found = twins.read_alike(prefix + body)
                if found[0][0] is dict:
                    twins.write_alike(twins.pure.decode(prefix + body))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_records_like_those_at_work_are_never_left_to_python(kind: RecordKind) -> None:
    record, rows = Struct(kind.ddl).schema, TupleCodec(struct_of(kind.ddl))
    with in_compiled_code():
        write, read = extension.extension_writer(record), extension.extension_reader(record)
        ways = rows.direct_conversion(Struct(kind.ddl))
        assert write is not None
        assert read is not None
        assert ways is not None
        write_row, read_row = ways[0](), ways[1]()
    for number in range(50):
        for value in (kind.value(number), kind.sparse(number)):
            data = write(value)
            assert exact(read(data)) == exact(value)
            assert write_row(tuple(value.values())) == data
            assert write_row(read_row(data)) == data


def test_a_key_that_is_too_long_for_its_type_is_refused() -> None:
    twins = Twins(lambda: Struct("m MAP<VARCHAR(3), INT>"))
    assert "SM-VALUE-007" not in str(twins.write_alike({"m": {"abc": 1}}))
    assert "SM-VALUE-007" in str(twins.write_alike({"m": {"abcd": 1}}))


# Tuples of columns, as processors give and get them.


def row_of(value: Any, draw: Any) -> Any:
    """A struct's value as a processor gives it: tuples, Rows, dictionaries or lists."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        return value
    fields = {name: row_of(each, draw) for name, each in value.items()}
    made = (tuple(fields.values()), Row(**fields), fields, list(fields.values()))
    return draw(st.sampled_from(made))


@many
@given(structs_with_values(), st.data(), st.booleans())
def test_a_tuple_has_the_bytes_that_python_writes_and_is_read_as_the_same_row(
    pair: Any, data: Any, rows: bool
) -> None:
    ddl, value = pair
    ways = [way for way in places(value) if way]
    if data.draw(st.booleans()):
        value = replaced(value, data.draw(st.sampled_from(ways)), data.draw(st.sampled_from(ODD)))
    row = tuple(row_of(each, data.draw) for each in value.values())
    codec, format_ = TupleCodec(struct_of(ddl), rows=rows), Struct(ddl)
    found = []
    for codec_in in (in_compiled_code, in_python):
        with codec_in():
            direct = codec.direct_conversion(format_)
            assert direct is not None
            found.append([make() for make in direct])
    (write, read), (pure_write, pure_read) = found
    written = outcome(lambda: write(row))
    plain = outcome(lambda: format_.encode(codec.to_value(row)))
    # What is refused here goes by plain values.
    assert written[0] is not bytes or plain in (written, outcome(lambda: pure_write(row)))
    if plain[0] is bytes:
        encoded = format_.encode(codec.to_value(row))
        expected = outcome(lambda: codec.to_tuple(format_.decode(encoded)))
        assert outcome(lambda: pure_read(encoded)) == expected
        assert outcome(lambda: read(encoded)) == expected


class Odd(tuple):
    """A tuple that gives other items than it holds."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter((2, (3,)))


def test_a_tuple_of_a_class_of_its_own_is_asked_for_its_items() -> None:
    ddl = "a INT, s STRUCT<x: INT>"
    codec, format_ = TupleCodec(struct_of(ddl)), Struct(ddl)
    with in_compiled_code():
        direct = codec.direct_conversion(format_)
    assert direct is not None
    with pytest.raises(statemigrate_codec.Refused):
        direct[0]()(Odd((1, (1,))))
    assert format_.decode(format_.encode(codec.to_value(Odd((1, (1,)))))) == {"a": 2, "s": {"x": 3}}


# The package itself.


@pytest.fixture
def asked_again() -> Iterator[None]:
    extension.loaded.cache_clear()
    yield
    extension.loaded.cache_clear()


@pytest.mark.usefixtures("asked_again")
def test_it_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, "", "0"):
        extension.loaded.cache_clear()
        if value is None:
            monkeypatch.delenv(extension.PURE_CODEC, raising=False)
        else:
            monkeypatch.setenv(extension.PURE_CODEC, value)
        assert extension.loaded() is statemigrate_codec


@pytest.mark.usefixtures("asked_again")
def test_a_variable_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(extension.PURE_CODEC, "1")
    assert extension.loaded() is None
    assert Struct("a INT").decode(Struct("a INT").encode({"a": 1})) == {"a": 1}


@pytest.mark.usefixtures("asked_again")
def test_it_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "statemigrate_codec", None)
    assert extension.loaded() is None


@pytest.mark.usefixtures("asked_again")
def test_one_of_another_interface_is_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(extension.PURE_CODEC, raising=False)
    monkeypatch.setitem(sys.modules, "statemigrate_codec", SimpleNamespace(INTERFACE=1))
    with caplog.at_level(logging.WARNING):
        assert extension.loaded() is None
    assert "its interface is 1 and not 2" in caplog.text


class Emptying(str):
    """A key that empties a list when it is compared."""

    __slots__ = ("owner",)

    def __eq__(self, other: object) -> bool:
        self.owner.clear()
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


def test_a_value_that_changes_while_it_is_written_is_refused() -> None:
    key = Emptying("x")
    key.owner = items = [{key: 1}, {"x": 2}, {"x": 3}]
    record = Struct("l ARRAY<STRUCT<x: INT>>").schema
    with in_compiled_code():
        write = extension.extension_writer(record)
    assert write is not None
    with pytest.raises(statemigrate_codec.Refused):
        write({"l": items})


def test_a_tree_needs_its_parts() -> None:
    codec = statemigrate_codec
    for make in (
        lambda: codec.Record(("a",), ()),
        lambda: codec.Record(("a", "a"), (codec.Null(), codec.Null())),
        lambda: codec.Decimals(39, 0, 17),
        lambda: codec.Decimals(5, 6),
        lambda: codec.Fixed(-1),
        lambda: codec.Columns(("a",), (codec.Null(),), (None,), [1]),
        lambda: codec.Columns(("a",), (codec.Null(),), (), [0]),
        lambda: codec.Columns((), (), (), []),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            make()
    for make in (
        lambda: codec.Record(("a",), (None,)),
        lambda: codec.Union((1,)),
        lambda: codec.Nullable(None, 0),
        lambda: codec.Columns(("a",), (codec.Null(),), (None,), [0], dict),
        lambda: codec.reader(None),
    ):
        with pytest.raises(TypeError):
            make()
