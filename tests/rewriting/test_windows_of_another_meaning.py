"""The types of the state are the same, and the windows in its keys are not."""

import json
from datetime import UTC, datetime

import pytest
import windowed_code as code
from fed_queries import Feed
from rewritten_queries import (
    NewCode,
    accepting,
    rewrite_checkpoint,
    rewritten,
    rows_of,
    run,
    scripts_in,
    session_with,
)
from support.new_checkpoints import is_shut

from statemigrate.commands.rewrite import verify
from statemigrate.errors import RewriteError

pytestmark = pytest.mark.spark

SECOND = 1_000_000
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * SECOND
NAME, FUNCTIONS = "aggregation-0.window:meaning", "aggregation-0:functions"
BEFORE = [
    rows_of(("a", 1, 5), ("b", 2, 70), ("a", 3, 75)),
    rows_of(("a", 4, 100), ("b", 5, 119), ("a", 6, 130), ("c", 7, 175)),
]
"""The watermark is at 2:25: of minutes the third is there."""
AFTER = [
    rows_of(("a", 8, 178), ("b", 9, 190), ("c", 10, 235)),
    rows_of(("a", 11, 245), ("b", 12, 350), ("b", 13, 355)),
    rows_of(("a", 14, 600)),
]


def fed(folder, *batches):
    feed = Feed(folder / "input")
    feed.add(*batches)
    return feed


@pytest.fixture(scope="module")
def minutes(spark, tmp_path_factory):
    """A checkpoint with windows of a minute, and its input, which goes on."""
    folder = tmp_path_factory.mktemp("minutes")
    feed = fed(folder, *BEFORE)
    run(session_with(spark, "rocksdb"), feed, code.minutes, folder / "old", "append")
    feed.add(*AFTER)
    return folder / "old", feed


def found_for(spark, old, wanted, tmp_path):
    made = rewritten(spark, old, tmp_path / "new", wanted, apply=False)
    (found,) = made.plan.windows
    return made, found, asked_of(made)


def asked_of(made):
    return [each.name for each in made.plan.questions if each.kind == "window"]


def given_out(spark, feed, wanted, checkpoint):
    """The start of the window and the row, of each row that is given out."""
    rows = set()

    def collect(frame, _):
        for row in frame.selectExpr(
            "unix_micros(window.start) AS start", "k", "n", "total"
        ).collect():
            rows.add(tuple(row))

    writer = wanted(feed.stream(spark)).writeStream.outputMode("append").foreachBatch(collect)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination(180)
    assert not query.isActive
    return rows


CASES = [
    ("minutes_again", "same", 0),
    pytest.param("sliding", "missing", 0, marks=pytest.mark.rewrites),
    pytest.param("thirds", "other", 2, marks=pytest.mark.rewrites),
    pytest.param("two_minutes", "other", 2, marks=pytest.mark.rewrites),
    pytest.param("moved", "other", 2, marks=pytest.mark.rewrites),
]


@pytest.mark.parametrize(("wanted", "verdict", "others"), CASES)
def test_windows_that_the_new_code_does_not_make_are_a_question(
    spark, minutes, tmp_path, wanted, verdict, others
):
    made, found, asked = found_for(spark, minutes[0], getattr(code, wanted), tmp_path)
    assert (found.verdict, found.lengths) == (verdict, (60 * SECOND,))
    assert (found.rows, found.other_rows) == (2, others)
    assert asked == ([] if verdict == "same" else [NAME])
    (shown,) = made.document["operators"][0]["windows"]
    assert shown["verdict"] == verdict
    assert json.dumps(shown["new"]) == json.dumps(found.new.to_json())


@pytest.mark.rewrites
def test_windows_kept_knowingly_are_right_from_where_the_plan_says(spark, minutes, tmp_path):
    old, feed = minutes
    new = tmp_path / "new"
    with pytest.raises(RewriteError) as open_:
        rewritten(spark, old, new, code.thirds)
    assert open_.value.data["questions"] == [NAME, FUNCTIONS]
    assert not (new / "metadata").exists()
    made = rewritten(spark, old, new, code.thirds, answers=accepting(NAME, FUNCTIONS))
    (found,) = made.plan.windows
    session = session_with(spark, "rocksdb")
    after = given_out(session, feed, code.thirds, new)
    twin = given_out(session, feed, code.thirds, tmp_path / "twin")
    assert {each for each in after if each[0] >= found.right_from} == {
        each for each in twin if each[0] >= found.right_from
    }
    assert {each for each in after if each[0] >= found.right_from}
    assert after - twin, "old windows are given out as they are"
    compared = verify(old, new, spark=spark)
    assert compared.problems == ()
    assert found.others == 1


BASELINE = """
branch_labels = ("aggregation-0",)
store = "aggregation-0"
old = None
new = Struct("count BIGINT, sum BIGINT")
new_key = Struct("window STRUCT<start: TIMESTAMP, end: TIMESTAMP>, k STRING")
"""
WIDER = """
from statemigrate.windows import window_around

down_revision = "aaaa00000001"
branch_labels = None
store = "aggregation-0"
old = Struct("count BIGINT, sum BIGINT")
new = old
new_key = Struct("window STRUCT<start: TIMESTAMP, end: TIMESTAMP>, k STRING")


def rekey(key, value):
    return {**key, "window": window_around(key["window"], %s)}


def merge(first, second):
    return {name: first[name] + second[name] for name in first}
"""


@pytest.mark.rewrites
def test_longer_windows_are_merged_of_whole_shorter_ones(spark, minutes, tmp_path):
    old, feed = minutes
    new = tmp_path / "new"
    scripts = scripts_in(tmp_path / "own", baseline=BASELINE, wider=WIDER % "minutes=2")
    asked = rewritten(spark, old, new, code.two_minutes, migrations=scripts, apply=False)
    # The third minute is there, the watermark is in it, and the fourth begins another window.
    assert asked_of(asked) == []
    made = rewritten(spark, old, new, code.two_minutes, migrations=scripts)
    (found,) = made.plan.windows
    assert (found.is_scripted, found.left, found.right_from) == (True, 0, None)
    session = session_with(spark, "rocksdb")
    after = given_out(session, feed, code.two_minutes, new)
    twin = given_out(session, feed, code.two_minutes, tmp_path / "twin")
    since = min(start for start, *_ in after)
    assert after == {each for each in twin if each[0] >= since}
    compared = verify(old, new, migrations=scripts, spark=spark)
    assert compared.problems == ()


@pytest.mark.rewrites
def test_a_window_that_lacks_parts_is_a_question_and_other_windows_are_refused(
    spark, minutes, tmp_path
):
    old, _ = minutes
    long = scripts_in(tmp_path / "own", baseline=BASELINE, wider=WIDER % "minutes=5")
    asked = rewritten(spark, old, tmp_path / "new", code.five_minutes, migrations=long, apply=False)
    assert asked_of(asked) == [NAME]
    assert asked.plan.windows[0].right_from == START + 300 * SECOND
    wrong = scripts_in(tmp_path / "wrong", baseline=BASELINE, wider=WIDER % "minutes=4")
    with pytest.raises(RewriteError, match="windows in window that the new code does not make"):
        rewritten(
            spark,
            old,
            tmp_path / "new",
            code.five_minutes,
            migrations=wrong,
            answers=accepting(NAME),
        )
    assert is_shut(tmp_path / "new")


@pytest.fixture(scope="module")
def sessions(spark, tmp_path_factory):
    """A checkpoint with two sessions of a gap of 20 seconds, one of a single event."""
    folder = tmp_path_factory.mktemp("sessions")
    feed = fed(folder, rows_of(("a", 1, 100), ("a", 2, 110), ("b", 3, 105)))
    run(session_with(spark, "rocksdb"), feed, code.sessions, folder / "old", "append")
    return folder / "old"


@pytest.mark.parametrize(
    ("wanted", "verdict"),
    [
        pytest.param("sessions", "same", marks=pytest.mark.rewrites),
        ("longer_sessions", "other"),
        pytest.param("shorter_sessions", "unknown", marks=pytest.mark.rewrites),
        pytest.param("sessions_of_each", "unknown", marks=pytest.mark.rewrites),
    ],
)
def test_another_gap_is_a_question_where_it_shows_or_cannot(
    spark, sessions, tmp_path, wanted, verdict
):
    _, found, asked = found_for(spark, sessions, getattr(code, wanted), tmp_path)
    assert (found.verdict, found.rows, found.lengths) == (verdict, 2, (20 * SECOND, 30 * SECOND))
    assert asked == ([] if verdict == "same" else ["session-window-0.session_window:meaning"])


@pytest.mark.rewrites
def test_a_checkpoint_of_the_new_code_says_only_what_is_in_it(spark, minutes, tmp_path):
    old, _ = minutes
    session = session_with(spark, "rocksdb")
    for name, verdict in (("minutes", "same"), ("thirds", "other")):
        feed = fed(tmp_path / name, *BEFORE)
        run(session, feed, getattr(code, name), tmp_path / name / "like", "append")
        like = NewCode(like=tmp_path / name / "like")
        made = rewrite_checkpoint(old, tmp_path / "new", target=like, spark=spark, migrations=None)
        assert [each.verdict for each in made.plan.windows] == [verdict]


@pytest.mark.rewrites
def test_the_old_code_says_that_a_key_is_computed_from_something_else(spark, tmp_path):
    feed = fed(tmp_path, rows_of(("a", 1), ("b", 2)))
    run(session_with(spark, "rocksdb"), feed, code.names, tmp_path / "old")
    question = ["aggregation-0.k:computed"]
    for before, wanted, computed in (
        (code.names, code.upper_names, question),
        (code.names, code.names_again, []),
        # Two functions of one name.
        (code.upper_by_python, code.lower_by_python, question),
        (code.upper_by_python, code.upper_by_python, []),
    ):
        made = rewritten(
            spark,
            tmp_path / "old",
            tmp_path / "new",
            wanted,
            before=before,
            apply=False,
        )
        assert [each.name for each in made.plan.questions] == computed


@pytest.mark.rewrites
def test_the_old_code_says_that_windows_are_the_same(spark, minutes, tmp_path):
    old, _ = minutes
    for before, verdict in ((code.minutes_again, "same"), (code.thirds, "changed")):
        made = rewritten(spark, old, tmp_path / "new", code.minutes, before=before, apply=False)
        assert [each.verdict for each in made.plan.windows] == [verdict]
