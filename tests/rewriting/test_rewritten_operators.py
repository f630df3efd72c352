"""Every operator, rewritten to another provider and other partitions, gives what its twin gives."""

import pytest
import rewritten_code as code
from rewritten_queries import Feed, late_batch, rewritten, run, session_with
from variables_code import alarms, variables

from statemigrate.checkpoint.shape import describe
from statemigrate.files import LocalFiles
from statemigrate.rewrite.fork import state_files

pytestmark = [pytest.mark.spark, pytest.mark.long]


WAYS = ["hdfs rocksdb", pytest.param("rocksdb hdfs", marks=pytest.mark.rewrites)]
ONE = {
    "windows": (code.windows, "append"),
    "distinct": (code.distinct, "append"),
    "distinct for a while": (code.distinct_for_a_while, "append"),
    "sessions": (code.sessions, "append"),
    "limit": (code.first_ten, "append"),
    "groups": (code.groups, "update"),
    "two operators": (code.distinct_then_windows, "append"),
}


@pytest.mark.parametrize("case", list(ONE))
@pytest.mark.parametrize("way", WAYS)
def test_an_operator_goes_on_as_its_twin_does(spark, feed, tmp_path, case, way):
    function, mode = ONE[case]
    goes_on_as_its_twin_does(spark, [feed], tmp_path, function, mode, way)


@pytest.mark.parametrize("way", WAYS)
def test_a_join_goes_on_as_its_twin_does(spark, feed, tmp_path, way):
    feeds = [feed, Feed(tmp_path / "others")]
    goes_on_as_its_twin_does(spark, feeds, tmp_path, code.pairs, "append", way)


def test_state_variables_go_on_as_their_twin_does(spark, feed, tmp_path):
    goes_on_as_its_twin_does(spark, [feed], tmp_path, variables, "update", "rocksdb rocksdb")


def test_timers_ring_as_those_of_their_twin(spark, feed, tmp_path):
    goes_on_as_its_twin_does(spark, [feed], tmp_path, alarms, "append", "rocksdb rocksdb")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.streaming.join.stateFormatVersion", "3"),
        ("spark.sql.streaming.join.stateFormatVersion", "4"),
        ("spark.sql.streaming.stateStore.rowChecksum.enabled", "true"),
        ("spark.sql.streaming.stateStore.checkpointFormatVersion", "2"),
    ],
    ids=["a store for all parts", "rows by their times", "checksums of rows", "files with ids"],
)
def test_a_join_in_another_format_goes_on_as_its_twin_does(spark, feed, tmp_path, setting, value):
    feeds = [feed, Feed(tmp_path / "others")]
    way = "rocksdb rocksdb"
    goes_on_as_its_twin_does(spark, feeds, tmp_path, code.pairs, "append", way, **{setting: value})


STAY = {
    "windows": (code.windows, "append", "rocksdb"),
    "two operators": (code.distinct_then_windows, "append", "hdfs"),
    "a join": (code.pairs, "append", "hdfs"),
    "groups": (code.groups, "update", "rocksdb"),
    "variables": (variables, "update", "rocksdb"),
    "timers": (alarms, "append", "rocksdb"),
}


@pytest.mark.parametrize("case", list(STAY))
def test_state_that_stays_is_copied_and_goes_on_as_its_twin_does(spark, feed, tmp_path, case):
    function, mode, provider = STAY[case]
    feeds = [feed, Feed(tmp_path / "others")][: 2 if function is code.pairs else 1]
    way = f"{provider} {provider}"
    goes_on_as_its_twin_does(spark, feeds, tmp_path, function, mode, way, partitions=None)


def are_copies(old, new):
    """Whether every file of the new state is one of the old one."""
    files = LocalFiles(old)
    shape = describe(files, describe(LocalFiles(new)).batch)
    names = {name for each in shape.operators for name in state_files(files, shape, each)}
    there = {str(each.relative_to(new)) for each in (new / "state").rglob("*") if each.is_file()}
    same = all((old / name).read_bytes() == (new / name).read_bytes() for name in names & there)
    return same and names == {each for each in there if "/_" not in each}


def goes_on_as_its_twin_does(spark, feeds, tmp_path, function, mode, way, *, partitions=3, **conf):
    before, after = way.split()
    session = session_with(spark, before, **conf)
    old, new = tmp_path / "old", tmp_path / "new"
    for feed in feeds:
        feed.add(late_batch(1), late_batch(2), late_batch(3))
    run(session, feeds, function, old, mode)
    made = rewritten(spark, old, new, partitions=partitions, conf=session_conf(after))
    assert all(each.read == each.total for each in made.report.families if each.read is not None)
    # Files with ids are written anew: the new commit names ids of its own.
    has_ids = conf.get("spark.sql.streaming.stateStore.checkpointFormatVersion") == "2"
    assert are_copies(old, new) == (partitions is None and not has_ids)
    for number in (4, 5):
        for feed in feeds:
            feed.add(late_batch(number))
        expected = run(session, feeds, function, old, mode)
        assert run(session, feeds, function, new, mode) == expected
        assert sum(map(len, expected.values())) > 0 or function is code.first_ten


def session_conf(provider):
    from rewritten_queries import PROVIDER, PROVIDERS

    return {PROVIDER: PROVIDERS[provider].class_name}
