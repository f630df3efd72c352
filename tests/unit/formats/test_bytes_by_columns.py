"""Many values between bytes and Arrow columns, against reading and writing them one by one.

Each test runs twice: in compiled code, and in Python by numpy.
"""

from __future__ import annotations

import math
import struct
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.columnar_formats import columnar_values, shown

from statemigrate.errors import FormatError, ValueMismatchError
from statemigrate.formats import Avro, Format, Struct
from statemigrate.formats.arrow_values import plain_array, plain_values
from statemigrate.formats.avro import extension
from statemigrate.formats.avro.column_types import arrow_type
from statemigrate.formats.examples import made_up_values


@pytest.fixture(params=["compiled", "Python"], autouse=True, scope="module")
def codec_in(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where columns are read and written."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(extension.PURE_CODEC, "1" if request.param == "Python" else "")
        extension.loaded.cache_clear()
        assert (extension.loaded() is None) == (request.param == "Python")
        yield request.param
    extension.loaded.cache_clear()


def _nullable(kind: Any) -> Any:
    """The type with every field as one that may be null."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _nullable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _nullable(kind.item_type))
    if not pa.types.is_struct(kind):
        return kind
    return pa.struct([pa.field(each.name, _nullable(each.type)) for each in kind])


@settings(max_examples=50, deadline=None)
@given(columnar_values() | columnar_values(lists=True), st.integers(1, 40))
def test_columns_hold_what_is_read_one_by_one_and_give_the_same_bytes(
    pair: tuple[Format, Any], times: int
) -> None:
    fmt, values = pair
    stored = [fmt.encode(value) for value in values] * times
    array = fmt.decode_columns(stored)
    assert array is not None
    assert array.type == _nullable(arrow_type(fmt.schema))
    assert plain_values(array) == fmt.decode_many(stored)
    assert fmt.encode_columns(array) == stored


def _sliced(array: Any) -> Any:
    """The array as a slice of a longer one, and so all that is inside it."""
    if not len(array):
        return array
    longer = pa.concat_arrays([array.slice(0, 1), array])
    kind, marks, nulls = longer.type, longer.buffers()[:1], longer.null_count
    if pa.types.is_struct(kind):
        children = [_sliced(longer.field(place)) for place in range(kind.num_fields)]
    elif pa.types.is_list(kind):
        children, marks = [_sliced(longer.values)], longer.buffers()[:2]
    elif pa.types.is_map(kind):
        lists = longer.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        children, marks = [_sliced(lists.values)], longer.buffers()[:2]
    else:
        return longer.slice(1)
    return pa.Array.from_buffers(kind, len(longer), marks, nulls, children=children).slice(1)


@settings(max_examples=35, deadline=None)
@given(columnar_values() | columnar_values(lists=True), st.data())
def test_columns_that_others_made_give_the_bytes_of_their_values(
    pair: tuple[Format, Any], data: st.DataObject
) -> None:
    fmt, values = pair
    many = data.draw(st.lists(st.sampled_from(values), min_size=2, max_size=30))
    array = plain_array(many, _nullable(arrow_type(fmt.schema)))
    start = data.draw(st.integers(0, len(many) - 1))
    assert fmt.encode_columns(array.slice(start)) == fmt.encode_many(many[start:])
    assert fmt.encode_columns(_sliced(array)) == fmt.encode_many(many)
    if isinstance(fmt, Struct):
        # What lies under a null is nobody's value.
        hidden = [place % 2 == 0 for place in range(len(many))]
        children = [array.field(place) for place in range(array.type.num_fields)]
        names = [field.name for field in array.type]
        nulls = pa.StructArray.from_arrays(children, names, mask=pa.array(hidden))
        outer = Struct(f"v STRUCT<{fmt.ddl}>")
        plain = [{"v": None if no else each} for no, each in zip(hidden, many, strict=True)]
        found = outer.encode_columns(pa.StructArray.from_arrays([nulls], ["v"]))
        assert found == outer.encode_many(plain)


@settings(max_examples=80, deadline=None)
@given(columnar_values() | columnar_values(lists=True), st.data())
def test_damaged_bytes_are_read_as_one_by_one_or_left_to_that(
    pair: tuple[Format, Any], data: st.DataObject
) -> None:
    fmt, values = pair
    stored = [fmt.encode(value) for value in values] * 2
    place = data.draw(st.integers(0, len(stored) - 1))
    one = bytearray(stored[place])
    match data.draw(st.sampled_from(["flip", "cut", "more", "other", "shift"])):
        case "flip" if one:
            at = data.draw(st.integers(0, len(one) - 1))
            one[at] = data.draw(st.integers(0, 255))
        case "cut" if one:
            del one[data.draw(st.integers(0, len(one) - 1)) :]
        case "more":
            one += data.draw(st.binary(min_size=1, max_size=3))
        case "shift" if place + 1 < len(stored) and stored[place + 1]:
            one += stored[place + 1][:1]
            stored[place + 1] = stored[place + 1][1:]
        case _:
            one = bytearray(data.draw(st.binary(max_size=len(one) + 4)))
    stored[place] = bytes(one)
    array = fmt.decode_columns(stored)
    try:
        plain = fmt.decode_many(stored)
    except FormatError:
        assert array is None
        return
    if array is None:
        return
    assert shown(plain_values(array)) == shown(plain)
    found = fmt.encode_columns(array)
    try:
        expected = fmt.encode_many(plain)
    except ValueMismatchError:
        assert found is None
        return
    assert found is None or found == expected


def test_numbers_of_every_length_are_read_and_written() -> None:
    fmt = Struct("n BIGINT NOT NULL, m BIGINT")
    edges = [0, *(1 << n for n in range(64))]
    numbers = sorted({s * n + d for n in edges for s in (1, -1) for d in (-1, 0, 1)})
    values = [{"n": n, "m": n if n % 3 else None} for n in numbers if -(2**63) <= n < 2**63]
    stored = fmt.encode_many(values)
    array = fmt.decode_columns(stored)
    assert plain_values(array) == values
    assert fmt.encode_columns(array) == stored


@pytest.mark.parametrize(
    ("ddl", "data"),
    [
        ("n BIGINT NOT NULL", b"\xff" * 9 + b"\x02"),
        ("n BIGINT NOT NULL", b"\x80" * 10 + b"\x00"),
        ("n INT NOT NULL", Struct("n BIGINT NOT NULL").encode({"n": 1 << 31})),
        ("n TINYINT NOT NULL", Struct("n INT NOT NULL").encode({"n": 128})),
        ("b BOOLEAN NOT NULL", b"\x02"),
        ("n INT", b"\x04"),
        ("n INT", b"\x04\x00"),
        ("t STRING NOT NULL", b"\x01"),
        ("t STRING NOT NULL", b"\x02\xff"),
        ("t STRING NOT NULL", b"\x06\xed\xa0\x80"),
        ("t STRING NOT NULL", b"\xfe" + b"\xff" * 8 + b"\x01"),
        ("d DATE NOT NULL", Struct("n INT NOT NULL").encode({"n": 2_932_897})),
        ("d DECIMAL(5,2) NOT NULL", b"\x7f\xff\xff"),
        ("d DECIMAL(38,2) NOT NULL", b"\x7f" + b"\xff" * 15),
        (
            "t TIMESTAMP NOT NULL",
            Struct("n BIGINT NOT NULL").encode({"n": 253_402_300_800_000_000}),
        ),
        ("f FLOAT NOT NULL", struct.pack("<I", 0x7F800001)),
    ],
)
def test_what_is_irregular_is_left_to_the_reader_of_one_value(ddl: str, data: bytes) -> None:
    fmt = Struct(ddl)
    regular = fmt.encode(next(iter(made_up_values(fmt))))
    assert fmt.decode_columns([regular, regular]) is not None
    assert fmt.decode_columns([regular, data, regular]) is None
    assert fmt.decode_columns([data]) is None


def test_nans_come_back_as_they_are() -> None:
    fmt = Struct("f FLOAT, d DOUBLE")
    stored = fmt.encode_many([{"f": math.nan, "d": math.nan}, {"f": -math.nan, "d": -math.nan}])
    assert fmt.encode_columns(fmt.decode_columns(stored)) == stored


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("n BIGINT NOT NULL", {"n": None}),
        ("s STRUCT<n: BIGINT NOT NULL>", {"s": {"n": None}}),
        ("v VARCHAR(2)", {"v": "abc"}),
    ],
)
def test_what_the_format_cannot_hold_is_left_to_the_writer_of_one_value(
    ddl: str, value: Any
) -> None:
    fmt = Struct(ddl)
    array = plain_array([value, value], _nullable(arrow_type(fmt.schema)))
    assert fmt.encode_columns(array) is None
    with pytest.raises(ValueMismatchError):
        fmt.encode(value)


def test_columns_of_other_types_and_names_are_not_written() -> None:
    fmt = Struct("n BIGINT")
    for array in (
        pa.array([{"n": 1}], pa.struct([("n", pa.int32())])),
        pa.array([{"m": 1}], pa.struct([("m", pa.int64())])),
        pa.array([1], pa.int64()),
    ):
        assert fmt.encode_columns(array) is None


def test_a_slice_of_columns_gives_the_bytes_of_its_rows() -> None:
    fmt = Struct(
        "b BOOLEAN, i INT, n BIGINT NOT NULL, f FLOAT, d DOUBLE, t STRING, m DECIMAL(9,2), "
        "w DECIMAL(38,3), at TIMESTAMP, s STRUCT<b: BOOLEAN NOT NULL, t: STRING NOT NULL>"
    )
    values = list(made_up_values(fmt, 60))
    array = plain_array(values, _nullable(arrow_type(fmt.schema)))
    for start in (1, 7, 8, 13):
        assert fmt.encode_columns(array.slice(start, 40)) == fmt.encode_many(values[start:][:40])


def _avro(kind: Any) -> Avro:
    return Avro({"type": "record", "name": "r", "fields": [{"name": "f", "type": kind}]})


def test_decimals_take_as_few_bytes_as_they_need() -> None:
    fmt = _avro({"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 0})
    edges = {s * (1 << n) + d for n in range(60) for s in (1, -1) for d in (-1, 0, 1)}
    values = [{"f": Decimal(n)} for n in sorted(edges) if abs(n) < 10**18]
    stored = fmt.encode_many(values)
    array = fmt.decode_columns(stored)
    assert plain_values(array) == values
    assert fmt.encode_columns(array) == stored
    # Two bytes for what has room in one are a value too, and one that is left to `decode`, if not
    # read as the same.
    padded = fmt.decode_columns([b"\x04\x00\x05"])
    assert padded is None or plain_values(padded) == [fmt.decode(b"\x04\x00\x05")]


@pytest.mark.parametrize("local", ["", "local-"])
def test_milliseconds_are_those_that_python_has_and_whole(local: str) -> None:
    fmt = _avro({"type": "long", "logicalType": f"{local}timestamp-millis"})
    number = _avro("long")
    last = 253_402_300_799_999
    array = fmt.decode_columns([number.encode({"f": n}) for n in (last, -62_135_596_800_000)])
    assert [each["f"].year for each in plain_values(array)] == [9999, 1]
    for beyond in (last + 1, -62_135_596_800_001, 2**62):
        assert fmt.decode_columns([number.encode({"f": beyond})]) is None
    kind = pa.struct([("f", pa.timestamp("us", None if local else "UTC"))])
    for micros, is_whole in ((1_000, True), (1_001, False), (-1, False)):
        assert (fmt.encode_columns(pa.array([{"f": micros}], kind)) is not None) == is_whole


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "items": "long"},
        {"type": "map", "values": "long"},
        {"type": "enum", "name": "e", "symbols": ["A"]},
        {"type": "fixed", "name": "f", "size": 3},
    ],
)
def test_a_format_with_lists_has_columns_and_is_not_flat(kind: Any) -> None:
    fmt = _avro(kind)
    assert (fmt.has_columns, fmt.is_flat) == (True, False)
    stored = fmt.encode_many(made_up_values(fmt))
    array = fmt.decode_columns(stored)
    assert plain_values(array) == fmt.decode_many(stored)
    assert fmt.encode_columns(array) == stored


def test_lists_that_are_long_for_their_number_are_read_one_by_one_in_python(
    codec_in: str,
) -> None:
    fmt = Struct("l ARRAY<BIGINT>")
    short = [{"l": [n, None]} for n in range(500)]
    for values in ([*short, {"l": list(range(5_000))}], [{"l": list(range(300))}] * 40):
        array = fmt.decode_columns(fmt.encode_many(values))
        assert (array is None) == (codec_in == "Python")
        assert array is None or plain_values(array) == values
    for values in (
        short,
        [{"l": list(range(16))}] * 2,
        [{"l": list(range(n))} for n in range(300)],
    ):
        stored = fmt.encode_many(values)
        array = fmt.decode_columns(stored)
        assert plain_values(array) == values
        assert fmt.encode_columns(array) == stored


def test_a_map_that_has_a_key_twice_is_not_taken() -> None:
    fmt = Struct("m MAP<STRING, INT>")
    (twice,) = {fmt.encode({"m": {"a": 1, "b": 2}}).replace(b"b", b"a")}
    assert fmt.decode_columns([twice]) is None
    array = pa.array([{"m": [("a", 1), ("a", 2)]}], arrow_type(fmt.schema))
    assert fmt.encode_columns(array) is None


@pytest.mark.parametrize("kind", [["null", "long", "string"], "null"])
def test_a_format_with_what_has_no_columns_says_so(kind: Any) -> None:
    fmt = _avro(kind)
    assert not fmt.has_columns
    assert fmt.decode_columns([b"\x00"]) is None
    assert fmt.encode_columns(pa.array([{"f": 1}])) is None


def _hidden(array: Any) -> Any:
    """The array with every second value null, and what there was under it."""
    marks = pa.py_buffer(bytes([0b01010101] * (len(array) // 8 + 1)))
    own = array.buffers()
    if pa.types.is_map(array.type):
        fields = [array.type.key_field, array.type.item_field]
        children = [pa.StructArray.from_arrays([array.keys, array.items], fields=fields)]
    else:
        children = [array.values] if pa.types.is_list(array.type) else []
    buffers = [marks, *(own[1:2] if children else own[1:])]
    return pa.Array.from_buffers(array.type, len(array), buffers, children=children)


@pytest.mark.parametrize(
    "kind",
    ["STRING", "BINARY", "INT", "DECIMAL(9,2)", "BOOLEAN", "ARRAY<STRING>", "MAP<STRING, INT>"],
)
def test_what_is_in_memory_under_a_null_is_not_written(kind: str) -> None:
    fmt = Struct(f"v {kind}")
    values = (list(made_up_values(Struct(f"v {kind} NOT NULL"), 21)) * 21)[:21]
    every = plain_array([each["v"] for each in values], _nullable(arrow_type(fmt.schema))[0].type)
    array = pa.StructArray.from_arrays([_hidden(every)], ["v"])
    plain = [value if at % 2 == 0 else {"v": None} for at, value in enumerate(values)]
    for start in (0, 1, 9):
        assert fmt.encode_columns(array.slice(start)) == fmt.encode_many(plain[start:])


@pytest.mark.parametrize("first", [0, 1, 2])
def test_children_that_are_slices_give_the_bytes_of_their_rows(first: int) -> None:
    fmt = Struct("m MAP<STRING, INT>, l ARRAY<STRING>, s STRUCT<n: INT>")
    texts, numbers = pa.array(list("zyabc")), pa.array(range(5), pa.int32())
    fields = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int32())]
    entries = pa.StructArray.from_arrays([texts, numbers], fields=fields).slice(first)
    ends = pa.py_buffer(struct.pack("<4i", 0, 1, 1, 3))
    maps = pa.Array.from_buffers(
        pa.map_(pa.string(), pa.int32()), 3, [None, ends], children=[entries]
    )
    lists = pa.Array.from_buffers(
        pa.list_(pa.string()), 3, [None, ends], children=[texts.slice(first)]
    )
    inner = pa.Array.from_buffers(
        pa.struct([("n", pa.int32())]), 3, [None], children=[numbers.slice(first, 3)]
    )
    array = pa.StructArray.from_arrays([maps, lists, inner], ["m", "l", "s"])
    keys, values = list("zyabc")[first:], list(range(5))[first:]
    plain = [
        {
            "m": dict(zip(keys[start:end], values[start:end], strict=True)),
            "l": keys[start:end],
            "s": {"n": values[place]},
        }
        for place, (start, end) in enumerate([(0, 1), (1, 1), (1, 3)])
    ]
    for start in range(3):
        assert fmt.encode_columns(array.slice(start)) == fmt.encode_many(plain[start:])


def test_no_pandas_is_loaded_to_read_and_write_columns() -> None:
    """It takes half a second, and Arrow loads it for `to_numpy` and for scalars."""
    program = """
import sys
from statemigrate.formats import Struct
fmt = Struct(
    "t STRING, b BINARY, n INT, d DECIMAL(9,2), l ARRAY<STRING>, s STRUCT<t: STRING>"
)
value = {"t": "a", "b": b"b", "n": 1, "d": None, "l": ["c"], "s": {"t": "d"}}
stored = fmt.encode_many([value, dict.fromkeys(value)])
assert fmt.encode_columns(fmt.decode_columns(stored)) == stored
print("pyarrow" in sys.modules, "pandas" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "True False\n"
