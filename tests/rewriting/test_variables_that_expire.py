"""Variables with a time to live: kept, put on and taken off."""

import kinds_code as code
import pytest
from rewritten_queries import (
    RewriteAnswers,
    accepting,
    raw_state,
    rewritten,
    rows_of,
    run_once,
    session_with,
)

from statemigrate.commands.rewrite import verify
from statemigrate.errors import RewriteError

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]


def test_values_expire_when_they_did_to_the_byte(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    old, new = tmp_path / "old", tmp_path / "new"
    for rows in ([("a", 1), ("a", 2), ("b", 3)], [("a", 4), ("c", 5), ("c", 5)]):
        feed.add(rows_of(*rows))
        run_once(session, feed, code.expiring, old)
    made = rewritten(spark, old, new, code.expiring, partitions=3)
    assert [each.change for each in made.plan.operators] == ["kept"]
    state = raw_state(session, new)
    assert state == raw_state(session, old)
    assert {name for name, _, _ in state} >= {"$ttl_count", "$ttl_last", "$min_last", "$count_last"}
    assert verify(old, new, spark=spark).problems == ()
    for rows in ([("a", 7), ("d", 8)], [("d", 9), ("b", 1)]):
        feed.add(rows_of(*rows))
        assert run_once(session, feed, code.expiring, new) == run_once(
            session, feed, code.expiring, old
        )


def test_a_time_to_live_is_put_on_and_taken_off(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    old, new, back = tmp_path / "old", tmp_path / "new", tmp_path / "back"
    for rows in ([("a", 1), ("b", 2), ("c", 3)], [("a", 4), ("b", 5), ("c", 6)]):
        feed.add(rows_of(*rows))
        run_once(session, feed, code.kept, old)
    with pytest.raises(RewriteError, match="are open") as caught:
        rewritten(spark, old, new, code.expiring)
    assert "when do they?" in str(caught.value)
    begins = "batch_time + 3600000"
    dead_are = f"CASE key.k WHEN 'a' THEN batch_time - 1 ELSE {begins} END"
    times = {"count": dead_are, "last": begins, "regions": 4_000_000_000_000}
    said = RewriteAnswers(start={f"{name}:expires": when for name, when in times.items()})
    wrong = RewriteAnswers(start={**said.start, "last:expires": "value.nothing + 1"})
    with pytest.raises(RewriteError, match="values of last expire"):
        rewritten(spark, old, tmp_path / "wrong", code.expiring, answers=wrong)
    rewritten(spark, old, new, code.expiring, answers=said, partitions=3)
    assert verify(old, new, spark=spark).problems == ()
    accepted = accepting("count:expires", "last:expires", "regions:expires")
    made = rewritten(spark, new, back, code.kept, answers=accepted)
    assert {each.name: each.dropped for each in made.report.families if each.dropped} == {
        "count": 1
    }
    assert verify(new, back, spark=spark).problems == ()
    feed.add(rows_of(("a", 7), ("b", 8)))
    expected = {"a": "n=1, last='[1, 4, 7]'", "b": "n=3, last='[2, 5, 8]'"}
    for function, place in ((code.expiring, new), (code.kept, back)):
        given = run_once(session, feed, function, place)
        assert {row.split("'")[1]: row.split("k='")[1][3:26].strip(", ") for row in given} == (
            expected
        )
    feed.add(rows_of(("c", 9)))
    (given,) = run_once(session, feed, code.expiring, new)
    assert given == "Row(k='c', n=3, last='[3, 6, 9]', regions=\"[('r0', 3)]\")"
