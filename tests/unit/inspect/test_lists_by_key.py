"""The elements of Spark's list state, put together by their keys."""

import datetime as dt

from statemigrate.state.spark import lists

NAN = float("nan")
FIRST, SECOND = (dt.datetime(2025, 11, 2, 1, 30, fold=fold) for fold in (0, 1))


def test_the_elements_under_a_key_that_equals_nothing_are_one_list():
    made = [((float("nan"),), 1), ((float("nan"),), 2), ((0.5,), 3)]
    assert [values for _, values in lists(iter(made))] == [[1, 2], [3]]


def test_the_two_times_of_a_repeated_hour_keep_a_list_each():
    found = list(lists(iter([((FIRST,), 1), ((SECOND,), 2), ((SECOND,), 3)])))
    assert [(key[0].fold, values) for key, values in found] == [(0, [1]), (1, [2, 3])]
