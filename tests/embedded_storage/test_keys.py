"""Keys as bytes: they sort as the keys do, none begins another, and they read back the same."""

import datetime as dt
import math
import re
from decimal import Decimal

import hypothesis.strategies as st
import pytest
from hypothesis import example, given
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from statemigrate.errors import UnsupportedError, ValueMismatchError
from statemigrate.processor.keys import TupleKeyCodec, check_grouping

floats = st.floats(allow_nan=False).filter(lambda n: n != 0)  # -0.0 is a key of its own
moments = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))
texts = st.text(st.characters(codec="utf-8"), max_size=6)
TYPES = {
    BooleanType(): st.booleans(),
    ByteType(): st.integers(-(2**7), 2**7 - 1),
    ShortType(): st.integers(-(2**15), 2**15 - 1),
    IntegerType(): st.integers(-(2**31), 2**31 - 1),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    StringType(): st.one_of(texts, st.text("a\x00\x01", max_size=4)),
    BinaryType(): st.one_of(
        st.binary(max_size=6), st.text("\x00\x01a", max_size=4).map(str.encode)
    ),
    DateType(): st.dates(),
    DoubleType(): floats,
    FloatType(): st.floats(allow_nan=False, width=32).filter(lambda n: n != 0),
    DayTimeIntervalType(): st.timedeltas(dt.timedelta(-10**8), dt.timedelta(10**8)),
    ArrayType(IntegerType()): st.lists(st.integers(-3, 3), max_size=3),
    StructType([StructField("x", ShortType()), StructField("y", StringType())]): st.builds(
        Row("x", "y"), st.integers(-3, 3), texts
    ),
    TimestampType(): moments,
    TimestampNTZType(): st.datetimes(),
    DecimalType(10, 2): st.decimals(-99_999_999, 99_999_999, places=2),
    DecimalType(38, 10): st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -10))
    ),
}  # fmt: skip


def codec(*types):
    return TupleKeyCodec(StructType([StructField(f"c{n}", each) for n, each in enumerate(types)]))


@st.composite
def schema_and_keys(draw, count=2):
    types = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=3))
    key = st.tuples(*(st.one_of(st.none(), TYPES[each]) for each in types))
    return types, draw(st.lists(key, min_size=count, max_size=count))


def order(key):
    """Python's own order of keys, nulls first."""
    return [(value is not None, value) for value in key]


def ascending(one, other):
    for left, right in zip(order(one), order(other), strict=True):
        if left[0] != right[0]:
            return left[0] < right[0]
        if left[0] and left[1] != right[1]:
            return left[1] < right[1]
    return None


@given(schema_and_keys())
@example(([StringType(), StringType()], [("a", "\x00b"), ("a\x00", "b")]))
@example(([BinaryType()], [(b"",), (b"\x00",)]))
@example(([StringType(), LongType()], [(None, 1), ("", None)]))
def test_bytes_sort_as_keys_do_and_none_begins_another(case):
    types, (one, other) = case
    keys = codec(*types)
    first, second = keys.encode(one), keys.encode(other)
    assert keys.encode_many([one, other]) == [first, second]
    expected = ascending(one, other)
    if expected is None:
        assert first == second
    else:
        assert (first < second) is expected
        assert not first.startswith(second)
        assert not second.startswith(first)


@given(schema_and_keys(count=1), st.binary(max_size=5))
def test_a_key_reads_back_equal_whatever_follows_it(case, rest):
    types, (key,) = case
    keys = codec(*types)
    data = keys.encode(key)
    assert keys.decode(data) == key
    assert keys.split(data + rest) == (key, rest)
    assert [type(value) for value in keys.decode(data)] == [type(value) for value in key]


@given(schema_and_keys(count=1), st.lists(st.integers(-3, 3), min_size=2, max_size=2))
def test_all_entries_of_one_key_lie_together(case, users):
    """What follows a grouping key in a map's entry does not mix its range with another's."""
    types, (key,) = case
    group, user = codec(*types), codec(IntegerType())
    low, high = sorted(group.encode(key) + user.encode((each,)) for each in users)
    assert low.startswith(group.encode(key))
    assert high.startswith(group.encode(key))
    assert [user.decode(group.split(each)[1])[0] for each in (low, high)] == sorted(users)


def test_both_times_of_the_repeated_hour_are_keys_of_their_own(berlin):
    keys = codec(TimestampType())
    once = dt.datetime(2026, 10, 25, 2, 30)
    again = once.replace(fold=1)
    for moment in (once, again, dt.datetime(2026, 7, 1, 12), dt.datetime(1969, 12, 31, 23)):
        (back,) = keys.decode(keys.encode((moment,)))
        assert (back, back.fold) == (moment, moment.fold)
    assert keys.encode((once,)) < keys.encode((again,))


def test_an_aware_timestamp_is_the_same_key_as_the_local_one():
    keys = codec(TimestampType())
    local = dt.datetime(2026, 7, 1, 12, 0, 0, 1)
    assert keys.encode((local.astimezone(dt.UTC),)) == keys.encode((local,))


def test_equal_decimals_are_one_key_however_they_are_written():
    keys = codec(DecimalType(10, 2))
    same = [Decimal("1.5"), Decimal("1.50"), Decimal("15E-1"), 1.5]
    assert len({keys.encode((each,)) for each in same}) == 1
    assert keys.encode((Decimal("-0"),)) == keys.encode((Decimal(0),))
    assert str(keys.decode(keys.encode((Decimal("1.5"),)))[0]) == "1.50"


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (IntegerType(), "1"),
        (IntegerType(), 1.0),
        (ByteType(), 128),
        (LongType(), -(2**63) - 1),
        (StringType(), b"bytes"),
        (StringType(), "\ud800"),
        (BinaryType(), 5),
        (BinaryType(), "text"),
        (BooleanType(), 2),
        (BooleanType(), "1"),
        (DateType(), dt.datetime(2026, 1, 1)),
        (TimestampType(), "2026-01-01"),
        (TimestampNTZType(), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        (DecimalType(10, 2), Decimal("1.234")),
        (DecimalType(10, 2), Decimal("NaN")),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_no_key(data_type, value):
    for types, key in (([data_type], (value,)), ([StringType(), data_type], ("x", value))):
        with pytest.raises(ValueMismatchError, match="does not fit its columns") as raised:
            codec(*types).encode(key)
        assert raised.value.expected == codec(*types).schema.simpleString()
        assert raised.value.data["field"] == "key"
        with pytest.raises(ValueMismatchError, match=re.escape(raised.value.summary)):
            codec(*types).encode_many([key])


@pytest.mark.parametrize("key", [(), ("a", "b"), 5, None])
def test_a_key_has_one_value_a_column(key):
    with pytest.raises(ValueMismatchError, match="does not fit its columns"):
        codec(StringType()).encode(key)


@pytest.mark.parametrize(
    "data_type", [DoubleType(), ArrayType(LongType()), StructType(), StringType("UNICODE")], ids=str
)
def test_rows_are_not_grouped_by_a_type_without_an_exact_order(data_type):
    with pytest.raises(UnsupportedError, match=r"c0 .* cannot be a key here") as raised:
        check_grouping(StructType([StructField("c0", data_type)]))
    assert raised.value.data["column"] == "c0"
    assert raised.value.next_action


@pytest.mark.parametrize("data_type", [DoubleType(), FloatType()], ids=str)
def test_every_bit_of_a_float_counts_and_nan_is_a_key(data_type):
    keys = codec(data_type)
    numbers = [float("-inf"), -1.5, -0.0, 0.0, 5e-324 if data_type == DoubleType() else 1e-45, 1.5]
    numbers += [float("inf"), float("nan")]
    encoded = [keys.encode((each,)) for each in numbers]
    assert encoded == sorted(set(encoded))
    assert [repr(keys.decode(data)[0]) for data in encoded[:4]] == ["-inf", "-1.5", "-0.0", "0.0"]
    assert math.isnan(keys.decode(encoded[-1])[0])
    with pytest.raises(ValueMismatchError):
        keys.encode((2**53 + 1 if data_type == DoubleType() else 1e300,))


@pytest.mark.parametrize(
    "texts", [["a", "b"], ["a", None, "ü"], ["a\x00b", "a", ""], [None], []], ids=repr
)
def test_many_texts_have_the_bytes_of_each(texts):
    keys = codec(StringType())
    assert keys.encode_many([(text,) for text in texts]) == [keys.encode((each,)) for each in texts]


def test_what_is_no_text_among_many_is_named():
    with pytest.raises(ValueMismatchError, match="5"):
        codec(StringType()).encode_many([("a",), (5,)])
