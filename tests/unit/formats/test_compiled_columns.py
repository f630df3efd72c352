"""Columns in compiled code: as numpy reads them, and from buffers that nobody made with care."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import pytest
import statemigrate_codec as codec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.columnar_formats import columnar_values

from benchmarks.records import KINDS, RecordKind
from statemigrate.formats import Avro, Format, Struct
from statemigrate.formats.avro import compiled_columns
from statemigrate.formats.avro.columns_reading import read_by_field
from statemigrate.formats.avro.columns_writing import write_by_field

NUMBERS = [
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "INTERVAL DAY TO SECOND",
    "INTERVAL YEAR TO MONTH",
]
MILLISECONDS = [{"type": "long", "logicalType": f"{z}timestamp-millis"} for z in ("", "local-")]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is used, whatever the environment says."""
    monkeypatch.setattr(compiled_columns, "loaded", lambda: codec)


def _avro(kind: Any) -> Avro:
    return Avro({"type": "record", "name": "r", "fields": [{"name": "f", "type": kind}]})


def _read(read: Any, fmt: Format, stored: list[bytes]) -> Any:
    try:
        return read(fmt.schema, stored)
    except Exception:
        return None


@settings(max_examples=40, deadline=None)
@given(columnar_values() | columnar_values(lists=True), st.integers(1, 12), st.data())
def test_the_arrays_are_those_of_numpy(
    pair: tuple[Format, Any], times: int, data: st.DataObject
) -> None:
    fmt, values = pair
    stored = [fmt.encode(value) for value in values] * times
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(stored) - 1))
        at = data.draw(st.integers(0, len(stored[place])))
        stored[place] = stored[place][:at] + data.draw(st.binary(max_size=2)) + stored[place][at:]
    found = _read(compiled_columns.read_columns, fmt, stored)
    by_numpy = _read(read_by_field, fmt, stored)
    if found is None or by_numpy is None:
        # Whatever is left to the reader of one value is right; compiled code leaves less to it.
        assert by_numpy is None
        return
    assert found.type == by_numpy.type
    # As texts, since a NaN equals nothing.
    assert repr(found.to_pylist()) == repr(by_numpy.to_pylist())
    assert compiled_columns.write_columns(fmt.schema, found) == stored
    assert write_by_field(fmt.schema, found) == stored


@pytest.mark.parametrize("kind", [*NUMBERS, *MILLISECONDS], ids=str)
def test_numbers_have_the_limits_of_their_type(kind: Any) -> None:
    fmt = Struct(f"f {kind} NOT NULL") if isinstance(kind, str) else _avro(kind)
    number = Struct("f BIGINT NOT NULL")
    edges = {1 << n for n in range(64)} | {-719_162, 2_932_896}
    edges |= {unit * n for unit in (1000, 1_000_000) for n in (-62_135_596_800, 253_402_300_800)}
    for edge in sorted(s * n + d for n in edges for s in (1, -1) for d in (-1, 0, 1)):
        if not -(1 << 63) <= edge < 1 << 63:
            continue
        stored = [number.encode({"f": edge})]
        found = _read(compiled_columns.read_columns, fmt, stored)
        by_numpy = _read(read_by_field, fmt, stored)
        assert (found is None) == (by_numpy is None), edge
        if found is not None:
            assert found.equals(by_numpy)
            assert compiled_columns.write_columns(fmt.schema, found) == stored


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_records_like_those_at_work_have_columns(kind: RecordKind) -> None:
    fmt = Struct(kind.ddl)
    for make in (kind.value, kind.sparse):
        stored = fmt.encode_many([make(number) for number in range(300)])
        array = fmt.decode_columns(stored)
        assert array.equals(read_by_field(fmt.schema, stored))
        assert fmt.encode_columns(array.slice(7)) == stored[7:]


def _columns(depth: int = 2) -> st.SearchStrategy[Any]:
    """What makes a column, and fills it with some buffers."""
    single = st.one_of(
        st.builds(codec.NumberColumn, st.sampled_from([1, 2, 4, 8]), st.just(-5), st.just(1 << 40)),
        st.builds(codec.BooleanColumn),
        st.builds(codec.FloatColumn, st.sampled_from([4, 8])),
        st.builds(codec.TextColumn, st.integers(-1, 3), st.integers(-1, 3)),
        st.builds(codec.DecimalColumn, st.integers(1, 38), st.integers(1, 20)),
    )
    if depth == 0:
        return _filled(single)
    inner = _columns(depth - 1)
    nested = st.one_of(
        single,
        st.builds(codec.ListColumn, inner),
        st.builds(lambda *each: codec.RecordColumn(each), inner, inner),
    )
    return _filled(nested) | st.builds(codec.NullableColumn, inner, st.integers(0, 1))


@st.composite
def _filled(draw: st.DrawFn, columns: st.SearchStrategy[Any]) -> Any:
    column = draw(columns)
    offsets = st.lists(st.integers(-2, 9), max_size=9).map(lambda n: struct.pack(f"<{len(n)}i", *n))
    buffers = draw(st.lists(st.none() | st.binary(max_size=40) | offsets, max_size=3))
    with suppress(codec.Refused):
        column.fill(draw(st.integers(0, 5)), draw(st.integers(0, 5)), *buffers)
    return column


@settings(max_examples=300, deadline=None)
@given(_columns(), st.integers(0, 6))
@example(codec.NullableColumn(codec.NumberColumn(8, 0, 1), 0), 1)
def test_nothing_is_read_beyond_a_buffer(column: Any, rows: int) -> None:
    try:
        written = codec.write_columns(column, rows)
    except codec.Refused:
        return
    assert len(written) == rows


@pytest.mark.parametrize(
    ("column", "given"),
    [
        (codec.NumberColumn(8, 0, 9), (1, 0, None, bytes(7))),
        (codec.NumberColumn(8, 0, 9), (1, 1, None, bytes(15))),
        (codec.NumberColumn(8, 0, 9), (9, 0, b"\xff", bytes(72))),
        (codec.NumberColumn(8, 0, 9), (-1, 0, None, bytes(8))),
        (codec.NumberColumn(8, 0, 9), (1, -1, None, bytes(8))),
        (codec.NumberColumn(8, 0, 9), (1 << 31, 0, None, bytes(8))),
        (codec.BooleanColumn(), (9, 0, None, b"\xff")),
        (codec.TextColumn(), (1, 0, None, bytes(4), b"")),
        (codec.ListColumn(codec.BooleanColumn()), (1, 0, None, bytes(4))),
        (codec.DecimalColumn(9), (1, 0, None, bytes(15))),
    ],
)
def test_buffers_that_are_too_short_for_their_values_are_refused(
    column: Any, given: tuple[Any, ...]
) -> None:
    with pytest.raises(codec.Refused):
        column.fill(*given)


@pytest.mark.parametrize("ends", [(0, 3), (2, 1), (-1, 1)])
def test_texts_outside_their_content_are_refused(ends: tuple[int, int]) -> None:
    column = codec.TextColumn()
    column.fill(1, 0, None, struct.pack("<2i", *ends), b"ab")
    with pytest.raises(codec.Refused):
        codec.write_columns(column, 1)


@pytest.mark.parametrize("ends", [(0, 3), (2, 1), (-1, 1)])
def test_items_that_a_list_does_not_have_are_refused(ends: tuple[int, int]) -> None:
    items = codec.BooleanColumn()
    items.fill(2, 0, None, b"\x03")
    column = codec.ListColumn(items)
    column.fill(1, 0, None, struct.pack("<2i", *ends))
    with pytest.raises(codec.Refused):
        codec.write_columns(column, 1)


def test_a_decimal_of_too_many_digits_is_refused() -> None:
    for number in (999, 1000, -999, -1000, -(1 << 127)):
        column = codec.DecimalColumn(3, 2)
        column.fill(1, 0, None, number.to_bytes(16, "little", signed=True))
        if abs(number) < 1000:
            assert codec.write_columns(column, 1) == [number.to_bytes(2, "big", signed=True)]
        else:
            with pytest.raises(codec.Refused):
                codec.write_columns(column, 1)


def test_a_column_is_used_once() -> None:
    column = codec.NumberColumn(8, 0, 9)
    codec.read_columns(column, [b"\x02"])
    assert column.buffers() == (1, 0, None, (1).to_bytes(8, "little"))
    with pytest.raises(ValueError, match="used once"):
        column.fill(1, 0, None, bytes(8))
    column = codec.NumberColumn(8, 0, 9)
    column.fill(1, 0, None, bytes(8))
    with pytest.raises(ValueError, match="used once"):
        column.fill(1, 0, None, bytes(8))


def test_a_column_needs_its_parts() -> None:
    for make in (
        lambda: codec.NumberColumn(3, 0, 1),
        lambda: codec.NumberColumn(8, 0, 1, 0),
        lambda: codec.FloatColumn(2),
        lambda: codec.DecimalColumn(39),
        lambda: codec.DecimalColumn(9, 0),
        lambda: codec.NullableColumn(codec.BooleanColumn(), 2),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            make()
    for make in (
        lambda: codec.NullableColumn(None, 0),
        lambda: codec.RecordColumn((None,)),
        lambda: codec.ListColumn(None),
        lambda: codec.read_columns(None, []),
        lambda: codec.write_columns(None, 0),
    ):
        with pytest.raises(TypeError):
            make()


def test_what_is_no_bytes_is_refused() -> None:
    for data in ("a", bytearray(b"\x02"), None):
        with pytest.raises(codec.Refused):
            codec.read_columns(codec.NumberColumn(8, 0, 9), [data])
