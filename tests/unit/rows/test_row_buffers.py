"""Many byte strings in one buffer, against lists of bytes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.rows.buffers import Rows, joined, within

TEXTS = st.lists(st.binary(max_size=70), max_size=12)


@given(TEXTS)
def test_rows_are_the_bytes_they_were_made_of(texts):
    rows = Rows.from_list(texts)
    assert len(rows) == len(texts)
    assert rows.to_list() == texts
    assert [rows.row(i) for i in range(len(rows))] == texts
    assert rows.lengths.tolist() == [len(each) for each in texts]


@given(TEXTS, st.data())
def test_taking_rows_takes_items_of_a_list(texts, data):
    indices = data.draw(st.lists(st.integers(0, len(texts) - 1)) if texts else st.just([]))
    taken = Rows.from_list(texts).take(np.array(indices, np.int64))
    assert taken.to_list() == [texts[i] for i in indices]


@given(TEXTS, st.data())
def test_a_mask_takes_rows_where_it_is_true(texts, data):
    mask = data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts)))
    taken = Rows.from_list(texts).take(np.array(mask, bool))
    assert taken.to_list() == [text for text, chosen in zip(texts, mask, strict=True) if chosen]


@given(TEXTS, st.integers(-14, 14), st.integers(-14, 14))
def test_a_slice_is_a_slice_of_the_list(texts, start, stop):
    assert Rows.from_list(texts).slice(start, stop).to_list() == texts[start:stop]


@given(st.lists(TEXTS, max_size=4))
def test_concatenated_rows_are_concatenated_lists(parts):
    rows = Rows.concat([Rows.from_list(part) for part in parts])
    assert rows.to_list() == [text for part in parts for text in part]


@given(TEXTS, st.integers(0, 3), st.integers(0, 3))
def test_rows_go_to_arrow_and_come_back_also_from_a_slice(texts, before, behind):
    array = Rows.from_list(texts).to_arrow()
    assert array.to_pylist() == texts
    part = array[before : max(before, len(texts) - behind)]
    assert Rows.from_arrow(part).to_list() == part.to_pylist()
    assert Rows.from_arrow(part.cast(pa.binary())).to_list() == part.to_pylist()


def test_a_null_of_arrow_is_an_empty_row():
    assert Rows.from_arrow(pa.array(["é", None, "b"])).to_list() == ["é".encode(), b"", b"b"]


@given(st.data(), st.integers(0, 9))
def test_joined_rows_are_what_each_column_has_end_to_end(data, count):
    texts = st.lists(st.binary(max_size=40), min_size=count, max_size=count)
    width = st.integers(0, 20)
    even = width.flatmap(
        lambda w: st.lists(st.binary(min_size=w, max_size=w), min_size=count, max_size=count)
    )
    kinds = data.draw(st.lists(st.sampled_from(["rows", "even", "matrix", "constant"]), max_size=5))
    columns, expected = [Rows.from_list([b""] * count)], [b""] * count
    for kind in kinds:
        if kind == "constant":
            constant = data.draw(st.binary(max_size=9))
            columns.append(constant)
            values = [constant] * count
        else:
            values = data.draw(texts if kind == "rows" else even)
            rows = Rows.from_list(values)
            columns.append(rows.matrix() if kind == "matrix" else rows)
        expected = [a + b for a, b in zip(expected, values, strict=True)]
    assert joined(*columns).to_list() == expected


def test_columns_of_different_lengths_are_not_joined():
    with pytest.raises(ValueError, match=r"\[1, 2\] rows"):
        joined(Rows.from_list([b"a"]), b"-", Rows.from_list([b"a", b"b"]))


def test_constants_alone_do_not_say_how_many_rows_they_make():
    with pytest.raises(ValueError, match="not joined"):
        joined(b"a", b"b")


def test_a_column_that_is_no_matrix_of_bytes_is_refused():
    with pytest.raises(ValueError, match="two dimensions"):
        joined(np.zeros(3, np.uint8))


@pytest.mark.parametrize(("starts", "lengths"), [([-1], [1]), ([0], [5]), ([4], [1]), ([1], [-1])])
def test_a_row_outside_the_data_is_refused(starts, lengths):
    with pytest.raises(IndexError, match="4 bytes"):
        within(np.zeros(4, np.uint8), np.array(starts), np.array(lengths))


@pytest.mark.parametrize("offsets", [[], [0, 5], [-1, 2], [2, 1, 3]])
def test_offsets_that_are_none_are_refused(offsets):
    with pytest.raises(ValueError, match="offsets"):
        Rows(np.zeros(4, np.uint8), np.array(offsets, np.int64))
