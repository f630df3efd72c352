"""State of every operator from tables: the query goes on as the one whose state is in them."""

import pytest
import rewritten_code as code
from pyspark.sql import functions as F  # noqa: N812
from rewritten_queries import Feed, rows_of, run, session_with
from variables_code import variables

from statemigrate.checkpoint.shape import describe
from statemigrate.commands.rewriting.new_code import NewCode
from statemigrate.commands.rewriting.seed import seed
from statemigrate.commands.rewriting.verify import verify
from statemigrate.files import LocalFiles
from statemigrate.rewrite.plan.asking.questions import RewriteAnswers
from statemigrate.rewrite.plan.options import RewriteOptions

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


def seeds(session, new, probe, tables, feeds, watermark=None, **answers):
    taken = {str(n): str(feed.folder) for n, feed in enumerate(feeds)}
    made = seed(
        new,
        tables,
        target=NewCode(like=probe),
        options=RewriteOptions(3, watermark=watermark, taken=taken),
        answers=RewriteAnswers(**answers),
        apply=True,
        spark=session,
    )
    assert verify(None, new, spark=session).problems == ()
    return made


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


def test_variables_begin_with_values_lists_and_maps(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    twin, new = tmp_path / "twin", tmp_path / "new"
    feed.add(SEEN)
    run(session, feed, variables, twin)
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
    tables = {"count": count, "regions": regions, "last": str(tmp_path / "last")}
    made = seeds(session, new, twin, tables, [feed])
    assert {each.name: each.total.count for each in made.report.families} == {
        "count": 5,
        "last": 5,
        "regions": 15,
    }
    goes_on(session, [feed], new, twin, variables, "update")
