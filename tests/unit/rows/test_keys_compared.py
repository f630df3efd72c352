"""Which rows have a key, by the values of its columns."""

import pyarrow as pa
import pytest

from statemigrate.state.user_rows import is_same

INNER = pa.struct([("text", pa.binary()), ("number", pa.int32())])
OUTER = pa.struct([("inner", INNER), ("other", pa.int64())])


@pytest.mark.parametrize(
    "values",
    [
        [{"inner": None, "other": 1}, {"inner": {"text": None, "number": None}, "other": 1}, None],
        [{"inner": {"text": b"", "number": 0}, "other": None}, {"inner": None, "other": None}],
        [{"inner": {"text": b"a", "number": 2}, "other": 3}] * 2,
    ],
)
def test_a_null_within_a_key_is_the_same_as_no_other_value(values):
    column = pa.array(values, OUTER)
    for value in values:
        expected = [each == value for each in values]
        assert is_same(column, pa.array([value], OUTER)).to_pylist() == expected


def test_what_a_null_struct_has_in_its_place_does_not_count():
    # As a reader leaves it: the fields of a struct that is null have bytes of their own.
    fields = [pa.array([b"", b"left"]), pa.array([0, 7], pa.int32())]
    inner = pa.StructArray.from_arrays(fields, fields=list(INNER), mask=pa.array([True, True]))
    column = pa.StructArray.from_arrays([inner, pa.array([1, 1])], fields=list(OUTER))
    wanted = pa.array([{"inner": None, "other": 1}], OUTER)
    assert is_same(column, wanted).to_pylist() == [True, True]
