"""One variable becomes two, or two become one, and the new code goes on with what they had."""

import pytest
import split_code as code
from rewritten_queries import (
    accepting,
    rewritten,
    rows_of,
    run,
    run_once,
    scripts_in,
    session_with,
)

from statemigrate.commands.rewrite import verify
from statemigrate.errors import RewriteError, ScriptError, TransformError

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

ROWS = [(f"k{n % 5}", n) for n in range(12)], [("k1", 100), ("k9", 1)]
LATER = [("k1", 7), ("new", 8)], [("k9", 9), ("new", 1)]


@pytest.fixture
def session(spark):
    return session_with(spark, "rocksdb")


def begun(session, feed, tmp_path, *functions):
    """Each function's checkpoint after the same rows."""
    feed.add(*(rows_of(*rows) for rows in ROWS))
    places = [tmp_path / function.__name__ for function in functions]
    for function, place in zip(functions, places, strict=True):
        run(session, feed, function, place)
    return places


def go_on_alike(session, feed, function, new, twin_of, twin):
    """Both give the same over further batches, with a start for each."""
    for rows in LATER:
        feed.add(rows_of(*rows))
        given = run(session, feed, function, new)
        assert sum(map(len, given.values())) > 0
        assert given == run(session, feed, twin_of, twin)


def script(store, text):
    return f'branch_labels = ("{store}",)\nstore = "{store}"\n{text}'


def test_the_fields_of_one_variable_go_into_two(spark, session, feed, tmp_path):
    (old,), new = begun(session, feed, tmp_path, code.together), tmp_path / "new"
    take = {"count": "totals", "sum": "totals"}
    asked = rewritten(spark, old, new, code.apart, apply=False, answers=accepting(take=take))
    assert [each.name for each in asked.plan.questions] == ["count.total", "sum.n"]
    accepted = accepting("count.total", "sum.n", take=take)
    made = rewritten(spark, old, new, code.apart, answers=accepted, partitions=3)
    assert {each.name: (each.read.count, each.total.count) for each in made.report.families} == {
        "count": (6, 6),
        "sum": (6, 6),
    }
    assert made.report.gone == {}
    assert verify(old, new, spark=spark).problems == ()
    go_on_alike(session, feed, code.apart, new, code.together, old)


COUNT = """
old = Struct("n BIGINT, total BIGINT")
new = Struct("threes INT, rest INT")


def upgrade(value):
    return {"threes": value["n"] // 3, "rest": value["n"] % 3}
"""
SUM = """
old = Struct("n BIGINT, total BIGINT")
new = Struct("text STRING")
new_key = Struct("k STRING, even BOOLEAN")


def rekey(key, value):
    return {"k": key["k"], "even": value["total"] % 2 == 0}


def upgrade(value):
    return {"text": str(value["total"])}
"""


def test_one_variable_becomes_two_by_a_script_of_each(spark, session, feed, tmp_path):
    (old,), new = begun(session, feed, tmp_path, code.together), tmp_path / "new"
    take = accepting(take={"count": "totals", "sum": "totals"})
    texts = {"count": script("count", COUNT), "sum": script("sum", SUM)}
    folder = scripts_in(tmp_path / "scripts", **texts)
    made = rewritten(spark, old, new, code.converted, answers=take, migrations=folder, partitions=3)
    changes = {each.name: each.change for each in made.report.families if each.read}
    assert changes == {"count": "values", "sum": "kind"}
    assert set(made.report.scripts_of_new) == {"count", "sum"}
    assert verify(old, new, spark=spark, migrations=folder).problems == ()
    untried = verify(old, new, spark=spark, migrations=None).untried
    assert [each.split()[0] for each in untried] == ["count", "sum"]
    (folder / "versions" / "count.py").write_text(
        (folder / "versions" / "count.py").read_text().replace("% 3", "% 2")
    )
    (edited,) = verify(old, new, spark=spark, migrations=folder).problems
    assert edited.startswith("count made again")
    assert "was edited since" in edited
    go_on_alike(session, feed, code.converted, new, code.together, old)


ONLY_N = """
old = Struct("n BIGINT, total BIGINT")
new = Struct("n BIGINT")


def upgrade(value):
    return {"n": value["n"]}
"""


def test_one_of_two_keeps_the_name_and_each_has_its_script(spark, session, feed, tmp_path):
    (old,), new = begun(session, feed, tmp_path, code.together), tmp_path / "new"
    only_total = ONLY_N.replace('"n BIGINT")', '"total BIGINT")').replace('"n"', '"total"')
    texts = {"totals": script("totals", ONLY_N), "sum": script("sum", only_total)}
    folder = scripts_in(tmp_path / "scripts", **texts)
    take = accepting(take={"sum": "totals"})
    rewritten(spark, old, new, code.slimmer, answers=take, migrations=folder)
    assert verify(old, new, spark=spark, migrations=folder).problems == ()
    go_on_alike(session, feed, code.slimmer, new, code.together, old)


def test_two_variables_of_other_fields_become_one(spark, session, feed, tmp_path):
    old, twin = begun(session, feed, tmp_path, code.sides, code.one_side)
    new, take = tmp_path / "new", {"totals": "count,sum"}
    asked = rewritten(spark, old, new, code.one_side, apply=False, answers=accepting(take=take))
    assert [each.text.partition(":")[0] for each in asked.plan.questions] == [
        "totals.total is new, and rows of count have nothing of it",
        "totals.n is new, and rows of sum have nothing of it",
    ]
    answers = accepting("totals.total", "totals.n", take=take)
    made = rewritten(spark, old, new, code.one_side, answers=answers, partitions=3)
    (report,) = (each for each in made.report.families if each.read)
    read = {name: each.count for name, each in report.parts.items()}
    met = sum(read.values()) - report.total.count
    assert (set(read), report.change, report.merged, report.dropped) == (
        {"count", "sum"},
        "joined",
        met,
        0,
    )
    assert 0 < met < report.total.count == 6
    assert verify(old, new, spark=spark).problems == ()
    go_on_alike(session, feed, code.one_side, new, code.one_side, twin)


BOTH = """
old = Struct("n BIGINT, last BIGINT")
new = Struct("n BIGINT, last BIGINT")


def merge(first, second):
    # The first is of the variable that was named first, whose entries have no last.
    assert first["last"] == -1
    return {"n": first["n"] + second["n"], "last": second["last"]}
"""
REGIONS = """
old = Struct("n BIGINT")
new = Struct("n BIGINT")


def merge(first, second):
    return {"n": first["n"] + second["n"]}
"""
TAKE = {"both": "even, odd", "all": "odds,evens", "regions": "at,too"}


def model(rows, start=-1):
    """What `code.One` has of rows that `code.Two` has kept: by key n, last, values, regions."""
    found = {}
    for k in sorted({k for k, _ in rows}):
        values = [v for of, v in rows if of == k]
        even, odd = ([v for v in values if v % 2 == side] for side in (0, 1))
        regions = sorted({(f"r{v % 3}", sum(v % 3 == w % 3 for w in values)) for v in values})
        found[k] = len(values), odd[-1] if odd else start, odd + even, regions
    return found


def test_values_lists_and_maps_become_one_by_scripts(spark, session, feed, tmp_path):
    (old,), new = begun(session, feed, tmp_path, code.two), tmp_path / "new"
    texts = {"both": script("both", BOTH), "regions": script("regions", REGIONS)}
    folder = scripts_in(tmp_path / "scripts", **texts)
    answers = accepting(take=TAKE, start={"both.last": -1})
    with pytest.raises(RewriteError, match="even and odd become both") as caught:
        rewritten(spark, old, new, code.one, answers=answers, apply=False)
    assert "--take both.n=even.n" in caught.value.next_action
    faulty = {"both": texts["both"].replace("def merge", "def other")}
    wrong = scripts_in(tmp_path / "faulty", **faulty)
    with pytest.raises(ScriptError):
        rewritten(spark, old, new, code.one, answers=answers, migrations=wrong, apply=False)
    without = BOTH.replace("def merge(first, second)", "def upgrade(value)").partition("    #")[0]
    alone = {**texts, "both": script("both", f"{without}    return value\n")}
    unmerged = scripts_in(tmp_path / "unmerged", **alone)
    with pytest.raises(TransformError, match="no `merge` says what becomes of them"):
        rewritten(spark, old, tmp_path / "none", code.one, answers=answers, migrations=unmerged)
    rewritten(spark, old, new, code.one, answers=answers, migrations=folder, partitions=3)
    assert verify(old, new, spark=spark, migrations=folder).problems == ()
    expected = model([row for rows in ROWS for row in rows])
    feed.add(rows_of(*[(k, 50) for k in expected]))
    (given,) = run(session, feed, code.one, new).values()
    assert set(given) == {
        f"Row(k='{k}', n={n + 1}, last=50, values='{[*values, 50]}', regions=\"{regions}\")"
        for k, (n, _, values, regions) in expected.items()
    }
    held = session.read.format("statestore").option("stateVarName", "both").load(str(new))
    assert {row.key.k: row.value.n for row in held.collect()} == {
        k: n + 1 for k, (n, *_) in expected.items()
    }


def test_of_two_that_become_one_the_later_time_counts(spark, session, feed, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for rows in ([("a", 2), ("b", 1)], [("a", 3), ("c", 4)]):
        feed.add(rows_of(*rows))
        run_once(session, feed, code.two_that_expire, old)
    folder = scripts_in(tmp_path / "scripts", both=script("both", BOTH))
    take = {"both": "even,odd", "all": "odds,evens", "regions": "at"}
    said = {"both.last": -1, "both:expires": "coalesce(expires, 4000000000000)"}
    answers = accepting("too", take=take, start=said)
    rewritten(spark, old, new, code.one_that_expires, answers=answers, migrations=folder)
    assert verify(old, new, spark=spark, migrations=folder).problems == ()
    times = [
        {row.key.k: row.value.ttlExpirationMs for row in held.collect()}
        for held in (
            session.read.format("statestore").option("stateVarName", name).load(str(place))
            for name, place in (("even", old), ("both", new))
        )
    ]
    assert times[1] == {"a": 4_000_000_000_000, "b": 4_000_000_000_000, "c": times[0]["c"]}
