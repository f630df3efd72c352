"""What a query may be run with, all at once: checksums of rows, zstd, ids of files, changelogs."""

import pytest
import rewritten_code as code
import variables_code
from pyspark.sql import functions as F  # noqa: N812
from rewritten_queries import Feed, late_batch, raw_state, rewritten, rows_of, run, session_with
from test_rewritten_operators import goes_on_as_its_twin_does

import statemigrate

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

STATE = "spark.sql.streaming.stateStore."
CHECKED = {f"{STATE}rowChecksum.enabled": "true", f"{STATE}compression.codec": "zstd"}
CHANGES = {**CHECKED, f"{STATE}rocksdb.changelogCheckpointing.enabled": "true"}
ALL = {**CHANGES, f"{STATE}checkpointFormatVersion": "2"}
OPERATORS = {
    "aggregation": (code.totals, "update"),
    "windows": (code.windows, "append"),
    "distinct for a while": (code.distinct_for_a_while, "append"),
    "sessions": (code.sessions, "append"),
    "groups": (code.groups, "update"),
    "two operators": (code.distinct_then_windows, "append"),
    "variables": (variables_code.variables, "update"),
    "timers": (variables_code.alarms, "append"),
}


@pytest.mark.parametrize("name", list(OPERATORS))
@pytest.mark.parametrize("partitions", [3, None], ids=["3 partitions", "as they are"])
def test_an_operator_in_rocksdb_goes_on_as_its_twin_does(spark, feed, tmp_path, name, partitions):
    function, mode = OPERATORS[name]
    goes_on_as_its_twin_does(
        spark, [feed], tmp_path, function, mode, "rocksdb rocksdb", partitions=partitions, **ALL
    )


@pytest.mark.parametrize("name", ["windows", "two operators", "variables", "timers"])
def test_files_without_ids_are_copied_and_go_on_as_their_twin_does(spark, feed, tmp_path, name):
    function, mode = OPERATORS[name]
    goes_on_as_its_twin_does(
        spark, [feed], tmp_path, function, mode, "rocksdb rocksdb", partitions=None, **CHANGES
    )


@pytest.mark.parametrize(
    "name", [each for each in OPERATORS if each not in ("variables", "timers")]
)
@pytest.mark.parametrize("way", ["hdfs hdfs", "hdfs rocksdb"])
def test_an_operator_in_files_goes_on_as_its_twin_does(spark, feed, tmp_path, name, way):
    function, mode = OPERATORS[name]
    goes_on_as_its_twin_does(spark, [feed], tmp_path, function, mode, way, **CHECKED)


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_a_join_goes_on_as_its_twin_does(spark, feed, tmp_path, version):
    feeds = [feed, Feed(tmp_path / "others")]
    settings = {**ALL, "spark.sql.streaming.join.stateFormatVersion": version}
    goes_on_as_its_twin_does(
        spark, feeds, tmp_path, code.pairs, "append", "rocksdb rocksdb", **settings
    )


@pytest.mark.parametrize("name", list(OPERATORS))
def test_a_fork_goes_on_as_its_twin_does_key_by_key(spark, feed, tmp_path, name):
    function, mode = OPERATORS[name]
    session = session_with(spark, "rocksdb", **ALL)
    old, new = tmp_path / "old", tmp_path / "new"
    feed.add(late_batch(1), late_batch(2), late_batch(3))
    run(session, feed, function, old, mode)
    statemigrate.fork(old, new)
    assert raw_state(session, new) == raw_state(session, old)
    for number in (4, 5):
        feed.add(late_batch(number))
        expected = run(session, feed, function, old, mode)
        assert run(session, feed, function, new, mode) == expected
        assert raw_state(session, new) == raw_state(session, old)


def windows_of_both(events, others):
    """Windows over two sources, of which one is slower than the other."""
    both = events.withWatermark("at", "10 seconds").union(others.withWatermark("at", "2 minutes"))
    return both.groupBy(F.window("at", "1 minute"), "k").agg(F.sum("v").alias("total"))


@pytest.mark.parametrize("policy", ["min", "max"])
@pytest.mark.parametrize("provider", ["hdfs", "rocksdb"])
def test_the_watermark_of_several_sources_goes_on_by_its_policy(spark, tmp_path, policy, provider):
    session = session_with(
        spark, provider, **{"spark.sql.streaming.multipleWatermarkPolicy": policy}
    )
    feeds = [Feed(tmp_path / name) for name in ("events", "others")]
    old, new = tmp_path / "old", tmp_path / "new"

    def add(number):
        feeds[0].add(late_batch(number))
        # Ever more behind: the policies differ in what is late.
        feeds[1].add(rows_of(*[(f"k{n % 5}", n, number * 20 + n) for n in range(12)]))

    for number in (1, 2, 3):
        add(number)
    run(session, feeds, windows_of_both, old, "append")
    rewritten(spark, old, new, partitions=3)
    # The policy is the query's, whatever a later session says.
    other = {"min": "max", "max": "min"}[policy]
    later = session_with(spark, provider, **{"spark.sql.streaming.multipleWatermarkPolicy": other})
    given = 0
    for number in (4, 5, 6):
        add(number)
        expected = run(session, feeds, windows_of_both, old, "append")
        assert run(later, feeds, windows_of_both, new, "append") == expected
        given += sum(map(len, expected.values()))
    # By the slower source nothing is over yet, by the faster one much is.
    assert (given > 0) == (policy == "max")
