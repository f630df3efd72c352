"""Which source goes on with which: by name, by place, as given, and what is asked."""

import json

import pytest
from support.spark_checkpoints import aggregation

from statemigrate.checkpoint.logs.entries import OffsetEntry
from statemigrate.checkpoint.logs.offsets import Offsets
from statemigrate.commands.rewrite import rewrite_checkpoint
from statemigrate.errors import RewriteError
from statemigrate.rewrite.questions import Asked, RewriteAnswers
from statemigrate.rewrite.sources import AskedOfSources, NewSources, RewriteOptions, plan_sources

TWO = Offsets(False, ('{"logOffset":3}', '{"topic":{"0":7}}'))
NAMED = Offsets(True, ('a:{"logOffset":3}', "b:-"))


def planned(old, new, *accepted, **wanted):
    """The sources with the old ones they go on with, the lines of the log, the open questions."""
    asked = Asked(RewriteAnswers(frozenset(accepted), by_name=True))
    plan = plan_sources(old, new, AskedOfSources(**wanted), asked)
    lines = plan.entry(OffsetEntry(old, 0, 0)).offsets.lines
    pairs = {each.name: each.old for each in plan.sources}
    return pairs, lines, [each.name for each in asked.open], plan.gone


def test_as_many_go_on_by_their_places():
    new = NewSources(False, ("0", "1"))
    for each in (new, None):
        assert planned(TWO, each) == ({"0": "0", "1": "1"}, TWO.lines, [], ())


def test_where_their_number_changes_each_is_asked_about():
    three = NewSources(False, ("0", "1", "2"), {"2": "returns"})
    pairs, lines, open_, _ = planned(TWO, three)
    assert pairs == {"0": "0", "1": "1", "2": None}
    assert lines == (*TWO.lines, "-")
    assert open_ == ["source-0", "source-1", "source-2"]
    assert planned(TWO, three, *open_)[2] == []
    one = NewSources(False, ("0",))
    assert planned(TWO, one)[2:] == (["source-0", "source-1"], ("1",))


def test_what_is_told_is_not_asked():
    new = NewSources(False, ("0", "1"), {"0": "orders", "1": "returns"})
    found = planned(
        TWO, new, given={"0": None, "1": "orders"}, offsets={"returns": {"topic": {"0": 5}}}
    )
    assert found == ({"0": "1", "1": None}, (TWO.lines[1], '{"topic":{"0":5}}'), [], ("0",))
    moved = NewSources(False, ("0",))
    assert planned(TWO, moved, given={"0": None, "1": "0"})[1] == (TWO.lines[1],)


def test_names_are_certain_whatever_their_order():
    new = NewSources(True, ("c", "a"))
    pairs, lines, open_, gone = planned(NAMED, new)
    assert pairs == {"c": None, "a": "a"}
    assert lines == ("c:-", 'a:{"logOffset":3}')
    assert (open_, gone) == (["source-b", "source-c"], ("b",))


def test_an_offset_may_be_taken_away_and_files_may_be_named():
    assert planned(TWO, None, offsets={"1": None})[1] == (TWO.lines[0], "-")
    new = NewSources(False, ("0", "1", "2"))
    told = {"0": "0", "1": "1"}
    assert planned(TWO, new, given=told, taken={"2": "here"})[1:3] == (
        (*TWO.lines, '{"logOffset":0}'),
        [],
    )


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"given": {"0": "9"}}, "has no source 9"),
        ({"given": {"0": "1", "1": "1"}}, "has no source 1"),
        ({"given": {"9": "0"}}, "has no source old 9"),
        ({"offsets": {"9": {}}}, "has no source 9"),
        ({"taken": {"0": "here"}}, "has a log of the files"),
        (
            {"given": {"1": None, "0": "0"}, "offsets": {"1": {"logOffset": 2}}},
            "has no log of files",
        ),
    ],
    ids=["new", "twice", "old", "offset", "taken", "files"],
)
def test_what_does_not_fit_is_refused(wanted, problem):
    with pytest.raises(RewriteError, match=problem):
        planned(TWO, None, **wanted)


def line_of(old, offset):
    """The line of source 0 in the new log, where that offset is asked for."""
    options = RewriteOptions(offsets={"0": offset})
    plan = rewrite_checkpoint(old, old.parent / "new", options=options, migrations=None).plan
    return plan.new.offsets[plan.new.batch].offsets.lines


@pytest.mark.parametrize("offset", [-1, 0, 3, None])
def test_a_source_of_files_goes_to_any_offset_of_its_log(tmp_path, offset):
    said = None if offset is None else {"logOffset": offset}
    expected = "-" if offset is None else json.dumps(said, separators=(",", ":"))
    assert line_of(aggregation(tmp_path / "old"), said) == (expected,)


@pytest.mark.parametrize("offset", [{"logOffset": 4}, {"logOffset": -2}, {"orders": {"0": 3}}, 2])
def test_an_offset_that_the_log_of_its_files_does_not_have_is_refused(tmp_path, offset):
    with pytest.raises(RewriteError, match="source 0 has no such offset") as caught:
        line_of(aggregation(tmp_path / "old"), offset)
    assert caught.value.expected == '{"logOffset":N} with N from -1 to 3'
    assert caught.value.found == f"--offsets 0={json.dumps(offset, separators=(',', ':'))}"
    assert not (tmp_path / "new").exists()


def test_an_offset_from_before_the_log_was_made_compact_is_refused(tmp_path):
    old = aggregation(tmp_path / "old")
    (old / "sources/0/2").rename(old / "sources/0/2.compact")
    for number in (0, 1):
        (old / f"sources/0/{number}").unlink()
    with pytest.raises(RewriteError, match="source 0 has no such offset") as caught:
        line_of(old, {"logOffset": 1})
    assert caught.value.expected == '{"logOffset":N} with N -1, or from 2 to 3'
    assert line_of(old, {"logOffset": 2}) == ('{"logOffset":2}',)
