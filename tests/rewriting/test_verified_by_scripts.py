"""Verifying makes the new rows once more: what is not what it was then is seen."""

import pytest
import rewritten_code as code
from rewritten_queries import accepting, rewritten, rows_of, run, session_with

from statemigrate.commands.rewrite import verify
from statemigrate.scripts import ScriptFolder

pytestmark = [pytest.mark.spark, pytest.mark.long]

SCRIPT = """'''One row an initial.'''
import itertools

from statemigrate.formats import Struct

revision = "aaaa00000001"
down_revision = None
branch_labels = ("aggregation-0",)
store = "aggregation-0"
old = Struct("count BIGINT, sum BIGINT")
new = old
new_key = Struct("initial STRING")
CHANCE = {}


def upgrade(value):
    return value


def rekey(key, value):
    return {{"initial": key["k"][:1]}}


def merge(first, second):
    return {{name: first[name] + second[name] for name in first}}
"""
PLAIN = SCRIPT.format("None")
BEFORE = rows_of(*[(f"{'abc'[n % 3]}{n % 7}", n) for n in range(40)])


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    """Two checkpoints, and the folder of the scripts between them."""
    from rewritten_queries import Feed

    top = tmp_path_factory.mktemp("verified")
    feed = Feed(top / "input")
    feed.add(BEFORE[:20], BEFORE[20:])
    run(session_with(spark, "hdfs"), feed, code.totals, top / "old")
    folder = ScriptFolder.create(top / "migrations")
    script = folder.versions / "initials.py"
    script.write_text(PLAIN)
    rewritten(
        spark,
        top / "old",
        top / "new",
        code.totals_of_initials,
        migrations=folder.directory,
        partitions=3,
    )
    return top, script


def verified(spark, made, text=PLAIN):
    top, script = made
    script.write_text(text)
    return verify(top / "old", top / "new", migrations=top / "migrations", spark=spark)


def test_the_same_scripts_make_the_same_rows(spark, made):
    found = verified(spark, made)
    assert (found.problems, found.untried) == ((), ())
    (again,) = [each for each in found.fine if "made again" in each]
    assert again.startswith(
        "aggregation-0 made again from the old rows, by its scripts to revision aaaa00000001: "
        f"3 rows, checksum {found.report.families[0].total.text}"
    )


def test_a_script_that_was_edited_is_seen_by_what_it_makes(spark, made):
    found = verified(spark, made, PLAIN.replace("return value", 'return {**value, "count": 0}'))
    (problem,) = found.problems
    assert problem.endswith("the script of revision aaaa00000001 was edited since")
    assert f"written were 3 rows, checksum {found.report.families[0].total.text}" in problem


def test_an_edit_that_changes_nothing_is_told_and_fine(spark, made):
    found = verified(spark, made, PLAIN.replace("return value", "return dict(value)"))
    assert found.problems == ()
    assert any(each.endswith("aaaa00000001 was edited since") for each in found.fine)


def test_a_script_that_leads_elsewhere_is_told_with_what_was_expected(spark, made):
    found = verified(spark, made, PLAIN.replace("new = old", 'new = Struct("count BIGINT")'))
    (problem,) = found.problems
    assert "the new code keeps another value than its scripts lead to" in problem


def test_a_script_that_fails_now_is_told_with_the_failure(spark, made):
    found = verified(spark, made, PLAIN.replace("return value", "return None"))
    (problem,) = found.problems
    assert "cannot be made again from the old rows" in problem
    assert "None; is a `return` missing?" in problem


def test_without_the_scripts_it_is_said_that_nothing_was_made_again(spark, made):
    top, script = made
    none = verify(top / "old", top / "new", migrations=None, spark=spark)
    assert none.problems == ()
    assert none.untried == (
        "aggregation-0 was not made again from the old rows: there is no folder of scripts here; "
        "name it with --migrations",
    )
    script.unlink()
    gone = verify(top / "old", top / "new", migrations=top / "migrations", spark=spark)
    assert gone.untried == (
        "aggregation-0 was not made again from the old rows: the folder of scripts has none of "
        "aggregation-0",
    )


def test_a_script_that_gives_another_result_each_time_is_seen(spark, made, tmp_path):
    top, script = made
    script.write_text(
        SCRIPT.format("itertools.count(__import__('time').time_ns() // 10**6)").replace(
            "return value", 'return {**value, "count": next(CHANCE)}'
        )
    )
    rewritten(
        spark,
        top / "old",
        tmp_path / "new",
        code.totals_of_initials,
        migrations=top / "migrations",
    )
    found = verify(top / "old", tmp_path / "new", migrations=top / "migrations", spark=spark)
    (problem,) = found.problems
    assert problem.endswith("so one of them gives another result each time")


def test_starts_and_sources_of_fields_are_those_that_were_said(spark, made, tmp_path):
    top, _ = made
    rewritten(
        spark,
        top / "old",
        tmp_path / "new",
        code.totals_and_largest,
        before=code.totals,
        answers=accepting(start={"aggregation-0.max": 7}),
    )
    found = verify(top / "old", tmp_path / "new", migrations=None, spark=spark)
    assert (found.problems, found.untried) == ((), ())
    assert any(each.startswith("aggregation-0 made again") for each in found.fine)
