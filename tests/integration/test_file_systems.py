"""The file systems are there, and Spark's own query keeps its checkpoint on them."""

import pytest

pytestmark = pytest.mark.integration


def test_a_query_of_plain_spark_goes_on_from_a_checkpoint_there(spark, remote, tmp_path):
    counts = [_run(spark, remote, tmp_path, each) for each in ("a", "b")]
    assert counts == [[("a", 1)], [("b", 1)]]
    state = spark.read.format("statestore").load(f"{remote}/checkpoint")
    assert sorted(row.key.word for row in state.collect()) == ["a", "b"]


def test_a_namenode_that_was_restarted_has_its_files_still(spark, hdfs):
    path = f"{hdfs.uri}/kept"
    spark.range(3).write.parquet(path)
    hdfs.restart_namenode()
    assert spark.read.parquet(path).count() == 3


def _run(spark, remote, folder, word):
    (folder / f"{word}.json").write_text(f'{{"word": "{word}"}}\n')
    seen = []
    words = spark.readStream.schema("word STRING").json(str(folder))
    query = (
        words.groupBy("word")
        .count()
        .writeStream.outputMode("update")
        .option("checkpointLocation", f"{remote}/checkpoint")
        .foreachBatch(lambda rows, _: seen.extend(map(tuple, rows.collect())))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return seen
