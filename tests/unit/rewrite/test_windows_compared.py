"""Windows in state against those of new code, beside a model that assigns every event by hand."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statemigrate.rewrite.window_columns import (
    ObservedWindows,
    compare_observed,
    compare_sessions,
    compare_windows,
    lost_parts,
)
from statemigrate.rewrite.windows import SessionWindow, TimeWindow, duration

TIMES = range(100, 160)
events_of = st.lists(st.sampled_from(TIMES), min_size=1, max_size=12)


@st.composite
def windows(draw, longest=12):
    length = draw(st.integers(1, longest))
    slide = draw(st.integers(1, length))
    return TimeWindow(length, slide, draw(st.integers(-slide, slide)))


def assigned(window, event):
    """Every window of the definition that an event is in, by trying all there are."""
    starts = range(-400, 400)
    grid = [each for each in starts if (each - window.offset) % window.slide == 0]
    return [each for each in grid if each <= event < each + window.length]


def state_of(window, events, watermark):
    """The rows that a query has left: of each window that is open how many events are in it."""
    found = {}
    for event in events:
        for start in assigned(window, event):
            if start + window.length > watermark:
                key = (start, start + window.length)
                found[key] = found.get(key, 0) + 1
    return found


def sessions_of(gap, events):
    found = []
    for event in sorted(events):
        if found and event < found[-1][-1] + gap:
            found[-1].append(event)
        else:
            found.append([event])
    return {(each[0], each[-1] + gap): len(each) for each in found}


def compared(old, new, events, watermark):
    return compare_windows(ObservedWindows.of(state_of(old, events, watermark)), new, watermark)


@given(windows(), st.integers(-50, 50))
def test_an_event_is_in_the_windows_of_the_definition(window, event):
    assert window.starts_of(event) == assigned(window, event)


@given(windows(), events_of, st.integers(0, 170))
def test_nothing_is_said_of_what_the_same_code_has_left(window, events, watermark):
    verdict = compared(window, window, events, watermark).verdict
    is_left = bool(state_of(window, events, watermark))
    assert verdict == ("same" if is_left else "unseen" if watermark else "same")


@given(windows(), windows(), events_of, st.integers(0, 170))
@example(TimeWindow(10, 10), TimeWindow(10, 5), [100, 107], 90)
def test_what_begins_after_a_change_is_as_a_twin_has_it(old, new, events, watermark):
    found = compared(old, new, events, watermark)
    rewritten, twin = state_of(old, events, watermark), state_of(new, events, watermark)
    wrong = [key for key in {*rewritten, *twin} if rewritten.get(key) != twin.get(key)]
    assert all(start < found.right_from or not new.has(start, end) for start, end in wrong)
    if found.verdict == "other":
        assert found.others == sum(not new.has(*key) for key in rewritten)
        assert found.other_rows == sum(n for key, n in rewritten.items() if not new.has(*key))


@given(st.integers(1, 6), st.integers(2, 6), events_of, st.data())
def test_a_window_made_sliding_is_seen_while_a_window_has_more_than_a_slide_to_go(
    slide, times, events, data
):
    tumbling, sliding = TimeWindow(slide * times, slide * times), TimeWindow(slide * times, slide)
    end = max(end for _, end in state_of(tumbling, events, 0))
    watermark = data.draw(st.integers(0, end - slide - 1))
    assert compared(tumbling, sliding, events, watermark).verdict == "missing"


@given(windows(), windows(), events_of)
def test_another_length_is_seen_wherever_a_window_is_left(old, new, events):
    if old.length != new.length:
        assert compared(old, new, events, 1).verdict == "other"


@given(st.integers(1, 6), st.integers(1, 5), events_of, st.integers(0, 170))
def test_longer_windows_of_shorter_ones_are_whole_but_for_those_named(
    length, times, events, watermark
):
    parts, whole = TimeWindow(length, length), TimeWindow(length * times, length * times)
    left = state_of(parts, events, watermark)
    merged = {}
    for (start, _), n in left.items():
        (first,) = whole.starts_of(start)
        key = (first, first + whole.length)
        merged[key] = merged.get(key, 0) + n
    twin = state_of(whole, events, watermark)
    whole_from = lost_parts(ObservedWindows.of(left), whole, watermark)
    wrong = [key for key in {*merged, *twin} if merged.get(key) != twin.get(key)]
    assert all(whole_from is not None and start < whole_from for start, _ in wrong)


@given(st.integers(1, 12), st.integers(1, 12), events_of)
def test_a_session_shorter_than_the_new_gap_proves_a_shorter_old_one_and_nothing_else_does(
    old, new, events
):
    found = ObservedWindows.of(sessions_of(old, events))
    verdict = compare_sessions(found, SessionWindow(new), 1).verdict
    if old == new:
        assert verdict in ("same", "unknown")
    if verdict == "other":
        assert old < new
    has_lone = any(n == 1 for n in sessions_of(old, events).values())
    if old < new and has_lone:
        assert verdict == "other"
    if has_lone and old > new:
        assert verdict == "unknown"


@given(st.integers(1, 12), st.integers(1, 12), events_of)
def test_sessions_that_begin_after_a_change_are_as_a_twin_has_them(old, new, events):
    found = compare_sessions(
        ObservedWindows.of(sessions_of(old, events)), SessionWindow(new), max(events)
    )
    later = [found.right_from, found.right_from + 1, found.right_from + new]
    twin = sessions_of(new, [*events, *later])
    own = sessions_of(new, later)
    assert {key: n for key, n in twin.items() if key[0] >= found.right_from} == own


def test_an_empty_state_says_nothing_of_its_windows():
    nothing = ObservedWindows()
    assert compare_windows(nothing, TimeWindow(10, 10), 0).verdict == "same"
    assert compare_windows(nothing, TimeWindow(10, 10), 1).verdict == "unseen"
    assert compare_sessions(nothing, SessionWindow(10), 1).verdict == "unseen"
    assert compare_observed(nothing, nothing, 1).verdict == "unseen"


def test_a_gap_that_is_an_expression_is_never_taken_for_the_old_one():
    found = ObservedWindows.of({(0, 10): 1})
    assert compare_sessions(found, SessionWindow(None), 0).verdict == "unknown"


@given(windows(), windows(), events_of, events_of)
def test_states_are_alike_where_lengths_and_places_are(old, new, events, others):
    before, after = (
        ObservedWindows.of(state_of(window, found, 0))
        for window, found in ((old, events), (new, others))
    )
    places = [
        {(end - start, start % (end - start)) for start, end in state_of(window, found, 0)}
        for window, found in ((old, events), (new, others))
    ]
    is_same = places[0] == places[1]
    expected = "other" if old.length != new.length else "same" if is_same else "unknown"
    assert compare_observed(before, after, 0).verdict == expected


@pytest.mark.parametrize(
    ("micros", "said"),
    [
        (3_600_000_000, "1 hour"),
        (90_000_000, "90 seconds"),
        (172_800_000_000, "2 days"),
        (1_500, "1,500 microseconds"),
    ],
)
def test_a_length_is_said_in_its_largest_whole_unit(micros, said):
    assert duration(micros) == said
