"""A migrated state takes what plain Spark takes, and stores the same; or it says no aloud."""

import dataclasses
import datetime as dt
import math
from decimal import Decimal

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from support.spark_conversion import REFUSED, SparkConversion

from statemigrate.access import DualAccess
from statemigrate.errors import ValueMismatchError
from statemigrate.families import MemoryFamily
from statemigrate.formats import Struct
from statemigrate.processor.rows import TupleCodec
from statemigrate.processor.variables import put_row

pytestmark = pytest.mark.spark

NOON = dt.datetime(2024, 7, 1, 12, 30, 0, 123456)
EAST = dt.timezone(dt.timedelta(hours=5, minutes=30))


@dataclasses.dataclass
class Point:
    x: object
    y: object = None
    note: str = "not a column"


TAKEN = [
    ("BOOLEAN", [True, np.bool_(False), None]),
    ("TINYINT", [np.int8(5), np.int64(-128), 127]),
    ("SMALLINT", [np.uint8(200), -(2**15)]),
    ("INT", [np.int64(2**31 - 1), -(2**31)]),
    ("BIGINT", [np.uint64(5), 2**63 - 1, -(2**63)]),
    ("FLOAT", [0.1, np.float32(0.1), -0.0, float("inf"), float("nan"), 1e-45]),
    ("DOUBLE", [0.1, np.float32(0.1), np.float64(0.5), -0.0, float("-inf"), float("nan"), 5e-324]),
    ("DECIMAL(18,2)", [Decimal(10) / 3, Decimal("-1.005"), Decimal("0.005"), Decimal("1E+3")]),
    ("DECIMAL(3,0)", [Decimal("1.5"), Decimal("2.5"), Decimal("-0.5"), Decimal("999.4")]),
    ("DECIMAL(38,18)", [Decimal("1E-30"), Decimal("9" * 20 + "." + "9" * 17)]),
    ("STRING", ["", "a\x00", "\U0001f600", np.str_("x"), 5, np.int64(5), True, Decimal("1.50")]),
    ("STRING", [1.0, 1e16, 1e-7, 0.001, 123456789.125, -0.0, float("nan"), float("-inf"), 1e7]),
    ("BINARY", [b"", b"\x00", bytearray(b"x"), "text", np.bytes_(b"x")]),
    ("DATE", [NOON, NOON.replace(tzinfo=EAST), pd.Timestamp(NOON), np.datetime64("2024-07-01")]),
    ("DATE", [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.datetime(9999, 12, 31, 23, 59)]),
    ("TIMESTAMP", [NOON, NOON.replace(tzinfo=EAST), dt.datetime(9999, 12, 31), pd.Timestamp(NOON)]),
    ("TIMESTAMP", [pd.Timestamp(NOON, tz="Asia/Tokyo"), np.datetime64("2024-07-01T12:30:00.5")]),
    ("TIMESTAMP", [dt.datetime.max.replace(tzinfo=dt.UTC), dt.datetime.max]),
    ("TIMESTAMP_NTZ", [NOON, NOON.replace(tzinfo=EAST, fold=1), dt.datetime(1, 1, 1)]),
    ("TIMESTAMP_NTZ", [pd.Timestamp(NOON, tz="UTC"), dt.datetime.max]),
    ("ARRAY<BIGINT>", [[], [1, None], (1, 2), [np.int64(1)], np.array([], dtype=int).tolist()]),
    ("ARRAY<DECIMAL(5,1)>", [[Decimal("1.25"), Decimal("-1.25")]]),
    ("MAP<STRING, DOUBLE>", [{}, {"a": np.float64(1)}, {1: 0.5}, {np.str_("x"): None}]),
    ("STRUCT<x: INT, y: DATE>", [(1, NOON), [np.int64(1), None], {"x": 1}, {}, Point(1, NOON)]),
    ("ARRAY<STRUCT<x: DECIMAL(3,1)>>", [[(Decimal("0.25"),), {"x": np.nan}, None]][:0]),
]
NULLED = [
    ("BOOLEAN", [1, "true", 0.0]),
    ("INT", ["5", 1.0, True, Decimal(1), float("nan")]),
    ("DOUBLE", ["0.5", Decimal("0.5"), True, 2**53 + 1]),
    ("DECIMAL(5,1)", [1, 0.5, "1", Decimal("NaN")]),
    ("BINARY", [5, [1]]),
    ("ARRAY<INT>", [{1}, "12", {1: 2}]),
    ("MAP<STRING, INT>", [[("a", 1)], "a"]),
]
CHANGED = [
    ("TINYINT", [128, np.uint8(200)]),
    ("INT", [2**31]),
    ("FLOAT", [3.5e38]),
    ("STRING", [b"x", [1], {"a": 1}, NOON.time(), dt.timedelta(1), NOON]),
    ("STRUCT<x: INT>", [{"z": 1}, (1, 2), object()]),
    ("MAP<STRING, INT>", [{1: 1, "1": 2}]),
]


def pairs(listed):
    return [
        pytest.param(ddl, value, id=f"{ddl} {name(value)}")
        for ddl, many in listed
        for value in many
    ]


def name(value):
    # Its address is another one in every process.
    return "an object" if type(value) is object else repr(value)


class Migrated:
    """A state of one column behind dual access, with a format's bytes below it."""

    def __init__(self, ddl):
        self.format = Struct(f"a {ddl}")
        self.family = MemoryFamily("values", "base", self.format)
        self.access = DualAccess("values", self.family)
        self.rows = TupleCodec(self.format.struct_type())

    def stored(self, row):
        put_row(self.access, self.rows, b"key", row)
        value = self.format.decode(self.format.encode(self.family.get(b"key")))
        return self.rows.to_tuple(value)


def shown(row):
    return repr(tuple(row)) if isinstance(row, tuple) else row


@pytest.mark.parametrize(("ddl", "value"), pairs(TAKEN))
def test_what_spark_stores_is_stored_the_same(spark, ddl, value):
    wanted = SparkConversion(spark, f"a {ddl}").stored((value,))
    assert wanted != REFUSED
    assert shown(Migrated(ddl).stored((value,))) == shown(wanted)


@pytest.mark.parametrize(("ddl", "value"), pairs(NULLED + CHANGED))
def test_what_spark_would_lose_is_refused_and_the_processor_is_told(ddl, value):
    with pytest.raises(ValueMismatchError, match=r"^The processor put into state values") as raised:
        Migrated(ddl).stored((value,))
    assert "transform" not in str(raised.value)
    assert raised.value.data["store"] == "values"
    assert raised.value.data["field"][:1] in ("", "a")


@pytest.mark.parametrize(("ddl", "value"), pairs(NULLED))
def test_spark_itself_stores_null_for_those(spark, ddl, value):
    assert SparkConversion(spark, f"a {ddl}").stored((value,))[0] is None


@pytest.mark.parametrize(
    "ddl", ["INT", "STRING", "TIMESTAMP", "DATE", "ARRAY<INT>", "MAP<STRING, INT>"]
)
@pytest.mark.parametrize("nothing", [pd.NA, pd.NaT, np.datetime64("NaT")], ids=repr)
def test_what_stands_for_no_value_in_pandas_is_null(ddl, nothing):
    assert Migrated(ddl).stored((nothing,)) == (None,)


@pytest.mark.parametrize("first", [dt.datetime(1, 1, 1), dt.datetime(1, 1, 1, tzinfo=dt.UTC)])
def test_the_first_day_which_spark_takes_and_cannot_read_is_read(first):
    (moment,) = Migrated("TIMESTAMP").stored((first,))
    assert moment == dt.datetime(1, 1, 1)


def test_an_array_of_numpy_is_a_list():
    assert Migrated("ARRAY<ARRAY<DOUBLE>>").stored((np.array([[0.5, 1.0]]),)) == ([[0.5, 1.0]],)
    moments = np.array(["2024-07-01T12:30", "NaT"], dtype="datetime64[ns]")
    at = dt.datetime(2024, 7, 1, 12, 30)
    assert Migrated("ARRAY<TIMESTAMP_NTZ>").stored((moments,)) == ([at, None],)


NUMBERS = st.one_of(
    st.integers(-(2**64), 2**64),
    st.floats(),
    st.floats(width=32),
    st.booleans(),
    st.decimals(
        allow_nan=False, allow_infinity=False, places=4, min_value=-(10**6), max_value=10**6
    ),
    st.integers(-128, 127).map(np.int8),
    st.integers(0, 2**64 - 1).map(np.uint64),
    st.floats(width=32).map(np.float32),
    st.booleans().map(np.bool_),
)
MOMENTS = st.one_of(
    st.datetimes(dt.datetime(1600, 1, 1), timezones=st.sampled_from([None, dt.UTC, EAST])),
    st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)).map(pd.Timestamp),
    st.dates(dt.date(1600, 1, 1)),
    st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)).map(np.datetime64),
)
VALUES = {
    **dict.fromkeys(
        ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"], NUMBERS
    ),
    **dict.fromkeys(["DECIMAL(9,2)", "DECIMAL(38,0)"], NUMBERS),
    "STRING": st.text(st.characters(codec="utf-8")) | st.integers() | st.booleans(),
    "BINARY": st.binary() | st.text(st.characters(codec="utf-8")),
    **dict.fromkeys(["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"], MOMENTS),
}


@pytest.mark.long
@settings(max_examples=135)
@given(st.sampled_from(sorted(VALUES)).flatmap(lambda t: st.tuples(st.just(t), VALUES[t])))
def test_any_value_is_stored_as_spark_stores_it_or_refused_where_it_would_be_lost(spark, pair):
    ddl, value = pair
    plain = SparkConversion(spark, f"a {ddl}").stored((value,))
    try:
        ours = Migrated(ddl).stored((value,))
    except ValueMismatchError:
        # Spark refuses it too, stores null for it, or another number.
        assert plain == REFUSED or plain[0] is None or plain[0] != value
        return
    if plain == REFUSED or plain[0] is None:
        assert ours[0] == value
    else:
        same = math.isnan(ours[0]) if plain[0] != plain[0] else ours == plain
        assert same
        assert type(ours[0]) is type(plain[0])
