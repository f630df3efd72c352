"""The sum of rows: the same rows in any order and in any pieces, and no others."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.xxhash64 import sum_of_rows

ROWS = st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40)), max_size=20)


def summed(rows):
    return sum_of_rows(
        Rows.from_list([key for key, _ in rows]), Rows.from_list([value for _, value in rows])
    )


@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 20))
def test_order_and_pieces_do_not_count(rows, drawn: random.Random, place):
    shuffled = drawn.sample(rows, len(rows))
    pieces = summed(rows[:place]) + summed(rows[place:])
    assert summed(shuffled) == summed(rows) == pieces % (1 << 64)


@given(ROWS, ROWS)
def test_other_rows_have_another_sum(one, other):
    assert (summed(one) == summed(other)) == (sorted(one) == sorted(other))


def test_a_byte_does_not_move_from_a_key_to_its_value():
    assert len({summed([(b"ab", b"c")]), summed([(b"a", b"bc")]), summed([(b"c", b"ab")])}) == 3
    assert summed([(b"a", b"1"), (b"b", b"2")]) != summed([(b"a", b"2"), (b"b", b"1")])
