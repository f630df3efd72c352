"""Which source goes on with which: by name, by place, as told, and what is asked."""

import pytest

from statemigrate.checkpoint.logs.entries import OffsetEntry
from statemigrate.checkpoint.logs.offsets import Offsets
from statemigrate.errors import RewriteError
from statemigrate.rewrite.plan.asking.ask import Asked
from statemigrate.rewrite.plan.asking.questions import RewriteAnswers
from statemigrate.rewrite.plan.sources import AskedOfSources, NewSources, plan_sources

TWO = Offsets(False, ('{"logOffset":3}', '{"topic":{"0":7}}'))
NAMED = Offsets(True, ('a:{"logOffset":3}', "b:-"))


def planned(old, new, *accepted, **wanted):
    """The sources with the old ones they go on with, the lines of the log, the open questions."""
    asked = Asked(RewriteAnswers(frozenset(accepted)))
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
        TWO, new, told={"0": None, "1": "orders"}, offsets={"returns": {"topic": {"0": 5}}}
    )
    assert found == ({"0": "1", "1": None}, (TWO.lines[1], '{"topic":{"0":5}}'), [], ("0",))
    moved = NewSources(False, ("0",))
    assert planned(TWO, moved, told={"0": None, "1": "0"})[1] == (TWO.lines[1],)


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
    assert planned(TWO, new, told=told, taken={"2": "here"})[1:3] == (
        (*TWO.lines, '{"logOffset":0}'),
        [],
    )


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"told": {"0": "9"}}, "has no source 9"),
        ({"told": {"0": "1", "1": "1"}}, "has no source 1"),
        ({"told": {"9": "0"}}, "has no source old 9"),
        ({"offsets": {"9": {}}}, "has no source 9"),
        ({"taken": {"0": "here"}}, "has a log of the files"),
        (
            {"told": {"1": None, "0": "0"}, "offsets": {"1": {"logOffset": 2}}},
            "has no log of files",
        ),
    ],
    ids=["new", "twice", "old", "offset", "taken", "files"],
)
def test_what_does_not_fit_is_refused(wanted, problem):
    with pytest.raises(RewriteError, match=problem):
        planned(TWO, None, **wanted)
