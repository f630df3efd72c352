"""Whatever a query keeps, and however, a rewrite makes of it what plain Python makes of it.

`make rewrites` tries as many as it is told.
"""

import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from random_rewrites import HEAD, Case, cases
from rewritten_queries import PROVIDER, PROVIDERS, rewritten, session_with

from statemigrate.commands.rewrite import verify
from statemigrate.scripts import ScriptFolder

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]
EXAMPLES = int(os.environ.get("STATEMIGRATE_REWRITES", "4"))
CODEC = "spark.sql.streaming.stateStore.compression.codec"
many = settings(
    max_examples=EXAMPLES,
    derandomize="STATEMIGRATE_REWRITES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)


@many
@given(cases())
def test_what_is_in_the_new_checkpoint_is_what_python_makes_of_the_old(spark, case):
    with tempfile.TemporaryDirectory(prefix="statemigrate-rewrites-") as folder:
        rewrite_at_random(spark, case, Path(folder))


def rewrite_at_random(spark, case: Case, folder: Path):
    session = session_with(spark, case.providers[0], **case.conf)
    case.feed(folder / "input")
    run(session, case, folder, folder / "old")
    migrations = None
    if case.script is not None:
        scripts = ScriptFolder.create(folder / "migrations")
        (scripts.versions / "made_up.py").write_text(HEAD.format(case.store) + case.script)
        migrations = scripts.directory
    conf = {PROVIDER: PROVIDERS[case.providers[1]].class_name, CODEC: case.codecs[1]}
    old, new = folder / "old", folder / "new"
    made = rewritten(spark, old, new, partitions=case.after, conf=conf, migrations=migrations)
    assert made.report.families[0].dropped == 0
    expected = case.expected(state(session, old))
    assert Counter(map(str, state(session, new))) == expected
    assert verify(old, new, spark=spark).problems == ()


def run(session, case, folder, checkpoint, name="input"):
    """Run the query on what it was not fed yet."""
    reader = session.readStream.schema(case.ddl).option("maxFilesPerTrigger", 1)
    rows = reader.parquet(str(folder / name))
    mode = "update" if case.operator == "aggregation-0" else "append"
    writer = case.query(rows).writeStream.outputMode(mode).format("noop")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination(180)
    assert not query.isActive


def state(session, checkpoint):
    """Keys and values as Spark's own reader gives them."""
    rows = session.read.format("statestore").load(str(checkpoint)).collect()
    return [(row.key.asDict(recursive=True), row.value.asDict(recursive=True)) for row in rows]
