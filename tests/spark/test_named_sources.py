"""A query whose sources have names: the engine's own heartbeat has one too."""

import json

import pytest
from pipelines import Pipeline
from support.sessions import spark_version
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import migrated

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(spark_version() < (4, 3), reason="Spark keeps the names from 4.3 on"),
]
NAMED = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


@pytest.fixture
def named_sources(spark):
    spark.conf.set(NAMED, "true")
    yield
    spark.conf.unset(NAMED)


class Named(Pipeline):
    def stream(self):
        reader = self.spark.readStream.name("tally").schema(self.rows)
        return reader.option("maxFilesPerTrigger", 1).parquet(f"{self.input}/*.parquet")


@pytest.mark.long(weight=1 / 3)
def test_a_backfill_goes_on_while_the_input_is_idle(spark, named_sources, tmp_path, scripts):
    pipeline, expected = Named(spark, tmp_path / "pipeline"), Expected()
    first = batch("first", range(30))
    pipeline.feed(first)
    expected.process(first, CENTS)
    pipeline.deploy(CentsTally())

    pipeline.deploy(migrated(AmountsTally(), migrations=scripts.write()))
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)
    assert sources(pipeline) == ["statemigrate_heartbeat", "tally"]


def sources(pipeline):
    """The names in the newest file of Spark's offset log."""
    newest = max((pipeline.checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    version, metadata, *lines = newest.read_text().splitlines()
    assert version == "v2"
    assert json.loads(metadata)
    return sorted(line.partition(":")[0] for line in lines)
