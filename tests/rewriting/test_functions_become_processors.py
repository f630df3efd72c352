"""A function on groups becomes a processor, and that one on rows one on frames of pandas."""

import crossing_code as code
import pytest
from rewritten_code import groups
from rewritten_queries import accepting, rewritten, rows_of, run, scripts_in, session_with

from statemigrate import migrated
from statemigrate.commands.rewrite import verify
from statemigrate.errors import RewriteError

pytestmark = [pytest.mark.spark, pytest.mark.long]


def batch(number):
    """Rows of a minute; one key is late by a little, one by too much, and one is seen once."""
    start = number * 45
    near = [(f"k{n % 4}", n * number, start + n * 2) for n in range(1, 9)]
    late = [("k2", 7, max(0, start - 8)), ("k1", 1000, 0)]
    return rows_of(*near, *late, (f"once{number}", number, start + 20))


def test_state_and_timeouts_of_groups_go_on_as_a_variable_and_timers(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    feed.add(batch(1), batch(2))
    old, new, other = tmp_path / "old", tmp_path / "new", tmp_path / "other"
    run(session, feed, code.counted_groups, old)
    answers = accepting("kept", "groups-0.timeouts")
    made = rewritten(spark, old, new, code.counted_rows, answers=answers, partitions=3)
    assert [each.change for each in made.plan.operators] == ["kind"]
    timers = [each for each in made.report.families if each.name.startswith("transform")]
    assert {each.total.count for each in timers} == {6}
    assert verify(old, new, spark=spark).problems == ()
    feed.add(batch(3))
    assert run(session, feed, code.counted_rows, new) == run(
        session, feed, code.counted_groups, old
    )
    rewritten(spark, new, other, code.counted_in_pandas)
    for number in (4, 5):
        feed.add(batch(number))
        expected = run(session, feed, code.counted_groups, old)
        assert run(session, feed, code.counted_rows, new) == expected
        assert run(session, feed, code.counted_in_pandas, other) == expected
        assert any("n=-" in row for rows in expected.values() for row in rows)


SCRIPT = """branch_labels = ("groups-0",)
store = "groups-0"
old = Struct("groupState STRUCT<n: BIGINT, total: BIGINT>, timeoutTimestamp BIGINT")
new = Struct("said STRING")


def upgrade(value):
    state = value["groupState"]
    return {"said": f"{state['n']} made {state['total']} by {value['timeoutTimestamp']}"}
"""
OF_THE_STRUCT = """branch_labels = ("groups-0",)
store = "groups-0"
old = Struct("n BIGINT, total BIGINT")
new = Struct("said STRING")


def upgrade(value):
    return {"said": f"{value['n']} made {value['total']}"}
"""


def test_the_struct_of_groups_goes_through_scripts(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    feed.add(rows_of(("a", 5, 10), ("a", 6, 20), ("b", 1, 30)))
    old = tmp_path / "old"
    run(session, feed, code.counted_groups, old)
    with pytest.raises(RewriteError, match="are open") as caught:
        rewritten(spark, old, tmp_path / "open", code.texts, migrations=None)
    assert "groups-0.timeouts" in str(caught.value)
    answers = accepting("text", "groups-0.timeouts")
    feed.add(rows_of(("a", 0, 31), ("b", 0, 32), ("c", 0, 33)))
    said = {}
    for name, script in (("whole", SCRIPT), ("struct", OF_THE_STRUCT)):
        folder = scripts_in(tmp_path / f"scripts-{name}", groups=script)
        rewritten(spark, old, tmp_path / name, code.texts, answers=answers, migrations=folder)
        given = run(session, feed, code.texts, tmp_path / name)
        said[name] = {row.split("said=")[1] for rows in given.values() for row in rows}
    due = 1_767_225_600_000 + 60_500
    assert said["whole"] == {
        f"'2 made 11 by {due + 20_000}')",
        f"'1 made 1 by {due + 30_000}')",
        "'nothing')",
    }
    assert said["struct"] == {"'2 made 11')", "'1 made 1')", "'nothing')"}


OF_SUMS = """branch_labels = ("sums",)
store = "sums"
old = None
new = Struct("n BIGINT, total BIGINT")
"""
INTO_ENVELOPES = """branch_labels = ("groups-0",)
store = "groups-0"
old = Struct("groupState STRUCT<n: BIGINT, total: BIGINT>")
new = Struct("groupState STRUCT<revision: STRING, payload: BINARY, timeout: BIGINT>")
held = Struct("n BIGINT, total BIGINT")


def upgrade(value):
    payload = held.encode(value["groupState"])
    return {"groupState": {"revision": "aaaa00000001", "payload": payload, "timeout": None}}
"""


def test_a_script_puts_the_state_of_groups_into_envelopes(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    feed.add(rows_of(("a", 5), ("a", 6), ("b", 1)))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, groups, old)
    folder = scripts_in(tmp_path / "scripts", sums=OF_SUMS, groups=INTO_ENVELOPES)
    rewritten(spark, old, new, code.in_envelopes, migrations=folder, partitions=3)
    live = migrated(code.summed, store="sums", migrations=folder, checkpoint=str(new))
    for rows in ((("a", 1), ("c", 2)), (("b", 3), ("a", 4))):
        feed.add(rows_of(*rows))
        expected = run(session, feed, groups, old)
        assert run(session, feed, lambda events: code.in_envelopes(events, live), new) == expected
