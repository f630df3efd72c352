"""A part of the suite, and all parts together."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.parts import modules_of_part, part

COUNTS = st.dictionaries(st.text("abc/_.", min_size=1), st.integers(1, 60), max_size=40)


@given(COUNTS, st.integers(1, 7))
def test_every_module_is_in_exactly_one_part(counts, parts):
    chosen = [modules_of_part(counts, number, parts) for number in range(1, parts + 1)]
    assert sorted(module for each in chosen for module in each) == sorted(counts)


@given(COUNTS, st.integers(1, 7))
def test_parts_differ_by_one_module_at_the_most(counts, parts):
    sizes = [
        sum(counts[module] for module in modules_of_part(counts, number, parts))
        for number in range(1, parts + 1)
    ]
    assert max(sizes) - min(sizes) <= max(counts.values(), default=0)


def test_a_part_is_written_as_its_number_and_how_many_there_are():
    assert part("2/3") == (2, 3)


@pytest.mark.parametrize("text", ["", "2", "0/3", "4/3", "a/3", "-1/3", "1/0", "1/3/2"])
def test_what_is_no_part_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        part(text)
