"""The timers of a page's keys against plain sets, across pages that are written and read."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from statemigrate.pages.columns import PageId
from statemigrate.pages.deployed_pages import PageTimers
from statemigrate.pages.page import Page

PLACE = PageId(4, 1, b"k" * 16)
KEYS = [b"\x02a\x00", b"\x02b\x00"]
moments = st.sampled_from([-(2**63), -1, 0, 5, 6, 2**63 - 1])
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["register", "delete"]), st.sampled_from(KEYS), moments),
        st.just(("reread",)),
    ),
    max_size=12,
)


@given(steps=steps, now=moments)
def test_timers_are_what_sets_are_whatever_the_order(steps: Any, now: int) -> None:
    model: set[tuple[int, bytes]] = set()
    timers, page = PageTimers(), Page(PLACE)
    timers.turn(page)
    for name, *arguments in steps:
        if name == "reread":
            page = Page(PLACE, page.written())
            timers.turn(page)
            continue
        key, moment = arguments
        getattr(timers, name)(key, moment)
        model = model | {(moment, key)} if name == "register" else model - {(moment, key)}
        assert timers.of(key) == sorted(at for at, each in model if each == key)
    assert timers.earliest() == min((at for at, _ in model), default=None)
    assert timers.expired(now) == sorted(each for each in model if each[0] <= now)
    assert (page.written() is None) is (not model)


def test_before_the_first_page_there_is_none() -> None:
    assert PageTimers().earliest() is None
    assert PageTimers().expired(2**62) == []
