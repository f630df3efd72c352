"""Variables that become lists, maps or values, and keys of lists and maps that change."""

import kinds_code as code
import pytest
from rewritten_queries import rewritten, rows_of, run, run_once, scripts_in, session_with

from statemigrate import dry_run
from statemigrate.commands.rewrite import verify
from statemigrate.errors import RewriteError

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

ROWS = [("a1", 3), ("a2", 1), ("a1", 5), ("b1", 7), ("a2", 3), ("a1", 4)]


@pytest.fixture
def stored(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    feed.add(rows_of(*ROWS[:3]))
    run_once(session, feed, code.timeless, tmp_path / "old")
    feed.add(rows_of(*ROWS[3:]))
    run_once(session, feed, code.timeless, tmp_path / "old")
    return session


def script(store, text):
    return f'branch_labels = ("{store}",)\nstore = "{store}"\n{text}'


TO_MAP = """
old = Struct("v BIGINT")
new = Struct("at INT")
new_key = Struct("k STRING, v BIGINT")


def upgrade(value):
    return {"at": value["v"] * 10}


def rekey(key, value):
    return {"k": key["k"], "v": value["v"]}
"""
TO_VALUE = """
old = Struct("n BIGINT")
new = Struct("n BIGINT")
new_key = Struct("k STRING")


def rekey(key, value):
    return {"k": key["k"]}


def merge(first, second):
    return {"n": first["n"] + second["n"]}
"""


def test_a_value_is_then_a_list_and_a_list_a_map_and_a_map_a_value(spark, feed, tmp_path, stored):
    old, new = tmp_path / "old", tmp_path / "new"
    with pytest.raises(RewriteError, match="last becomes state of another kind"):
        rewritten(spark, old, new, code.turned)
    folder = scripts_in(
        tmp_path / "scripts", last=script("last", TO_MAP), regions=script("regions", TO_VALUE)
    )
    made = rewritten(spark, old, new, code.turned, migrations=folder, partitions=3)
    kinds = {f.name: f.change for o in made.plan.operators for f in o.families if f.sources}
    assert kinds == {"count": "kind", "last": "kind", "regions": "kind"}
    assert verify(old, new, spark=spark, migrations=folder).problems == ()
    feed.add(rows_of(("a1", 9), ("b1", 7)))
    feed.add(rows_of(("a2", 8)))
    given = run(stored, feed, code.turned, new)
    assert {row for rows in given.values() for row in rows} == {
        "Row(k='a1', count='[3, 9]', last='[(3, 30), (4, 40), (5, 50), (9, -1)]', regions=3)",
        "Row(k='b1', count='[1, 7]', last='[(7, -1)]', regions=1)",
        "Row(k='a2', count='[2, 8]', last='[(1, 10), (3, 30), (8, -1)]', regions=2)",
    }


VALUE_TO_MAP = """
old = Struct("n BIGINT")
new = Struct("n BIGINT")
new_key = Struct("initial STRING, of STRING")


def rekey(key, value):
    return {"initial": key["k"][:1], "of": key["k"]}
"""
LIST_TO_VALUE = """
old = Struct("v BIGINT")
new = Struct("v BIGINT")
new_key = Struct("initial STRING")


def rekey(key, value):
    return {"initial": key["k"][:1]}


def merge(first, second):
    return max(first, second, key=lambda value: value["v"])
"""
MAP_TO_LIST = """
old = Struct("n BIGINT")
new = Struct("region STRING, n BIGINT")
new_key = Struct("initial STRING")


def rekey(key, value):
    if key["k"] == "a1":
        yield {"initial": "a"}, {"region": key["region"], "n": value["n"]}
        yield {"initial": "a"}, {"region": "again", "n": value["n"]}
"""


def test_a_value_is_then_a_map_and_a_list_a_value_and_a_map_a_list(spark, feed, tmp_path, stored):
    old, new = tmp_path / "old", tmp_path / "new"
    folder = scripts_in(
        tmp_path / "scripts",
        count=script("count", VALUE_TO_MAP),
        last=script("last", LIST_TO_VALUE),
        regions=script("regions", MAP_TO_LIST),
    )
    rewritten(spark, old, new, code.turned_back, migrations=folder, partitions=3)
    assert verify(old, new, spark=spark, migrations=folder).problems == ()
    feed.add(rows_of(("a7", 9), ("b7", 7)))
    given = run(stored, feed, code.turned_back, new)
    rows = {row for rows in given.values() for row in rows}
    assert "Row(k='b', count=\"[('b1', 1)]\", last=7, regions='[]')" in rows
    (of_a,) = (row for row in rows if "k='a'" in row)
    assert "count=\"[('a1', 3), ('a2', 2)]\", last=5" in of_a
    pairs = of_a.split('regions="[')[1]
    for region, n in (("r0", 1), ("r1", 1), ("r2", 1)):
        assert f"('{region}', {n}), ('again', {n})" in pairs


OF_VALUES = """
old = Struct("n BIGINT")
new = Struct("n BIGINT")
new_key = Struct("initial STRING")


def rekey(key, value):
    return {"initial": key["k"][:1]}


def merge(first, second):
    return {"n": first["n"] + second["n"]}
"""
OF_LISTS = """
old = Struct("v BIGINT")
new = Struct("v BIGINT")
new_key = Struct("initial STRING")


def rekey(key, value):
    return [{"initial": key["k"][:1]}] if value["v"] != 5 else []
"""
OF_MAPS = """
old = Struct("n BIGINT")
new = Struct("n BIGINT")
new_key = Struct("initial STRING, big STRING")


def rekey(key, value):
    return {"initial": key["k"][:1], "big": key["region"].upper()}


def merge(first, second):
    return {"n": first["n"] + second["n"]}
"""


def test_keys_of_values_lists_and_maps_change(spark, feed, tmp_path, stored):
    old, new = tmp_path / "old", tmp_path / "new"
    folder = scripts_in(
        tmp_path / "scripts",
        count=script("count", OF_VALUES),
        last=script("last", OF_LISTS),
        regions=script("regions", OF_MAPS),
    )
    met = dry_run("regions", old, migrations=folder, spark=spark).meetings
    assert (met.entries, met.keys, met.met, met.merges) == (6, 4, 2, True)
    tried = dry_run("last", old, migrations=folder, spark=spark)
    met = tried.meetings
    assert (met.entries, met.keys, met.met, met.gather) == (5, 2, 1, True)
    assert met.examples == (('{"initial": "a"}', 4),)
    assert tried.in_order
    rewritten(spark, old, new, code.regrouped, migrations=folder, partitions=3)
    assert verify(old, new, spark=spark, migrations=folder).problems == ()
    feed.add(rows_of(("a9", 9), ("b9", 2)))
    given = run(stored, feed, code.regrouped, new)
    rows = {row for rows in given.values() for row in rows}
    assert "Row(k='b', n=1, last='[7, 2]', regions=\"[('R1', 1)]\")" in rows
    (of_a,) = (row for row in rows if "k='a'" in row)
    assert "n=5" in of_a
    assert "regions=\"[('R0', 2), ('R1', 2), ('R2', 1)]\"" in of_a
    last = of_a.split("last='")[1].split("'")[0]
    assert last in ("[3, 4, 1, 3, 9]", "[1, 3, 3, 4, 9]")


TENFOLD = """
old = Struct("{0} BIGINT")
new = old


def upgrade_table(table):
    import pyarrow as pa

    rows = [{{"{0}": each["{0}"] * 10}} for each in table["value"].to_pylist()]
    values = pa.array(rows, pa.struct([("{0}", pa.int64())]))
    return table.set_column(table.schema.get_field_index("value"), "value", values)
"""


@pytest.mark.parametrize("function", [code.timeless, code.expiring])
def test_tables_have_the_elements_of_lists_and_the_entries_of_maps(spark, feed, tmp_path, function):
    session = session_with(spark, "rocksdb")
    old, new = tmp_path / "old", tmp_path / "new"
    feed.add(rows_of(("a1", 3), ("a1", 5), ("b1", 7), ("a1", 3)))
    run_once(session, feed, function, old)
    fields = {"count": "n", "last": "v", "regions": "n"}
    texts = {name: script(name, TENFOLD.format(field)) for name, field in fields.items()}
    folder = scripts_in(tmp_path / "scripts", **texts)
    rewritten(spark, old, new, function, migrations=folder, partitions=3)
    assert verify(old, new, spark=spark, migrations=folder).problems == ()
    feed.add(rows_of(("a1", 9), ("b1", 8)))
    assert set(run_once(session, feed, function, new)) == {
        "Row(k='a1', n=31, last='[30, 30, 50, 9]', regions=\"[('r0', 21), ('r2', 10)]\")",
        "Row(k='b1', n=11, last='[70, 8]', regions=\"[('r1', 10), ('r2', 1)]\")",
    }
