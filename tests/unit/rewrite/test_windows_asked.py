"""What a plan asks of windows in the state, and what the answers are bound to."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewrite_shapes import aggregation, buffers, checkpoint, struct

from statemigrate.errors import RewriteError
from statemigrate.rewrite.meaning_questions import key_questions, window_questions
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.rewrite_plan import make_plan
from statemigrate.rewrite.window_columns import (
    NewWindows,
    ObservedWindows,
    changed_keys,
    find_windows,
)
from statemigrate.rewrite.windows import (
    ChangedKey,
    KeyMeaning,
    SessionWindow,
    TimeWindow,
    WindowFinding,
)
from statemigrate.windows import window_around

MINUTE = 60_000_000
WINDOW = "window STRUCT<start: TIMESTAMP, end: TIMESTAMP>"
NAME = "aggregation-0.window:meaning"


def found(new, rows, watermark=0, key=f"{WINDOW}, k STRING", observed=None, was=None):
    """What is found where the state has ``rows`` by windows, and the new code makes ``new``."""
    shape = aggregation(struct(key), buffers(("count", "long")))
    plan = make_plan(checkpoint(shape, watermark=watermark // 1_000), [shape])
    names = [each["name"] for each in shape.stores[0].families[0].key["fields"]]

    def meanings(window):
        made = [KeyMeaning(each, each, window if each == "window" else None) for each in names]
        return {} if window is None else {0: tuple(made)}

    return list(
        find_windows(
            plan,
            NewWindows(
                meanings(new), None if observed is None else lambda *_: observed, meanings(was)
            ),
            lambda *_: ObservedWindows.of(rows),
        )
    )


def state(length, *starts):
    return {(start, start + length): 1 for start in starts}


@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        (TimeWindow(10 * MINUTE, 10 * MINUTE), "same"),
        (TimeWindow(5 * MINUTE, 5 * MINUTE), "other"),
        (TimeWindow(60 * MINUTE, 60 * MINUTE), "other"),
        (TimeWindow(10 * MINUTE, 5 * MINUTE), "missing"),
        (TimeWindow(10 * MINUTE, 10 * MINUTE, MINUTE), "other"),
    ],
)
def test_another_window_of_the_same_type_is_asked_about_before_anything(new, verdict):
    (each,) = found(new, state(10 * MINUTE, 0, 20 * MINUTE))
    assert each.verdict == verdict
    assert [q.name for q in window_questions([each])] == ([] if verdict == "same" else [NAME])


def test_what_is_accepted_is_bound_to_what_was_asked_and_not_to_counts():
    hour = TimeWindow(60 * MINUTE, 60 * MINUTE)
    one, more = (
        window_questions(found(hour, state(10 * MINUTE, *starts)))[0]
        for starts in ((0,), (0, MINUTE * 10))
    )
    other = window_questions(found(hour, state(20 * MINUTE, 0)))[0]
    assert one.acceptance == more.acceptance != other.acceptance
    assert one.facts != more.facts
    shape = aggregation(struct(f"{WINDOW}, k STRING"), buffers(("count", "long")))
    answers = RewriteAnswers(frozenset({one.acceptance}))
    plan = make_plan(checkpoint(shape), [shape], answers=answers, further=[more])
    assert plan.questions == ()
    with pytest.raises(RewriteError, match="belongs to another question"):
        make_plan(checkpoint(shape), [shape], answers=answers, further=[other])


def test_shorter_windows_may_be_merged_by_a_script_and_longer_ones_may_not():
    def answers(new):
        return window_questions(found(new, state(10 * MINUTE, 0)))[0].otherwise

    begin_anew = "--operator 0=gone"
    assert answers(TimeWindow(60 * MINUTE, 60 * MINUTE)) == (
        "a script of aggregation-0 with rekey and merge",
        begin_anew,
    )
    assert answers(TimeWindow(5 * MINUTE, 5 * MINUTE)) == (begin_anew,)
    assert answers(TimeWindow(60 * MINUTE, 30 * MINUTE)) == (begin_anew,)


def test_a_struct_of_two_times_that_is_no_window_is_left_alone():
    assert found(None, state(10 * MINUTE, 0)) == []
    assert found(TimeWindow(1, 1), {}, key="k STRING, window STRING") == []


def test_an_empty_state_is_asked_about_where_there_were_events():
    hour = TimeWindow(60 * MINUTE, 60 * MINUTE)
    assert [each.verdict for each in found(hour, {})] == ["same"]
    (each,) = found(hour, {}, watermark=MINUTE)
    assert each.verdict == "unseen"
    assert [q.proposal for q in window_questions([each])] == ["the same"]


def test_the_old_code_says_what_an_empty_state_and_one_that_looks_alike_do_not():
    hour, minute = TimeWindow(60 * MINUTE, 60 * MINUTE), TimeWindow(MINUTE, MINUTE)
    (each,) = found(hour, {}, watermark=MINUTE, was=hour)
    assert each.verdict == "same"
    (each,) = found(hour, {}, watermark=MINUTE, was=minute)
    assert (each.verdict, each.old) == ("changed", minute)
    slides = TimeWindow(60 * MINUTE, 30 * MINUTE)
    assert found(slides, state(60 * MINUTE, 0), 59 * MINUTE)[0].verdict == "same"
    (each,) = found(slides, state(60 * MINUTE, 0), 59 * MINUTE, was=hour)
    assert each.verdict == "changed"
    assert [q.name for q in window_questions([each])] == [NAME]
    # What is in the state was left by other code than is given.
    assert found(hour, state(MINUTE, 0), was=hour)[0].verdict == "other"


def test_a_key_of_one_name_and_type_is_asked_about_where_the_old_code_computed_another():
    shape = aggregation(struct("k STRING, n INT"), buffers(("count", "long")))
    plan = make_plan(checkpoint(shape), [shape])
    old = {0: (KeyMeaning("k", "name"), KeyMeaning("n", "n"))}
    new = {0: (KeyMeaning("k", "Upper(name)"), KeyMeaning("n", "n"))}
    changed = list(changed_keys(plan, NewWindows(new, before=old)))
    assert changed == [ChangedKey("aggregation-0", "k", "name", "Upper(name)")]
    assert [each.name for each in key_questions(changed)] == ["aggregation-0.k:computed"]
    assert list(changed_keys(plan, NewWindows(new))) == []
    assert list(changed_keys(plan, NewWindows(old, before=old))) == []


@given(
    st.one_of(
        st.none(),
        st.builds(SessionWindow, st.one_of(st.none(), st.integers(1, 10**12))),
        st.builds(TimeWindow, st.integers(5, 10**12), st.integers(1, 5), st.integers(-9, 9)),
    ),
    st.lists(st.integers(1, 10**12), max_size=3),
    st.one_of(st.none(), st.integers()),
)
def test_what_was_found_comes_back_from_the_record(new, lengths, right_from):
    each = WindowFinding(
        "s", "w", 0, "other", new, lengths=tuple(lengths), others=2, right_from=right_from
    )
    assert WindowFinding.from_json(json.loads(json.dumps(each.to_json()))) == each


@given(
    st.datetimes(datetime(1960, 1, 1), datetime(2100, 1, 1)),
    st.integers(1, 10_000),
    st.integers(1, 100),
    st.integers(-500, 500),
    st.booleans(),
)
def test_a_part_lies_in_the_window_around_it_or_is_refused(start, seconds, times, offset, aware):
    start = start.replace(tzinfo=UTC) if aware else start
    window = {"start": start, "end": start + timedelta(seconds=seconds)}
    whole = timedelta(seconds=seconds * times)
    epoch = datetime(1970, 1, 1, tzinfo=UTC if aware else None)
    micros = (start - epoch) // timedelta(microseconds=1)
    model = TimeWindow(seconds * times * 10**6, seconds * times * 10**6, offset * 10**6)
    (first,) = model.starts_of(micros)
    if micros + seconds * 10**6 > first + model.length:
        with pytest.raises(ValueError, match="does not lie in one"):
            window_around(window, seconds=whole.total_seconds(), offset=timedelta(seconds=offset))
    else:
        made = window_around(
            window, seconds=whole.total_seconds(), offset=timedelta(seconds=offset)
        )
        begin = epoch + timedelta(microseconds=first)
        assert made == {"start": begin, "end": begin + whole}
