"""Checkpoints that releases of Spark from 2.1 on have made: looked at, forked, and rewritten.

They are those of Spark's own tests, which nobody here has written. What Spark's reader finds in one
before is what it finds in the fork, and in each rewrite, after.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path

import pytest
from support.committed_rows import rows_by_spark, rows_from_files
from systems.packages import Missing, jars

from statemigrate import open_state, status
from statemigrate.checkpoint.logs.entries import FILE_IDS, PROVIDER
from statemigrate.checkpoint.operators.catalogue import DEFAULT
from statemigrate.checkpoint.shape import describe
from statemigrate.checkpoint.state import CommittedState
from statemigrate.checkpoint.stores.provider import PROVIDERS, provider_of
from statemigrate.commands.rewrite import rewrite_checkpoint, verify
from statemigrate.commands.view import export
from statemigrate.errors import CheckpointError, RewriteError, StatemigrateError, UnsupportedError
from statemigrate.files import LocalFiles
from statemigrate.rewrite.fork import fork
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = [pytest.mark.integration, pytest.mark.spark]

_V = "checkpoint-version-"
_ON_4_0 = {
    "agg": {"aggregation-0": 6},
    "dedup": {"deduplicate-0": 6},
    "join1": {"join-0.left": 6, "join-0.right": 3},
    "join2": {"join-0.left": 6, "join-0.right": 3},
    "limit": {"limit-0": 1},
}
READ = {
    f"{_V}3.1.0-flatmapgroupswithstate-repartition": {"groups-0": 1},
    f"{_V}3.2.0-flatmapgroupswithstate1-repartition": {"groups-0": 2},
    f"{_V}3.2.0-flatmapgroupswithstate2-repartition": {"groups-0": 1},
    f"{_V}3.2.0-session-window-with-repartition": {"session-window-0": 8},
    f"{_V}3.2.0-streaming-aggregate-with-repartition": {"aggregation-0": 2},
    f"{_V}3.5.1-streaming-deduplication": {"deduplicate-0": 2},
    f"{_V}3.5.1-streaming-join": {"join-0.left": 2, "join-0.right": 2},
    f"{_V}4.0.1-dedup-spark-53942": {"deduplicate-0": 4},
    **{f"{_V}4.0.0/{p}/{query}": each for p in PROVIDERS for query, each in _ON_4_0.items()},
    **{
        f"{_V}4.0.0-checkpoint-v2/rocksdb/{query}": each
        for query, each in _ON_4_0.items()
        if query != "agg"
    },
}
"""By checkpoint the stores, and how many values each has."""
MISPLACED = {
    f"{_V}3.2.0-session-window-with-repartition",
    f"{_V}3.2.0-streaming-aggregate-with-repartition",
}
"""Those whose rows lie elsewhere than a Spark from 3.3 on looks for them: no rewrite takes them."""
REFUSED = {
    f"{_V}2.3.1-flatMapGroupsWithState-state-format-1": (UnsupportedError, "before 3.1"),
    f"{_V}2.3.1-streaming-aggregate-state-format-1": (UnsupportedError, "before 3.1"),
    f"{_V}2.3.1-without-commit-log-metadata": (UnsupportedError, "before 3.1"),
    f"{_V}2.4.0-streaming-join": (UnsupportedError, "before 3.1"),
    f"{_V}2.4.5-for-compatibility-test-common-functions": (UnsupportedError, "before 3.1"),
    f"{_V}2.4.5-for-compatibility-test-deduplicate": (UnsupportedError, "before 3.1"),
    f"{_V}2.4.5-for-compatibility-test-statistical-functions": (UnsupportedError, "before 3.1"),
    f"{_V}2.4.5-for-compatibility-test-sum-decimal": (UnsupportedError, "before 3.1"),
    f"{_V}3.0.0-streaming-statestore-codec": (UnsupportedError, "before 3.1"),
    f"{_V}3.2.0-deduplication-with-repartition": (CheckpointError, "does not say which operator"),
    f"{_V}3.3.0-streaming-deduplication": (CheckpointError, "does not say which operator"),
    f"{_V}4.0.0-tws-avro": (UnsupportedError, "preview of Spark 4.0"),
    f"{_V}4.0.0-tws-unsaferow": (UnsupportedError, "preview of Spark 4.0"),
    f"{_V}2.1.0": (CheckpointError, "not the checkpoint of a stateful query"),
    f"{_V}2.3.1-for-multi-watermark-policy": (CheckpointError, "not the checkpoint of a stateful"),
    "checkpoint-test-offsetId-commitId-inconsistent": (CheckpointError, "not the checkpoint of"),
    "escaped-path-2.4.0/chk%252520%252525@%252523chk": (CheckpointError, "not the checkpoint of"),
}


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    """The folder of all checkpoints."""
    try:
        (jar,) = jars("golden")
    except Missing as missing:
        pytest.fail(str(missing))
    folder = tmp_path_factory.mktemp("golden")
    with zipfile.ZipFile(jar) as archive:
        names = [each for each in archive.namelist() if each.startswith("structured-streaming/")]
        archive.extractall(folder, names)
    return folder / "structured-streaming"


def read_by_spark(checkpoint: Path, spark) -> Counter[str]:
    """Every row that Spark's own reader finds, by operator and store."""
    shape = describe(LocalFiles(checkpoint))
    session = spark.newSession()
    session.conf.set(FILE_IDS, "1" if shape.commits[shape.batch].state_ids is None else "2")
    found: Counter[str] = Counter()
    for operator in shape.operators:
        for store in operator.stores:
            reader = session.read.format("statestore").option("operatorId", operator.number)
            if store.name != DEFAULT:
                reader = reader.option("storeName", store.name)
            rows = reader.load(str(checkpoint)).select("key", "value").collect()
            found.update(f"{operator.number} {store.name} {row}" for row in rows)
    return found


def test_every_checkpoint_of_spark_is_in_one_of_the_lists(golden):
    metadata = [each.parent for each in golden.rglob("metadata") if each.is_file()]
    queries = {str(at.relative_to(golden)) for at in metadata if (at / "offsets").is_dir()}
    assert queries == {*READ, *REFUSED}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(golden, spark, name):
    kind, text = REFUSED[name]
    with pytest.raises(StatemigrateError) as caught:
        status(golden / name, migrations=None, spark=spark)
    assert (type(caught.value), text in str(caught.value)) == (kind, True), caught.value
    assert "restore" not in caught.value.next_action


@pytest.mark.parametrize("name", READ)
def test_what_is_looked_at_forked_and_rewritten_is_what_spark_reads(golden, spark, tmp_path, name):
    old = golden / name
    shown = status(old, migrations=None, spark=spark)
    assert {each.store: each.in_target for each in shown.stores} == READ[name]
    for store, values in READ[name].items():
        path = tmp_path / f"{store}.jsonl"
        done = export(store, old, path, migrations=None, spark=spark)
        lines = path.read_text().splitlines()
        # Of a join all rows under a key are one list.
        assert (done.keys, len(lines) <= values) == (len(lines), True)
        assert lines
    shape = describe(LocalFiles(old))
    has_metadata = all(each.metadata_version for each in shape.operators)
    before = read_by_spark(old, spark) if has_metadata else None
    forked = tmp_path / "fork"
    fork(old, forked)
    again = status(forked, migrations=None, spark=spark)
    assert {each.store: each.in_target for each in again.stores} == READ[name]
    ways = {"partitions": RewriteOptions(partitions=3), "provider": other_provider(shape)}
    for way, options in ways.items():
        new = tmp_path / way
        if name in MISPLACED:
            with pytest.raises(RewriteError, match="not in the partition where Spark would look"):
                rewrite_checkpoint(
                    forked, new, options=options, migrations=None, apply=True, spark=spark
                )
            continue
        rewrite_checkpoint(forked, new, options=options, migrations=None, apply=True, spark=spark)
        verified = verify(forked, new, migrations=None, spark=spark)
        assert (verified.problems, verified.untried) == ((), ()), way
        again = status(new, migrations=None, spark=spark)
        assert {each.store: each.in_target for each in again.stores} == READ[name]
        if before is not None:
            assert read_by_spark(new, spark) == before, way


@pytest.mark.parametrize("name", READ)
def test_every_row_read_from_files_is_the_one_that_spark_reads(golden, spark, name):
    state = CommittedState(LocalFiles(golden / name))
    expected, found = rows_by_spark(spark, state), rows_from_files(state)
    assert {family: found[family] for family in expected} == expected
    assert any(expected.values())
    tables = open_state(golden / name, migrations=None)
    assert set(tables.stores) == set(READ[name])
    for store in tables.stores:
        rows = tables[store].to_arrow()
        assert rows.num_rows == tables[store].count() > 0
        for key in rows.select(list(tables[store].key_columns)).to_pylist():
            # A misplaced row is not where Spark, or anybody, looks for it.
            assert tables[store].under(*key.values()).num_rows or name in MISPLACED


def other_provider(shape) -> RewriteOptions:
    """The provider that the state is not in."""
    name = "hdfs" if provider_of(shape.conf).name == "rocksdb" else "rocksdb"
    return RewriteOptions(conf={PROVIDER: PROVIDERS[name].class_name})


@pytest.mark.parametrize("name", [f"{_V}4.0.0/hdfs/agg", f"{_V}4.0.0-checkpoint-v2/rocksdb/join1"])
def test_what_is_begun_and_not_committed_is_looked_at_and_not_rewritten(
    golden, spark, tmp_path, name
):
    begun = tmp_path / "begun"
    fork(golden / name, begun)
    newest = max(int(each.name) for each in (begun / "offsets").glob("[0-9]*"))
    (begun / "offsets" / str(newest + 1)).write_text((begun / "offsets" / str(newest)).read_text())
    shown = status(begun, migrations=None, spark=spark)
    assert {each.store: each.in_target for each in shown.stores} == READ[name]
    options = RewriteOptions(partitions=3)
    plan = rewrite_checkpoint(begun, tmp_path / "new", options=options, migrations=None)
    assert (plan.plan.old.batch, plan.uncommitted) == (newest, newest + 1)
    with pytest.raises(CheckpointError, match="is not committed"):
        rewrite_checkpoint(
            begun, tmp_path / "new", options=options, migrations=None, apply=True, spark=spark
        )
