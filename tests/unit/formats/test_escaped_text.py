"""Text that is not UTF-8 goes through Python and back without loss, and is shown with its bytes."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.unsafe_row import RowCodec
from statemigrate.errors import TransformError
from statemigrate.formats import Struct
from statemigrate.formats.arrow_values import array_of, is_utf8, plain_values
from statemigrate.formats.escaped_text import bytes_of, first_escaped, is_escaped, text_of, visible
from statemigrate.migration.path import Step, check_readable

KIND = pa.struct(
    [
        ("s", pa.string()),
        ("l", pa.list_(pa.string())),
        ("m", pa.map_(pa.string(), pa.struct([("x", pa.large_string()), ("n", pa.int32())]))),
    ]
)
TEXTS = st.one_of(st.none(), st.binary(max_size=6).map(text_of))
VALUES = st.fixed_dictionaries(
    {
        "s": TEXTS,
        "l": st.one_of(st.none(), st.lists(TEXTS, max_size=3)),
        "m": st.dictionaries(
            st.binary(max_size=3).map(text_of),
            st.fixed_dictionaries({"x": TEXTS, "n": st.integers(0, 9)}),
            max_size=2,
        ),
    }
)


@given(st.binary(max_size=12))
def test_any_bytes_are_a_text_and_the_same_bytes_again(data):
    assert bytes_of(text_of(data)) == data
    assert visible(text_of(data)) == data.decode("utf-8", "backslashreplace")
    visible(text_of(data)).encode()


@given(st.lists(st.one_of(st.none(), VALUES), max_size=3))
def test_values_with_such_text_go_to_arrow_and_back(values):
    paired = [value and {**value, "m": list(value["m"].items())} for value in values]
    array = array_of(paired, KIND)
    assert plain_values(array) == values
    assert is_utf8(array) == all(first_escaped(each) is None for each in values)


@given(st.lists(st.one_of(st.none(), st.binary(max_size=9)), max_size=5))
def test_rows_have_the_bytes_that_were_there(texts):
    codec = RowCodec(
        {
            "type": "struct",
            "fields": [{"name": "k", "type": "string", "nullable": True, "metadata": {}}],
        }
    )
    column = pa.array(texts, pa.binary()).cast(pa.string(), safe=False)
    rows = codec.encode(pa.StructArray.from_arrays([column], ["k"]))
    found = codec.decode(Rows.from_list(rows.to_list()))
    assert found.field("k").cast(pa.binary()).to_pylist() == texts
    assert codec.encode(found).to_list() == rows.to_list()


def test_what_is_not_utf8_is_found_and_named():
    value = {"a": ["x", {"b\udcff": 1}], "c": "\udc80"}
    assert first_escaped(value) == ("a[1].b\\xff", "b\udcff")
    assert first_escaped({"c": "\udc80"}, "value") == ("value.c", "\udc80")
    assert first_escaped({"c": "ключ", "d": 1}) is None
    assert (is_escaped("\ud800"), is_escaped("é"), is_escaped("\udcfe")) == (False, False, True)


def test_a_function_is_given_no_such_text():
    step = Step("s", "a", "b", lambda value: value, Struct("k STRING"), "versions/b.py")
    check_readable(step, {"k": "\udcff"}, {"value": {"k": "é"}})
    with pytest.raises(TransformError, match=r"not UTF-8, in value\.k") as raised:
        check_readable(step, {"k": "\udcff"}, {"value": {"k": "\udcff\udcfe"}})
    error = raised.value
    assert error.data["key"] == {"k": "\\xff"}
    assert error.found == repr("\\xff\\xfe")
    assert "`upgrade_table` in versions/b.py" in error.next_action
    str(error).encode()
