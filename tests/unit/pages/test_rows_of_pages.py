"""Rows on their way to a page and back: what comes out is what Arrow's own conversion gives."""

from __future__ import annotations

import datetime as dt
import gc
from decimal import Decimal
from itertools import groupby
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.types import StructType

from statemigrate.pages.packed_rows import (
    BUCKET,
    Packing,
    Unpacking,
    arrow_schema,
    pack,
    packed_output,
)
from statemigrate.processor.garbage import keep_what_is_loaded
from statemigrate.processor.handle import struct_of
from statemigrate.processor.keys import TupleKeyCodec

COLUMNS = {
    "key": pa.string(),
    "n": pa.int64(),
    "flag": pa.bool_(),
    "share": pa.float64(),
    "raw": pa.binary(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "Europe/Berlin"),
    "tags": pa.list_(pa.string()),
    "inner": pa.struct([("x", pa.int32())]),
    "odd.name": pa.map_(pa.string(), pa.int64()),
}
MOMENT = dt.datetime(2025, 3, 30, 0, 59, tzinfo=dt.UTC)
VALUES: dict[str, Any] = {
    "key": st.sampled_from(["", "a", "\x00ü"]),
    "n": st.sampled_from([0, 2**63 - 1, -(2**63)]),
    "flag": st.booleans(),
    "share": st.floats(allow_nan=False),
    "raw": st.binary(max_size=2),
    "day": st.dates(),
    "at": st.sampled_from([MOMENT, MOMENT + dt.timedelta(hours=1)]),
    "tags": st.lists(st.one_of(st.none(), st.text(max_size=1)), max_size=2),
    "inner": st.fixed_dictionaries({"x": st.integers(-5, 5)}),
    "odd.name": st.lists(st.tuples(st.text(max_size=1), st.integers(0, 5)), max_size=1),
}
rows = st.fixed_dictionaries(
    {name: st.one_of(st.none(), values) for name, values in VALUES.items()}
    | {BUCKET: st.integers(0, 3)}
)
PLAIN = ("key", "n", "flag", "share", "raw")
"""Columns whose rows travel as Python writes its own values."""


def packages(batches: list[pa.RecordBatch]) -> dict[int, list[Any]]:
    """The packed rows of each bucket, as Spark brings them together."""
    packed = [row for batch in pack(iter(batches)) for row in batch.to_pylist()]
    packed.sort(key=lambda row: row[BUCKET])
    groups = groupby(packed, key=lambda row: row[BUCKET])
    return {bucket: [Row(**row) for row in found] for bucket, found in groups}


@pytest.mark.parametrize(
    ("names", "key"),
    [(tuple(COLUMNS), "key STRING, at TIMESTAMP"), (PLAIN, "key STRING, n BIGINT")],
    ids=["all types", "plain types"],
)
@given(many=st.lists(st.lists(rows, max_size=6), max_size=3))
def test_every_row_comes_to_its_bucket_under_its_key_as_it_was(
    names: tuple[str, ...], key: str, many: Any
) -> None:
    codec = TupleKeyCodec(struct_of(key))
    columns = tuple(names.index(field.name) for field in codec.schema)
    schema = pa.schema([*((name, COLUMNS[name]) for name in names), (BUCKET, pa.int32())])
    batches = [pa.RecordBatch.from_pylist(each, schema) for each in many]
    expected: dict[int, list[tuple[Any, ...]]] = {}
    for row in (row for batch in batches for row in batch.to_pylist()):
        expected.setdefault(row[BUCKET], []).append(tuple(row[name] for name in names))
    found = packages(batches)
    assert found.keys() == expected.keys()
    for bucket, each in found.items():
        keyed = list(Unpacking(columns, codec, names).by_key(each))
        groups = [group for _, group in keyed]
        keys = [tuple(group[0][at] for at in columns) for group in groups]
        assert [data for data, _ in keyed] == [codec.encode(key) for key in keys]
        assert len({data for data, _ in keyed}) == len(groups)
        for (data, _), group in zip(keyed, groups, strict=True):
            encoded = [codec.encode(tuple(row[at] for at in columns)) for row in expected[bucket]]
            mine = [
                row
                for row, found_key in zip(expected[bucket], encoded, strict=True)
                if found_key == data
            ]
            assert list(map(tuple, group)) == mine
            assert [list(map(type, row)) for row in group] == [
                [type(value) for value in row] for row in mine
            ]
            assert all(row.asDict().keys() == set(names) for row in group)


def test_rows_of_both_kinds_come_in_any_order() -> None:
    """Tasks of one batch may meet a table before and after a change of its columns' types."""
    kinds = {"plain": pa.int64(), "arrow": pa.decimal128(5, 2)}
    made = {
        name: pa.RecordBatch.from_pylist(
            [{"key": name, "value": 7, BUCKET: 0}],
            pa.schema([("key", pa.string()), ("value", kind), (BUCKET, pa.int32())]),
        )
        for name, kind in kinds.items()
    }
    packed = packages([made["plain"], made["arrow"], made["plain"]])[0]
    unpacking = Unpacking((0,), TupleKeyCodec(struct_of("key STRING")), ["key", "value"])
    found = [[tuple(row) for row in group] for _, group in unpacking.by_key(packed)]
    assert found == [[("plain", 7), ("plain", 7)], [("arrow", Decimal(7))]]


def test_the_two_times_of_a_repeated_hour_are_two_keys() -> None:
    zone = pa.timestamp("us", "Europe/Berlin")
    first = dt.datetime(2025, 10, 26, 0, 30, tzinfo=dt.UTC)
    moments = [first, first + dt.timedelta(hours=1), first]
    schema = pa.schema([("at", zone), (BUCKET, pa.int32())])
    batch = pa.RecordBatch.from_pylist([{"at": each, BUCKET: 0} for each in moments], schema)
    codec = TupleKeyCodec(struct_of("at TIMESTAMP"))
    groups = list(Unpacking((0,), codec, ["at"]).by_key(packages([batch])[0]))
    assert [len(group) for _, group in groups] == [2, 1]
    assert len({data for data, _ in groups}) == 2


FLAT = struct_of("key STRING, n BIGINT, share DOUBLE, raw BINARY")
NESTED = struct_of("key STRING, last STRUCT<at: TIMESTAMP, price: DECIMAL(12,3)>")


def as_spark_takes(output: StructType, made: list[Any]) -> list[dict[str, Any]]:
    """What PySpark's workers make of the rows that a processor yielded."""
    given = [row.asDict(True) for row in Packing(output).given(made)]
    batch = pa.RecordBatch.from_pylist(given, arrow_schema(packed_output(output)))
    return [row for rows in batch.to_pydict()["rows"] for row in rows]


@pytest.mark.parametrize(
    ("output", "made"),
    [
        (FLAT, [Row(key="a", n=1, share=0.5, raw=b"x"), Row(key=None, n=None, share=1, raw=None)]),
        (FLAT, [Row(n=1, key="in another order")]),
        (FLAT, [Row(key="a", n=1), Row(n=2, key="b")]),
        (NESTED, [Row(key="a", last=Row(at=MOMENT, price=Decimal("1.250"))), Row(key="b")]),
    ],
    ids=["flat", "another order", "two orders", "nested"],
)
def test_what_is_yielded_is_converted_as_spark_converts_it(
    output: StructType, made: list[Any]
) -> None:
    schema = arrow_schema(output)
    expected = pa.RecordBatch.from_pylist([row.asDict(True) for row in made], schema)
    assert as_spark_takes(output, made) == expected.to_pylist()


@pytest.mark.parametrize("row", [Row(key=1, n=1), Row(key="a", n="1")], ids=["text", "number"])
def test_what_spark_would_not_take_is_not_taken(row: Any) -> None:
    output = struct_of("key STRING, n BIGINT")
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
        pa.RecordBatch.from_pylist([row.asDict(True)], arrow_schema(output))
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
        as_spark_takes(output, [row])


def test_a_worker_looks_no_further_through_what_it_has_loaded_and_a_user_s_process_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frozen: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append("once"))
    keep_what_is_loaded("a step")
    assert not frozen
    monkeypatch.setattr(TaskContext, "get", object)
    for _ in range(2):
        keep_what_is_loaded("a step")
    assert frozen == ["once"]
