"""Floats and doubles of keys as Spark groups by them."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.rows.unsafe_leaves import normalized

NOT_A_NUMBER = np.array([0xFFF8000000000001], np.uint64).view(np.float64)[0]


def bits(array):
    return array.fill_null(5).to_numpy().tobytes()


@given(st.lists(st.floats(width=32) | st.none()))
def test_only_zeros_and_what_is_no_number_change(prices):
    prices = [*prices, -0.0, NOT_A_NUMBER, None]
    same = {0.0: 0.0, None: None}
    expected = [math.nan if p and math.isnan(p) else same.get(p, p) for p in prices]
    for kind in (pa.float64(), pa.float32()):
        made = pa.array(prices, pa.float64()).cast(kind, safe=False)
        wanted = pa.array(expected, pa.float64()).cast(kind, safe=False)
        assert bits(normalized(made)) == bits(wanted)
        assert normalized(made).null_count == wanted.null_count


@pytest.mark.parametrize(("start", "count"), [(0, 4), (1, 2), (3, 1)])
def test_what_holds_them_is_normalized_within(start, count):
    kind = pa.struct([("a", pa.list_(pa.struct([("x", pa.float64()), ("y", pa.string())])))])
    rows = [
        {"a": [{"x": -0.0, "y": "one"}, {"x": 1.5, "y": None}]},
        None,
        {"a": None},
        {"a": [None, {"x": -0.0, "y": "two"}]},
    ]
    found = normalized(pa.array(rows, kind).slice(start, count))
    found.validate(full=True)
    assert found.to_pylist() == rows[start : start + count]
    zeros = [x for x in found.flatten()[0].flatten().field("x").to_pylist() if x == 0]
    assert all(math.copysign(1, zero) == 1 for zero in zeros)


def test_what_has_no_floats_is_the_same():
    names = pa.array(["a", None])
    assert normalized(names) is names
