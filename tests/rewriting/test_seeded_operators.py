"""State of every operator from tables: the query goes on as the one whose state is in them."""

import kinds_code as kinds
import pytest
import rewritten_code as code
from pyspark.sql import functions as F  # noqa: N812
from rewritten_queries import Feed, rows_of, run, run_once, scripts_in, session_with
from seeding_code import write_json
from variables_code import alarms, variables

from statemigrate.checkpoint.shape import describe
from statemigrate.commands.new_code import NewCode
from statemigrate.commands.rewrite import verify
from statemigrate.commands.seed import seed
from statemigrate.errors import RewriteError
from statemigrate.files import LocalFiles
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

SEEN = rows_of(*[(f"k{n % 5}", n % 4, 100 + n) for n in range(30)])
LATER = [
    rows_of(("k1", 1, 110), ("k2", 7, 160), ("k9", 2, 170)),
    rows_of(("k1", 1, 250), ("k3", 3, 140), ("k9", 2, 260)),
]


def goes_on(session, feeds, new, twin, function, mode):
    """The next batches of both, a start for each."""
    for rows in LATER:
        for feed in feeds:
            feed.add(rows)
        given = list(run(session, feeds, function, new, mode).values())
        assert given == list(run(session, feeds, function, twin, mode).values())
        assert sum(map(len, given)) > 0 or mode == "append"


def seeds(session, new, probe, tables, feeds, watermark=None, said=None, **answers):
    taken = {str(n): str(feed.folder) for n, feed in enumerate(feeds)}
    made = seed(
        new,
        tables,
        target=NewCode(like=probe),
        options=RewriteOptions(3, watermark=watermark, taken=taken),
        answers=RewriteAnswers(by_name=True, **answers),
        apply=True,
        **(said or {}),
        spark=session,
    )
    assert verify(None, new, spark=session).problems == ()
    return made


def as_text(session, place, to, **columns):
    """A table of which these columns are others, in SQL."""
    table = session.read.parquet(place)
    table.selectExpr(*(f"{sql} AS {name}" for name, sql in columns.items())).write.parquet(str(to))
    return str(to)


def state_of(session, checkpoint, to, *columns, **options):
    """State of a twin as a table."""
    reader = session.read.format("statestore").options(**options)
    reader.load(str(checkpoint)).select(*columns).write.parquet(str(to))
    return str(to)


CASES = {
    "windows": (code.windows, "append", ("key.*", "value.*")),
    "distinct": (code.distinct, "append", ("key.*",)),
    "distinct for a while": (code.distinct_for_a_while, "append", ("key.*", "value.*")),
    "sessions": (
        code.sessions,
        "append",
        ("key.*", "value.session_window", "value.count", "value.sum"),
    ),
    "groups": (code.groups, "update", ("key.*", "value.groupState.*")),
}


@pytest.mark.parametrize("case", list(CASES))
def test_an_operator_begins_with_the_state_of_a_table(spark, feed, tmp_path, case):
    function, mode, columns = CASES[case]
    session = session_with(spark, "rocksdb")
    twin, new = tmp_path / "twin", tmp_path / "new"
    feed.add(SEEN)
    run(session, feed, function, twin, mode)
    table = state_of(session, twin, tmp_path / "table", *columns)
    shape = describe(LocalFiles(twin))
    watermark = shape.commits[shape.batch].watermark
    made = seeds(session, new, twin, table, [feed], watermark)
    assert made.report.families[0].total.count > 3
    goes_on(session, [feed], new, twin, function, mode)


def test_both_sides_of_a_join_begin_with_rows(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    twin, new, others = tmp_path / "twin", tmp_path / "new", Feed(tmp_path / "others")
    feed.add(SEEN)
    others.add(SEEN)
    run(session, [feed, others], code.pairs, twin, "append")
    sides = {}
    for side in ("left", "right"):
        columns = ("key.field0", "value.*")
        sides[f"join-0.{side}"] = state_of(
            session, twin, tmp_path / side, *columns, storeName=f"{side}-keyWithIndexToValue"
        )
    made = seeds(session, new, twin, sides, [feed, others], 0)
    assert [each.total.count for each in made.report.families] == [5, 30, 5, 30]
    goes_on(session, [feed, others], new, twin, code.pairs, "append")


def variable_tables(session, twin, tmp_path):
    """The variables of a twin as tables."""
    count = state_of(session, twin, tmp_path / "n", "key.*", "value.*", stateVarName="count")
    regions = state_of(
        session,
        twin,
        tmp_path / "regions",
        "key.*",
        "user_map_key.*",
        "user_map_value.*",
        stateVarName="regions",
    )
    rows = session.read.format("statestore").option("stateVarName", "last")
    rows = rows.option("flattenCollectionTypes", "false").load(str(twin))
    rows.select("key.*", F.col("list_value").alias("last")).write.parquet(str(tmp_path / "last"))
    return {"count": count, "regions": regions, "last": str(tmp_path / "last")}


def test_variables_begin_with_values_lists_and_maps(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    twin, new = tmp_path / "twin", tmp_path / "new"
    feed.add(SEEN)
    run(session, feed, variables, twin)
    made = seeds(session, new, twin, variable_tables(session, twin, tmp_path), [feed])
    assert {each.name: each.total.count for each in made.report.families} == {
        "count": 5,
        "last": 5,
        "regions": 15,
    }
    goes_on(session, [feed], new, twin, variables, "update")


BASELINE = """
old = None
new = Struct("said STRING")
new_key = Struct("name STRING")
"""
COUNTED = """
old = Struct("said STRING")
new = Struct("count BIGINT, sum BIGINT")
new_key = Struct("k STRING")


def upgrade(value):
    count, total = value["said"].split()
    return {"count": int(count), "sum": int(total)}


def rekey(key, value):
    return {"k": key["name"].lower()}


def merge(first, second):
    return {name: first[name] + second[name] for name in first}
"""


def test_a_table_of_an_older_revision_is_brought_to_the_head_by_scripts(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    twin, new = tmp_path / "twin", tmp_path / "new"
    feed.add(SEEN)
    run(session, feed, code.totals, twin)
    rows = [
        {"who": name, "said": f"{len(values)} {sum(values)}"}
        for name, values in (
            (name, [row["v"] for row in part if row["k"].lower() == name.lower()])
            for upper, part in ((False, SEEN[:10]), (True, SEEN[10:]))
            for name in (f"{'K' if upper else 'k'}{n}" for n in range(5))
        )
    ]
    table = str(write_json(tmp_path / "table", rows))
    head = 'branch_labels = ("aggregation-0",)\nstore = "aggregation-0"\n'
    folder = scripts_in(tmp_path / "scripts", baseline=head + BASELINE, counted=head + COUNTED)
    counted = folder / "versions" / "counted.py"
    text = counted.read_text().replace("down_revision = None", 'down_revision = "aaaa00000001"')
    counted.write_text(text.replace('branch_labels = ("aggregation-0",)\n', ""))
    said = {"migrations": folder, "revisions": "aaaa00000001"}
    with pytest.raises(RewriteError, match="no column for name, of the key"):
        seeds(session, new, twin, table, [feed], said=said)
    take = {"aggregation-0.name": "who"}
    made = seeds(session, new, twin, table, [feed], said=said, take=take)
    (report,) = made.report.families
    assert (report.read.count, report.total.count, report.merged) == (10, 5, 5)
    goes_on(session, [feed], new, twin, code.totals, "update")


TEXT_TO_NUMBER = """
old = Struct("{name} STRING")
new = Struct("{name} BIGINT")


def upgrade(value):
    return {{"{name}": int(value["{name}"])}}
"""


def test_lists_and_maps_of_an_older_revision_are_brought_to_the_head(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    twin, new = tmp_path / "twin", tmp_path / "new"
    feed.add(SEEN)
    run(session, feed, variables, twin)
    tables = variable_tables(session, twin, tmp_path)
    tables["last"] = as_text(
        session,
        tables["last"],
        tmp_path / "texts",
        k="k",
        last="transform(last, x -> named_struct('other', 1, 'v', string(x.v)))",
    )
    tables["regions"] = as_text(
        session, tables["regions"], tmp_path / "more", region="region", n="string(n)", k="k"
    )
    texts = {
        name: f'branch_labels = ("{name}",)\nstore = "{name}"\n' + TEXT_TO_NUMBER.format(name=field)
        for name, field in (("last", "v"), ("regions", "n"))
    }
    folder = scripts_in(tmp_path / "scripts", **texts)
    said = {"migrations": folder, "revisions": {"last": "base", "regions": "base"}}
    with pytest.raises(RewriteError, match="is not what revision base has") as caught:
        seeds(session, new, twin, tables, [feed], said=said)
    assert caught.value.found == "other, too"
    tables["last"] = as_text(
        session,
        tables["last"],
        tmp_path / "right",
        k="k",
        last="transform(last, x -> named_struct('v', x.v))",
    )
    seeds(session, new, twin, tables, [feed], said=said)
    goes_on(session, [feed], new, twin, variables, "update")


def test_values_of_a_table_expire_when_a_column_or_the_author_says(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    twin, new = tmp_path / "twin", tmp_path / "new"
    feed.add(SEEN)
    run_once(session, feed, kinds.expiring, twin)

    def table(variable, *columns):
        reader = session.read.format("statestore").option("stateVarName", variable)
        rows = reader.option("flattenCollectionTypes", "false").load(str(twin))
        rows.selectExpr("key.*", *columns).write.parquet(str(tmp_path / variable))
        return str(tmp_path / variable)

    tables = {
        "count": table("count", "value.value.n", "value.ttlExpirationMs AS until"),
        "last": table(
            "last",
            "transform(list_value, x -> x.value) AS last",
            "timestamp_millis(list_value[0].ttlExpirationMs) AS until",
        ),
        "regions": table("regions", "explode(map_value) AS (of, held)"),
    }
    session.read.parquet(tables["regions"]).selectExpr("k", "of.*", "held.value.*").write.parquet(
        str(tmp_path / "flat")
    )
    tables["regions"] = str(tmp_path / "flat")
    accept = frozenset({"transform-with-state-0.timers"})
    with pytest.raises(RewriteError, match="3 questions are open") as caught:
        seeds(session, new, twin, tables, [feed], accept=accept | {"count.until", "last.until"})
    assert "--take count:expires=COLUMN" in caught.value.next_action
    take = {"count:expires": "until", "last:expires": "until"}
    start = {"regions:expires": "batch_time + 3600000"}
    seeds(session, new, twin, tables, [feed], accept=accept, take=take, start=start)
    for variable in ("count", "last"):
        held = [
            session.read.format("statestore")
            .options(stateVarName=variable, flattenCollectionTypes="false")
            .load(str(place))
            .drop("partition_id")
            for place in (new, twin)
        ]
        assert sorted(map(str, held[0].collect())) == sorted(map(str, held[1].collect()))
    for rows in LATER:
        feed.add(rows)
        given = run_once(session, feed, kinds.expiring, new)
        assert given == run_once(session, feed, kinds.expiring, twin) != {}


def test_timers_begin_with_those_of_a_table(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    twin, new = tmp_path / "twin", tmp_path / "new"
    feed.add(SEEN)
    run(session, feed, alarms, twin, "append")
    timers = session.read.format("statestore").option("readRegisteredTimers", True).load(str(twin))
    timers = timers.selectExpr("key.*", "timestamp_millis(expiration_timestamp_ms) AS due")
    timers.write.json(str(tmp_path / "due"))
    seen = state_of(session, twin, tmp_path / "n", "key.*", "value.*", stateVarName="seen")
    shape = describe(LocalFiles(twin))
    watermark = shape.commits[shape.batch].watermark
    with pytest.raises(RewriteError, match=r"no table is named for .*timers"):
        seeds(session, new, twin, {"seen": seen}, [feed], watermark)
    name = "transform-with-state-0.timers"
    tables, take = {"seen": seen, name: str(tmp_path / "due")}, {f"{name}.expires": "due"}
    with pytest.raises(RewriteError, match="no column that says when timers are due"):
        seeds(session, new, twin, tables, [feed], watermark)
    holes = timers.selectExpr("k", "CASE WHEN k <> 'k1' THEN due END AS due")
    holes.write.parquet(str(tmp_path / "holes"))
    broken = {**tables, name: str(tmp_path / "holes")}
    with pytest.raises(RewriteError, match="has no due, which says when"):
        seeds(session, new, twin, broken, [feed], watermark, take=take)
    seeds(session, new, twin, tables, [feed], watermark, take=take)
    given = []
    for rows in (*LATER, rows_of(("k9", 1, 400))):
        feed.add(rows)
        found = run(session, feed, alarms, new, "append")
        assert list(found.values()) == list(run(session, feed, alarms, twin, "append").values())
        given += [row for batch in found.values() for row in batch]
    assert {row.split("'")[1] for row in given} >= {"k0", "k1", "k2", "k3", "k4"}
