"""Scripts say what becomes of values and keys, and the query goes on with what they made."""

import re

import pytest
import rewritten_code as code
from rewritten_queries import PROVIDER, rewritten, rows_of, run, session_with
from support.new_checkpoints import is_shut

from statemigrate.checkpoint.stores.provider import PROVIDERS
from statemigrate.errors import RewriteError, TransformError
from statemigrate.scripts import ScriptFolder

pytestmark = [pytest.mark.spark, pytest.mark.long]

HEAD = '''"""{0}"""
from statemigrate.formats import Struct

revision = "{0}"
down_revision = None
branch_labels = ("{1}",)
store = "{1}"
'''
TOTALS = 'old = Struct("count BIGINT, sum BIGINT")\n'
LARGEST = (
    TOTALS
    + """new = Struct("count BIGINT, sum BIGINT, max BIGINT")


def upgrade(value):
    return {**value, "max": value["sum"]}
"""
)
DECLARED = (
    "from statemigrate.lenses import add, lens\n"
    + TOTALS
    + 'change = lens(add("max", "BIGINT", 1000))\n'
)
INITIALS = (
    TOTALS
    + """new = old
new_key = Struct("initial STRING")


def rekey(key, value):
    return {"initial": key["k"][:1]}
"""
)
NUMBERS = (
    TOTALS
    + """new = old
new_key = Struct("number DOUBLE")


def rekey(key, value):
    return {"number": float(key["k"])}
"""
)
NUMBERS_IN_TABLES = (
    TOTALS
    + """new = old
new_key = Struct("number DOUBLE")


def upgrade_table(table):
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pc.struct_field(table["key"], "k").combine_chunks().cast(pa.float64())
    keys = pa.StructArray.from_arrays([numbers], ["number"])
    return table.set_column(0, "key", keys)
"""
)
MERGE = """

def merge(first, second):
    return {name: first[name] + second[name] for name in first}
"""
BEFORE = [
    rows_of(*[(f"{'abc'[n % 3]}{n % 7}", n) for n in range(40)]),
    rows_of(*[(f"{'bd'[n % 2]}{n % 5}", n) for n in range(30)]),
]
AFTER = rows_of(*[(f"{'abd'[n % 3]}{n % 4}", n * 10) for n in range(50)])


@pytest.fixture
def scripts(tmp_path):
    def write(text, store="aggregation-0", revision="aaaa00000001"):
        folder = ScriptFolder.create(tmp_path / "migrations")
        (folder.versions / f"{revision}.py").write_text(HEAD.format(revision, store) + text)
        return folder.directory

    return write


def test_a_script_says_where_a_new_column_starts(spark, feed, tmp_path, scripts):
    session = session_with(spark, "rocksdb")
    feed.add(*BEFORE)
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.totals, old)
    folder = scripts(LARGEST)
    made = rewritten(spark, old, new, code.totals_and_largest, migrations=folder)
    assert made.plan.questions == ()
    feed.add(AFTER)
    found = run(session, feed, code.totals_and_largest, new)
    n, total, largest = {}, {}, {}
    for number, batch in enumerate([*BEFORE, AFTER]):
        for row in batch:
            k, v = row["k"], row["v"]
            n[k], total[k] = n.get(k, 0) + 1, total.get(k, 0) + v
            if number == 2:
                sums = [r["v"] for old_batch in BEFORE for r in old_batch if r["k"] == k]
                largest[k] = max(largest.get(k, v), v, *([sum(sums)] if sums else []))
    expected = {f"Row(k={k!r}, n={n[k]}, total={total[k]}, largest={largest[k]})" for k in largest}
    assert set(found[2]) == expected
    # The new checkpoint knows how far its store has come: nothing is left to run.
    assert (
        rewritten(spark, new, tmp_path / "again", migrations=folder).plan.operators[0].change
        == "kept"
    )


@pytest.mark.parametrize("provider", ["rocksdb", "hdfs"])
def test_a_declared_change_is_one_of_columns(spark, feed, tmp_path, scripts, provider):
    session = session_with(spark, provider)
    feed.add(*BEFORE)
    old, new, twin = tmp_path / "old", tmp_path / "new", tmp_path / "twin"
    run(session, feed, code.totals, old)
    run(session, feed, code.totals_and_largest, twin)
    made = rewritten(spark, old, new, code.totals_and_largest, migrations=scripts(DECLARED))
    assert made.plan.questions == ()
    feed.add(AFTER)
    found = run(session, feed, code.totals_and_largest, new)[2]
    wanted = run(session, feed, code.totals_and_largest, twin)[2]
    before = {row["k"] for each in BEFORE for row in each}
    old_keys = {each for each in wanted if any(f"k={key!r}," in each for key in before)}
    assert old_keys
    declared = {re.sub(r"largest=-?\d+", "largest=1000", each) for each in old_keys}
    assert set(found) == declared | (set(wanted) - old_keys)


@pytest.mark.parametrize("provider", ["rocksdb", "hdfs"])
def test_keys_are_changed_and_what_meets_is_merged(spark, feed, tmp_path, scripts, provider):
    session = session_with(spark, provider)
    feed.add(*BEFORE)
    old, new, twin = tmp_path / "old", tmp_path / "new", tmp_path / "twin"
    run(session, feed, code.totals, old)
    run(session, feed, code.totals_of_initials, twin)
    made = rewritten(
        spark, old, new, code.totals_of_initials, migrations=scripts(INITIALS + MERGE), partitions=3
    )
    family = made.report.families[0]
    assert family.read.count - family.merged == family.total.count == 4
    assert family.dropped == 0
    feed.add(AFTER)
    assert run(session, feed, code.totals_of_initials, new) == run(
        session, feed, code.totals_of_initials, twin
    )


def test_what_meets_is_merged_in_the_same_order_wherever_it_was_read(
    spark, feed, tmp_path, scripts
):
    feed.add(*BEFORE)
    run(session_with(spark, "rocksdb"), feed, code.totals, tmp_path / "old")
    folder = scripts(INITIALS + "\n\ndef merge(first, second):\n    return first\n")
    found = []
    for new, provider, partitions in (("a", "rocksdb", 3), ("b", "hdfs", 1)):
        rewritten(
            spark,
            tmp_path / "old",
            tmp_path / new,
            code.totals_of_initials,
            migrations=folder,
            conf={PROVIDER: PROVIDERS[provider].class_name},
            partitions=partitions,
        )
        rows = spark.read.format("statestore").load(str(tmp_path / new)).select("key", "value")
        found.append(sorted(map(repr, rows.collect())))
    assert len(found[0]) == 4
    assert found[0] == found[1]


@pytest.mark.parametrize("script", [NUMBERS, NUMBERS_IN_TABLES], ids=["values", "tables"])
def test_keys_become_numbers_of_which_spark_has_one_zero(spark, feed, tmp_path, scripts, script):
    session = session_with(spark, "rocksdb")
    rows = rows_of(("-0.0", 1), ("0", 2), ("NaN", 3), ("1.5", 5), ("-0.0", 6))
    feed.add(rows, rows[:3])
    old, new, twin = tmp_path / "old", tmp_path / "new", tmp_path / "twin"
    run(session, feed, code.totals, old)
    feed.add(rows_of(("-0.0", 10), ("0.0", 20), ("NaN", 30), ("1.5", 40)))
    found = run(session, feed, code.totals_by_number, twin)
    folder = scripts(script + MERGE)
    made = rewritten(spark, old, new, code.totals_by_number, migrations=folder, partitions=3)
    assert made.report.families[0].total.count == 3
    given = run(session, feed, code.totals_by_number, new)
    assert given == {2: found[2]}


def test_what_meets_without_a_rule_stops_it_and_leaves_no_checkpoint(
    spark, feed, tmp_path, scripts
):
    feed.add(*BEFORE)
    old, new = tmp_path / "old", tmp_path / "new"
    run(session_with(spark, "hdfs"), feed, code.totals, old)
    folder = scripts(INITIALS)
    with pytest.raises(TransformError, match="brings two entries to one key") as caught:
        rewritten(spark, old, new, code.totals_of_initials, migrations=folder)
    assert "write `merge`" in caught.value.next_action
    assert is_shut(new)
    assert not (new / "offsets").exists()
    (folder / "versions" / "aaaa00000001.py").unlink()
    folder = scripts(INITIALS + MERGE)
    made = rewritten(spark, old, new, code.totals_of_initials, migrations=folder)
    assert made.report.families[0].total.count == 4


def test_entries_may_be_several_and_none(spark, feed, tmp_path, scripts):
    session = session_with(spark, "rocksdb")
    feed.add(*BEFORE)
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.totals, old)
    text = (
        TOTALS
        + """new = old
new_key = Struct("region STRING, k STRING")


def rekey(key, value):
    if key["k"].startswith("a"):
        return []
    other = {"region": "r1", "k": key["k"]}
    return [{"region": "r0", "k": key["k"]}, (other, {"count": 7, "sum": 9})]
"""
    )
    made = rewritten(spark, old, new, code.totals_by_region, migrations=scripts(text))
    family = made.report.families[0]
    dropped = len({row["k"] for batch in BEFORE for row in batch if row["k"][0] == "a"})
    assert (family.dropped, family.merged) == (dropped, 0)
    assert family.total.count == 2 * (family.read.count - dropped)
    feed.add(rows_of(("b0", 1)))
    assert set(run(session, feed, code.totals_by_region, new)[2]) == {
        "Row(region='r1', k='b0', n=8, total=10)"
    }


def test_a_script_for_other_code_is_refused(spark, feed, tmp_path, scripts):
    feed.add(*BEFORE)
    old = tmp_path / "old"
    run(session_with(spark, "hdfs"), feed, code.totals, old)
    with pytest.raises(RewriteError, match="the new code keeps another value"):
        rewritten(spark, old, tmp_path / "new", code.totals, migrations=scripts(LARGEST))
