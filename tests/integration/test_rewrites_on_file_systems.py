"""A query's checkpoint on a remote file system is forked there, and the fork rewritten."""

import json

import pytest

from statemigrate import fork
from statemigrate.checkpoint.stores.provider import PROVIDERS
from statemigrate.commands.rewrite import rewrite_checkpoint, verify
from statemigrate.rewrite.sources import RewriteOptions

pytestmark = pytest.mark.integration
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def test_a_fork_that_was_rewritten_there_goes_on_as_its_twin_does(spark, remote, tmp_path):
    old, forked, new = (f"{remote}/{name}" for name in ("old", "forked", "new"))
    assert run(spark, tmp_path, old, feed=1) != []
    run(spark, tmp_path, old, feed=2)
    fork(old, forked)
    options = RewriteOptions(partitions=3, conf={PROVIDER: PROVIDERS["hdfs"].class_name})
    made = rewrite_checkpoint(
        forked, new, options=options, migrations=None, apply=True, spark=spark
    )
    assert made.report.families[0].total.count == 10
    assert verify(forked, new, spark=spark).problems == ()
    expected = run(spark, tmp_path, old, feed=3)
    assert len(expected) == 10
    assert run(spark, tmp_path, new) == expected


def run(spark, folder, checkpoint, feed=None):
    """Run the query on what it was not fed yet; return the rows that it gave."""
    if feed:
        rows = [{"k": f"k{n % 10}", "v": n * feed} for n in range(25)]
        (folder / f"{feed}.json").write_text("\n".join(map(json.dumps, rows)))
    seen = []
    rows = spark.readStream.schema("k STRING, v BIGINT").json(str(folder))
    query = (
        rows.groupBy("k")
        .sum("v")
        .writeStream.outputMode("update")
        .option("checkpointLocation", checkpoint)
        .foreachBatch(lambda rows, _: seen.extend(map(tuple, rows.collect())))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(seen)
