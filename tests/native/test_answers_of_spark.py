"""What Spark refuses after Python has gone on: the batch fails, though nobody waited for it."""

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from statemigrate.native.live.answers import LaterAnswers

pytestmark = pytest.mark.spark


class LastWriteRefused(StatefulProcessor):
    """Its writes after the first of a task are to a variable that Spark does not know."""

    def init(self, handle):
        answers = LaterAnswers.of(handle)
        self.kept = handle.getValueState("kept", "n LONG")
        client = self.kept._valueStateClient
        self.update = answers.deferred(self.kept.update)
        self.update_unknown = answers.deferred(lambda value: client.update("unknown", value))

    def handleInputRows(self, key, rows, timerValues):
        (self.update_unknown if key[0] == "refused" else self.update)((len(list(rows)),))
        yield Row(key=key[0])

    def close(self):
        pass


def run(spark, folder, keys):
    spark.createDataFrame([(key,) for key in keys], "key STRING").coalesce(1).write.parquet(
        str(folder / "input"), mode="append"
    )
    stream = spark.readStream.schema("key STRING").parquet(str(folder / "input"))
    made = stream.groupBy("key").transformWithState(
        LastWriteRefused(), "key STRING", "append", "none"
    )
    query = (
        made.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "output"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_task_whose_last_write_spark_refused_does_not_commit(spark, tmp_path):
    run(spark, tmp_path, ["a", "b", "c"])
    with pytest.raises(StreamingQueryException, match="Spark refused what was asked"):
        run(spark, tmp_path, ["a", "refused"])
    assert sorted(each.name for each in (tmp_path / "checkpoint/commits").glob("[0-9]*")) == ["0"]
    written = spark.read.parquet(str(tmp_path / "output")).collect()
    assert sorted(row.key for row in written) == ["a", "b", "c"]
