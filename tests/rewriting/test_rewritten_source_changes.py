"""Code that reads one source more, or one less, goes on with the state and what it has read."""

from collections import Counter

import pytest
import rewritten_code as code
from pyspark.sql.streaming import DataStreamReader
from rewritten_queries import DDL, Feed, accepting, rewritten, rows_of, run, session_with
from support.new_checkpoints import is_shut

from statemigrate.commands.new_code import NewCode
from statemigrate.commands.rewrite import rewrite_checkpoint
from statemigrate.errors import CodeError, RewriteError

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

BOTH = {"events": DDL, "others": DDL}
FUNCTIONS = "aggregation-0:functions"


def totals(*batches):
    n, total = Counter(), Counter()
    for rows in batches:
        for row in rows:
            n[row["k"]] += 1
            total[row["k"]] += row["v"]
    return {f"Row(k={k!r}, n={n[k]}, total={total[k]})" for k in n}


def last_of(given):
    """What was given out last of each key."""
    found = {}
    for batch in sorted(given):
        for row in given[batch]:
            found[row.partition(",")[0]] = row
    return set(found.values())


def test_a_source_that_is_added_begins_without_the_files_that_the_state_has(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    others = Feed(tmp_path / "other s")
    first, seen, later = rows_of(("a", 1), ("b", 2)), rows_of(("a", 10)), rows_of(("b", 100))
    feed.add(first)
    others.add(seen)
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.totals, old)
    asked = rewritten(spark, old, new, code.totals_of_both, inputs=BOTH, apply=False)
    assert [each.name for each in asked.plan.questions] == [FUNCTIONS, "source-0", "source-1"]
    made = rewritten(
        spark,
        old,
        new,
        code.totals_of_both,
        inputs=BOTH,
        answers=accepting(FUNCTIONS, "source-0"),
        taken={"others": str(others.folder)},
    )
    assert [(each.name, each.old, each.input) for each in made.plan.sources.sources] == [
        ("0", "0", "events"),
        ("1", None, "others"),
    ]
    feed.add(later)
    others.add(later)
    given = run(session, [feed, others], code.totals_of_both, new)
    assert last_of(given) == {"Row(k='b', n=3, total=202)"}
    others.add(rows_of(("a", 5), ("b", 6)), rows_of(("c", 7)))
    given = run(session, [feed, others], code.totals_of_both, new)
    everything = [first, later, later, rows_of(("a", 5), ("b", 6)), rows_of(("c", 7))]
    assert last_of(given) == totals(*everything)
    assert len(given) == 2


def test_of_two_sources_the_second_goes_on_alone(spark, feed, tmp_path):
    session = session_with(spark, "hdfs")
    others = Feed(tmp_path / "others")
    feed.add(rows_of(("a", 1)), rows_of(("b", 2)))
    others.add(rows_of(("a", 10)))
    old, new, twin = tmp_path / "old", tmp_path / "new", tmp_path / "twin"
    for each in (old, twin):
        run(session, [feed, others], code.totals_of_both, each)
    sources, answers = {"0": None, "1": "0"}, accepting(FUNCTIONS)
    made = rewritten(spark, old, new, code.totals, sources=sources, answers=answers)
    assert (made.plan.sources.gone, made.plan.questions) == (("0",), ())
    for rows in (rows_of(("a", 100), ("c", 1)), rows_of(("b", 5))):
        others.add(rows)
        given = run(session, others, code.totals, new)
        assert given == run(session, [feed, others], code.totals_of_both, twin)
        assert len(given) == 1


def test_each_code_is_given_the_inputs_that_it_reads(spark, feed, tmp_path):
    session = session_with(spark, "hdfs")
    others = Feed(tmp_path / "others")
    feed.add(rows_of(("a", 1)))
    others.add(rows_of(("a", 10)))
    both, one, new = tmp_path / "both", tmp_path / "one", tmp_path / "new"
    run(session, [feed, others], code.totals_of_both, both)
    run(session, feed, code.totals, one)
    for old, before, after in (
        (both, code.totals_of_both, code.totals),
        (one, code.totals, code.totals_of_both),
    ):
        asked = rewritten(spark, old, new, after, before=before, inputs=BOTH, apply=False)
        # A sum over a union is of all its parts, and so is a key; a count has no argument.
        names = [each.name for each in asked.plan.questions if "source" not in each.name]
        assert sorted(names) == ["aggregation-0.k:computed", "aggregation-0.sum"]
        wrong = {**BOTH, "neither": DDL}
        with pytest.raises(CodeError, match="has no input neither"):
            rewritten(spark, old, new, after, before=before, inputs=wrong, apply=False)


@pytest.mark.skipif(
    not hasattr(DataStreamReader, "name"), reason="before Spark 4.3 none has a name"
)
def test_sources_that_have_names_go_on_by_them(spark, feed, tmp_path):
    evolving = {"spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}
    session = session_with(spark, "rocksdb", **evolving)
    feeds = {name: Feed(tmp_path / name) for name in ("b", "c", "d")}

    class Named:
        def __init__(self, name):
            self.name = name

        def stream(self, spark):
            reader = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1)
            return reader.name(self.name).json(f"{feeds[self.name].folder}/*.json")

    for each in feeds.values():
        each.add(rows_of(("a", 1)))
    old, new, probe = tmp_path / "old", tmp_path / "new", tmp_path / "probe"
    run(session, [Named("c"), Named("b")], code.totals_of_both, old)
    run(session, [Named("b"), Named("d")], code.totals_of_both, probe)
    like = {"target": NewCode(like=probe), "migrations": None, "spark": spark}
    asked = rewrite_checkpoint(old, new, **like)
    names = [FUNCTIONS, "source-c", "source-d"]
    assert [each.name for each in asked.plan.questions] == names
    made = rewrite_checkpoint(old, new, **like, answers=accepting(*names), apply=True)
    assert made.report is not None
    feeds["b"].add(rows_of(("a", 10)))
    given = run(session, [Named("b"), Named("d")], code.totals_of_both, new)
    assert given == {1: Counter(["Row(k='a', n=4, total=13)"])}
    feeds["d"].add(rows_of(("a", 100)))
    given = run(session, [Named("b"), Named("d")], code.totals_of_both, new)
    assert given == {2: Counter(["Row(k='a', n=5, total=113)"])}


def test_what_does_not_fit_the_sources_is_refused(spark, feed, tmp_path):
    feed.add(rows_of(("a", 1)))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session_with(spark, "hdfs"), feed, code.totals, old)

    def refused(match, **options):
        with pytest.raises(RewriteError, match=match):
            rewritten(spark, old, new, code.totals_of_both, inputs=BOTH, **options)

    refused("has no source 7", sources={"0": "7"})
    refused("has no source old 3", sources={"3": "0"})
    refused("is new, and has no log of files", offsets={"others": {"logOffset": 3}})
    refused("has a log of the files", taken={"events": str(feed.folder)}, sources={"0": "0"})
    (tmp_path / "empty").mkdir()
    taken = {"others": str(tmp_path / "empty")}
    answers = accepting(FUNCTIONS)
    refused("there is no file in", sources={"0": "events"}, taken=taken, answers=answers)
    assert is_shut(new)
