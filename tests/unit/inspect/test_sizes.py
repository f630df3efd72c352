"""Counting how large values are."""

from hypothesis import given
from hypothesis import strategies as st

from statemigrate.inspect import trial as sizes
from statemigrate.inspect.trial import Sizes


@given(st.lists(st.integers(0, 2**33)))
def test_every_size_is_counted_under_the_power_of_two_that_holds_it(noted: list[int]) -> None:
    counting = Sizes()
    for size in noted:
        counting.note(size)
    total, powers = counting.counted()
    assert total == sum(noted)
    assert sum(powers.values()) == len(noted)
    for power, count in powers.items():
        lower = 0 if power == 1 else power // 2 + 1
        assert count == sum(lower <= size <= power for size in noted)


def test_more_sizes_than_are_added_at_once_are_counted_once() -> None:
    counting = Sizes()
    for _ in range(2 * sizes._MANY + 5):
        counting.note(100)
    expected = (100 * (2 * sizes._MANY + 5), {128: 2 * sizes._MANY + 5})
    assert counting.counted() == expected
    assert counting.counted() == expected
