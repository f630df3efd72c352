"""Two frames for one checkpoint, as a notebook makes them: the one that starts is recorded.

Each is compared with the record when it is made, and either may start.
"""

import pytest
from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from pyspark.sql import functions as F  # noqa: N812
from tally import CentsTally, batch

from statemigrate import StartupError, guarded, stateful
from statemigrate.scripts import ScriptFolder

pytestmark = [pytest.mark.spark, pytest.mark.long]


def plain(rows):
    return rows


def in_upper_case(rows):
    return rows.withColumn("key", F.upper("key"))


class Guarded(NativePipeline):
    """A query of plain Spark, whose writers are guarded."""

    def frame(self, change):
        result = change(self.stream()).groupBy("key").agg(F.count("*").alias("n"))
        writer = result.writeStream.outputMode("update").foreachBatch(self.sink)
        return guarded(writer.option("checkpointLocation", str(self.checkpoint)))

    def run(self, frame):
        query = frame.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()


class _Operator:
    """A query whose operator is compared, and that makes something of the operator's output."""

    def run(self, frame):
        made = frame.withColumn("seen", F.lit(1)).where("seen = 1")
        known = self.spark.createDataFrame([(1, "known")], "seen INT, as STRING")
        query = self.start(made.join(known, "seen"))
        try:
            query.processAllAvailable()
        finally:
            query.stop()


class OnPages(_Operator, PagedPipeline):
    def frame(self, change):
        return self.result(CentsTally(), change(self.stream()))


class OnVariables(_Operator, NativePipeline):
    def frame(self, change):
        return stateful(
            change(self.stream()),
            by="key",
            processor=CentsTally(),
            output=self.output,
            checkpoint=self.checkpoint,
            migrations=self.root / "migrations",
        )


@pytest.mark.parametrize("kind", [Guarded, OnPages, OnVariables])
@pytest.mark.parametrize("started", ["first", "last"])
def test_the_frame_that_starts_says_what_state_means(spark, tmp_path, kind, started):
    pipeline = kind(spark, tmp_path / "pipeline")
    ScriptFolder.create(pipeline.root / "migrations")
    pipeline.feed(batch("first", range(20)))
    frames = [pipeline.frame(plain), pipeline.frame(in_upper_case)]
    pipeline.run(frames[0] if started == "first" else frames[1])
    own, other = (plain, in_upper_case) if started == "first" else (in_upper_case, plain)
    for _ in range(2):
        with pytest.raises(StartupError) as caught:
            pipeline.frame(other)
        assert caught.value.code == "SM-MEANING-001"
        assert {each["rule"] for each in caught.value.data["changes"]} <= {"key", "column"}
        pipeline.feed(batch("later", range(20)))
        pipeline.run(pipeline.frame(own))
