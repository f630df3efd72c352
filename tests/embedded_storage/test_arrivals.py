"""A partition's rows are grouped by the bytes of their keys, whatever Python takes for equal."""

import datetime as dt
from decimal import Decimal
from itertools import groupby, islice
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    DateType,
    DecimalType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from statemigrate.embedded import task as module
from statemigrate.embedded.task import Arrivals
from statemigrate.embedded.task_plan import BatchSchema
from statemigrate.processor.keys import TupleKeyCodec

HALF_HOURS = [
    # An hour runs twice in New York on the first, half an hour on Lord Howe on the second.
    *(dt.datetime(2024, 11, 3, 4, tzinfo=dt.UTC) + n * dt.timedelta(minutes=15) for n in range(16)),
    *(dt.datetime(2024, 4, 6, 14, tzinfo=dt.UTC) + n * dt.timedelta(minutes=15) for n in range(8)),
    dt.datetime(1, 1, 2, tzinfo=dt.UTC),
    dt.datetime(9999, 12, 30, 12, tzinfo=dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
]
CORNERS = {
    StringType(): ["", "a", "a\x00", "a\x00b", "A", "e\u0301", "\u00e9", "\U0001f600", None],
    DateType(): [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31), None],
    DecimalType(10, 2): [Decimal("1.00"), Decimal("1.0"), Decimal("-0.00"), Decimal("0"), None],
    TimestampNTZType(): [dt.datetime(2024, 11, 3, 1, 30), dt.datetime(9999, 12, 31, 23), None],
}


def arrivals(data_type, keys, zone="UTC"):
    rows = StructType([StructField("k", data_type), StructField("n", IntegerType())])
    names = [to_arrow_schema(rows, timezone=zone).field(n) for n in range(2)]
    table = pa.Table.from_pylist(
        [{"k": key, "n": n} for n, key in enumerate(keys)], pa.schema(names)
    )
    schema = BatchSchema(rows, StructType(rows.fields[:1]), (0,), rows)
    ahead = []
    return Arrivals(iter(table.to_batches()), schema, ahead.append), ahead


def test_the_two_times_of_a_repeated_hour_are_keys_of_their_own(zone):
    twice = [moment for moment in sorted(HALF_HOURS) for _ in range(2)]
    found, ahead = arrivals(TimestampType(), twice, zone)
    groups = [(key, data, [row.n for row in rows]) for key, data, rows in found.groups()]
    assert [key[0].astimezone(dt.UTC) for key, _, _ in groups] == sorted(HALF_HOURS)
    assert [numbers for _, _, numbers in groups] == [
        [n, n + 1] for n in range(0, 2 * len(HALF_HOURS), 2)
    ]
    assert ahead == [[data for _, data, _ in groups]]
    assert len(set(ahead[0])) == len(HALF_HOURS)


@pytest.mark.parametrize("data_type", CORNERS, ids=str)
def test_every_corner_case_is_grouped_as_its_bytes_are(data_type):
    keys = CORNERS[data_type]
    codec = TupleKeyCodec(StructType([StructField("k", data_type)]))
    found, _ = arrivals(data_type, keys)
    groups = [(data, [row.n for row in rows]) for _, data, rows in found.groups()]
    encoded = [(codec.encode((key,)), n) for n, key in enumerate(keys)]
    assert groups == [
        (data, [n for _, n in same]) for data, same in groupby(encoded, key=lambda pair: pair[0])
    ]


def test_a_key_keeps_the_side_of_the_clock_change_it_is_on(zone):
    codec = TupleKeyCodec(StructType([StructField("k", TimestampType())]))
    for moment in HALF_HOURS:
        data = codec.encode((moment,))
        (local,) = codec.decode(data)
        assert local.tzinfo is None
        assert codec.encode((local,)) == data
        assert codec.encode((moment.astimezone(ZoneInfo(zone)),)) == data


@given(
    sizes=st.lists(st.integers(1, 9), max_size=8),
    read=st.lists(st.none() | st.integers(0, 3), min_size=8, max_size=8),
    rows_a_slice=st.integers(1, 5),
)
def test_a_key_has_all_of_its_rows_and_no_other_whatever_slices_they_lie_in(
    sizes, read, rows_a_slice
):
    """Also behind a key whose processor has left rows unread."""
    keys = [f"k{number}" for number, size in enumerate(sizes) for _ in range(size)]
    expected = [
        [n for n, key in enumerate(keys) if key == f"k{each}"] for each in range(len(sizes))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ROWS_A_SLICE", rows_a_slice)
        found, _ = arrivals(StringType(), keys)
        groups = [
            (key[0], [row.n for row in islice(rows, most)])
            for (key, _, rows), most in zip(found.groups(), read, strict=False)
        ]
    assert groups == [
        (f"k{number}", rows[:most])
        for number, (rows, most) in enumerate(zip(expected, read, strict=False))
    ]
    assert found.rows == len(keys)
