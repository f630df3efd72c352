"""Arrow's values are plain ones, with dictionaries for maps, whichever release makes them."""

import subprocess
import sys
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.formats.arrow_values import plain_values, with_dictionaries

KIND = pa.struct(
    [
        ("n", pa.int64()),
        ("counts", pa.map_(pa.string(), pa.list_(pa.map_(pa.int32(), pa.string())))),
    ]
)
INNER = st.dictionaries(st.integers(0, 9), st.text(max_size=2), max_size=3)
VALUES = st.none() | st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(0, 9),
        "counts": st.none()
        | st.dictionaries(st.text(max_size=2), st.none() | st.lists(INNER, max_size=2), max_size=3),
    }
)


def pairs(value):
    """What Arrow takes: a map as its pairs."""
    if isinstance(value, dict):
        return [(key, pairs(each)) for key, each in value.items()]
    return [pairs(each) for each in value] if isinstance(value, list) else value


def taken(value):
    return None if value is None else {"n": value["n"], "counts": pairs(value["counts"])}


@given(st.lists(VALUES, max_size=4))
def test_both_ways_give_what_was_put_in(values):
    array = pa.array([taken(each) for each in values], KIND)
    assert plain_values(array) == values
    assert [with_dictionaries(each, KIND) for each in array.to_pylist()] == values


def test_a_key_that_comes_twice_is_refused():
    kind = pa.map_(pa.string(), pa.int64())
    twice = pa.array([[("a", 1), ("a", 2)]], kind)
    with pytest.raises(KeyError):
        plain_values(twice)
    with pytest.raises(KeyError):
        with_dictionaries(twice.to_pylist()[0], kind)


MOMENTS = st.datetimes(
    min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC)
)
LIFE = pa.struct(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("days", pa.list_(pa.timestamp("us", "UTC"))),
        ("by_day", pa.map_(pa.timestamp("us", "UTC"), pa.struct([("at", pa.timestamp("us"))]))),
        ("far", pa.timestamp("us", "Asia/Tokyo")),
        ("nothing", pa.list_(pa.null())),
        ("of_days", pa.map_(pa.int8(), pa.struct([("nothing", pa.list_(pa.null()))]))),
    ]
)
NOTHING = st.none() | st.integers(0, 3).map(lambda count: [None] * count)


def _of(nothing):
    return {"nothing": nothing}


LIVES = st.none() | st.fixed_dictionaries(
    {
        "at": st.none() | MOMENTS,
        "local": st.none() | MOMENTS.map(lambda each: each.replace(tzinfo=None)),
        "days": st.none() | st.lists(st.none() | MOMENTS, max_size=2),
        "by_day": st.none() | st.dictionaries(MOMENTS, st.none() | st.just({"at": None})),
        "far": st.none() | st.just(datetime(2026, 1, 1, tzinfo=UTC)),
        "nothing": NOTHING,
        "of_days": st.none() | st.dictionaries(st.integers(0, 9), st.builds(_of, NOTHING)),
    }
)


@given(st.lists(LIVES, max_size=4))
def test_moments_have_the_zone_that_pyarrow_gives_them(values):
    array = pa.array(
        [
            None
            if each is None
            else each
            | {
                "by_day": pairs(each["by_day"]),
                "of_days": each["of_days"] and list(each["of_days"].items()),
            }
            for each in values
        ],
        LIFE,
    )
    assert plain_values(array) == values
    assert all(each is None or each["at"] is None or each["at"].tzinfo is UTC for each in
               plain_values(array))  # fmt: skip


@given(st.lists(st.tuples(NOTHING, st.sampled_from([b"a", b"\xff"])), min_size=1, max_size=4))
def test_text_that_is_not_utf_8_is_escaped_next_to_lists_of_nothing(values):
    lists = pa.array([each for each, _ in values], pa.list_(pa.null()))
    texts = pa.array([each for _, each in values], pa.binary()).view(pa.string())
    array = pa.StructArray.from_arrays([lists, texts], ["nothing", "text"])
    assert plain_values(array) == [
        {"nothing": nothing, "text": text.decode("utf-8", "surrogateescape")}
        for nothing, text in values
    ]


def test_moments_become_plain_values_without_pandas():
    code = (
        "import sys, pyarrow as pa\n"
        "from statemigrate.formats.arrow_values import plain_values\n"
        "zone, empty = pa.timestamp('us', 'UTC'), pa.py_buffer(bytes(8))\n"
        "days = pa.Array.from_buffers(zone, 1, [None, empty])\n"
        "print(plain_values(days)[0].isoformat(), 'pandas' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "1970-01-01T00:00:00+00:00 False\n"
