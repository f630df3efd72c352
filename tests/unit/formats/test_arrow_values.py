"""Arrow's values are plain ones, with dictionaries for maps, whichever release makes them."""

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
