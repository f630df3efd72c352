"""A query that begins with history goes on as if it had read it all itself."""

import json
import re

import pytest
import rewritten_code as code
from rewritten_queries import DDL, accepting, rows_of, run, session_with
from seeding_code import Log, write_json

from statemigrate.checkpoint.stores.provider import PROVIDERS
from statemigrate.cli import main
from statemigrate.commands.new_code import NewCode
from statemigrate.commands.rewrite import verify
from statemigrate.commands.seed import seed
from statemigrate.errors import RewriteError
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = [pytest.mark.spark, pytest.mark.long]

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
HISTORY = [rows_of(*[(f"k{n % 7}", n) for n in range(40)]), rows_of(*[("k1", 1000), ("new", 5)])]


def new_code(function):
    return NewCode(f"{function.__module__}:{function.__qualname__}", {"events": DDL})


def seeded(spark, new, tables, function, *accepted, provider="rocksdb", apply=True, **options):
    take = options.pop("take", {})
    start = options.pop("start", {})
    return seed(
        new,
        tables,
        target=new_code(function),
        options=RewriteOptions(2, {PROVIDER: PROVIDERS[provider].class_name}, **options),
        answers=accepting(*accepted, take=take, start=start),
        apply=apply,
        spark=spark,
    )


def history_of(spark, tmp_path):
    """Counts and sums of the history by Spark SQL, in columns that users would name so."""
    rows = [(row["k"], row["v"]) for batch in HISTORY for row in batch]
    frame = spark.createDataFrame(rows, "customer STRING, amount BIGINT")
    frame.createOrReplaceTempView("history")
    found = spark.sql(
        "SELECT customer, count(*) AS count, sum(amount) AS total, max(amount) AS max "
        "FROM history GROUP BY customer"
    )
    found.write.parquet(str(tmp_path / "history"))
    return str(tmp_path / "history")


@pytest.mark.parametrize("provider", ["rocksdb", "hdfs"])
def test_an_aggregation_goes_on_as_its_twin_that_read_the_history(spark, feed, tmp_path, provider):
    session = session_with(spark, provider)
    new, twin = tmp_path / "new", tmp_path / "twin"
    feed.add(*HISTORY)
    run(session, feed, code.totals_and_largest, twin)
    names = {"aggregation-0.k": "customer", "aggregation-0.sum": "total"}
    made = seeded(
        spark,
        new,
        history_of(session, tmp_path),
        code.totals_and_largest,
        provider=provider,
        take=names,
        taken={"events": str(feed.folder)},
    )
    assert made.plan.questions == ()
    assert made.report.families[0].total.count == 8
    found = verify(None, new, spark=spark)
    assert found.problems == ()
    # The logs, what its source keeps, and its rows twice.
    assert len(found.fine) == 4
    assert found.untried[0].startswith("aggregation-0 was seeded from")
    for rows in (rows_of(("k1", 1), ("other", 2)), rows_of(("k2", 2000), ("other", 3))):
        feed.add(rows)
        given = run(session, feed, code.totals_and_largest, new)
        assert list(given.values()) == list(
            run(session, feed, code.totals_and_largest, twin).values()
        )
        assert len(given) == 1
    assert min(given) > 1


def test_a_source_with_offsets_of_its_own_begins_where_it_is_told(spark, tmp_path):
    session = session_with(spark, "rocksdb")
    table = write_json(tmp_path / "history", [{"k": "k0", "count": 2, "sum": 3}])
    new = tmp_path / "new"
    seeded(spark, new, str(table), code.totals, offsets={"0": {"log": {"0": 8}}})
    assert run(session, Log(), code.totals, new) == {
        2: {"Row(k='k2', n=1, total=8)": 1, "Row(k='k0', n=3, total=12)": 1}
    }


def test_what_the_table_does_not_say_is_asked(spark, tmp_path):
    rows = [{"k": "a", "count": 1, "extra": True}, {"k": "b", "count": 2, "extra": False}]
    table = str(write_json(tmp_path / "history", rows))
    plan = seeded(spark, tmp_path / "new", table, code.totals, apply=False).plan
    assert {each.name: each.proposal for each in plan.questions} == {
        "aggregation-0.extra": "left out",
        "aggregation-0.sum": "null",
        "source-0": "where it begins by itself",
    }
    with pytest.raises(RewriteError, match="3 questions are open"):
        seeded(spark, tmp_path / "new", table, code.totals)
    assert not (tmp_path / "new").exists()


def test_tables_that_are_no_state_are_refused_before_anything_is_written(spark, tmp_path):
    new = tmp_path / "new"

    def refused(name, match, rows, **options):
        table = str(write_json(tmp_path / name, rows))
        with pytest.raises(RewriteError, match=match) as caught:
            seeded(spark, new, table, code.totals, "source-0", **options)
        assert not new.exists()
        return caught.value

    refused("keyless", "no column for k", [{"count": 1, "sum": 2}])
    refused("holes", "has no count, which", [{"k": "a", "count": None, "sum": 2}])
    twice = [{"k": "a", "count": 1, "sum": 2}, {"k": "a", "count": 7, "sum": 3}]
    error = refused("twice", "several rows of .* have one key", twice)
    assert '"count":1' in str(error.found)
    assert '"count":7' in str(error.found)
    good = [{"k": "a", "count": 1, "sum": 2}]
    refused("unknown", "there is no field", good, take={"aggregation-0.x": "k"})
    refused("nowhere", "has no column other", good, take={"aggregation-0.k": "other"})
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    with pytest.raises(RewriteError, match="is a table of Delta's"):
        seeded(spark, new, str(tmp_path / "delta"), code.totals)
    spark.createDataFrame([("a", 1, "2")], "k STRING, count BIGINT, sum STRING").write.parquet(
        str(tmp_path / "text")
    )
    with pytest.raises(RewriteError, match=r"the column sum cannot be aggregation-0\.sum"):
        seeded(spark, new, str(tmp_path / "text"), code.totals)


def test_the_command_line_asks_seeds_and_tells(spark, tmp_path, capsys):
    table = write_json(tmp_path / "history", [{"k": "a", "count": 2, "sum": 3}])
    new = str(tmp_path / "new")
    arguments = [new, "--from-tables", f"aggregation-0={table}", "--code", "rewritten_code:totals"]
    arguments += ["--input", f"events={DDL}", "--partitions", "2"]

    def called(*words):
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        return ended.value.code, capsys.readouterr()

    status, said = called("rewrite", *arguments)
    assert (status, "? source 0 (events) is new" in said.out) == (1, True)
    (accepted,) = re.findall(r"--accept (source-0:[0-9a-f]{6}),", said.out)
    status, said = called("rewrite", *arguments, "--accept", accepted, "--apply")
    assert (status, "Next: `statemigrate rewrite" in said.out) == (0, True), said.err
    status, said = called("status", new)
    assert (status, "Seeded from" in said.out) == (0, True)
    status, said = called("rewrite", "--verify", new, "--json")
    assert (status, json.loads(said.out)["problems"]) == (0, [])
    again = [f"{new}-again", *arguments[1:], "--revision", "base"]
    status, said = called("rewrite", *again)
    assert (status, "for store 'aggregation-0'" in said.err) == (1, True), said.err
    status, said = called("rewrite", "--verify", str(tmp_path), new)
    assert (status, "was made from something else" in said.err) == (1, True)
