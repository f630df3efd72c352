"""A checkpoint on a file system that does not answer, or refuses: each is a named error."""

from __future__ import annotations

import uuid
from contextlib import suppress

import pytest
from control_pipeline import ControlPipeline
from pyspark.errors import StreamingQueryException
from systems.s3 import S3
from tally import AMOUNTS, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import StorageError, backfill, migrated, status

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.fixture
def connector(spark, s3):
    """The first request to a bucket was made: for it, a busy machine loads classes for seconds."""
    bucket = spark._jvm.org.apache.hadoop.fs.Path(s3.uri)
    assert bucket.getFileSystem(spark._jsc.hadoopConfiguration()).exists(bucket)


@pytest.mark.usefixtures("connector")
def test_a_bucket_that_is_not_there_is_named(spark):
    with pytest.raises(StorageError) as raised:
        status("s3a://nobody-made-it/checkpoint", migrations=None, spark=spark)
    assert raised.value.expected == "a bucket that exists"
    assert "nobody-made-it" in str(raised.value)


@pytest.mark.usefixtures("connector")
def test_wrong_credentials_are_said_to_be_that(spark, systems_folder):
    refusing = S3(systems_folder, refusing=True)
    conf = spark._jsc.hadoopConfiguration()
    conf.set("fs.s3a.bucket.locked.endpoint", refusing.endpoint)
    try:
        with pytest.raises(StorageError) as raised:
            status("s3a://locked/checkpoint", migrations=None, spark=spark)
    finally:
        conf.unset("fs.s3a.bucket.locked.endpoint")
        refusing.stop()
    assert "fs.s3a.access.key and fs.s3a.secret.key" in raised.value.expected


def test_a_namenode_that_is_gone_is_named_and_one_that_is_back_costs_nothing(
    spark, hdfs, tmp_path, scripts
):
    place = f"{hdfs.uri}/{uuid.uuid4().hex}"
    pipeline = ControlPipeline(spark, tmp_path / "pipeline", checkpoint_directory=place)
    expected, folder = Expected(), scripts.write()
    first, second = batch("first", range(30)), batch("second", range(20, 40))
    pipeline.feed(first)
    pipeline.deploy_natively(CentsTally())
    expected.process(first, CENTS)

    hdfs.stop_namenode()
    try:
        with pytest.raises(StorageError) as raised:
            migrated(AmountsTally(), migrations=folder, checkpoint=place)
    finally:
        hdfs.start_namenode()
    assert place in str(raised.value)

    backfill(place, migrations=folder, keys_per_chunk=10, spark=spark)
    pipeline.feed(second)
    run_through_a_restart(pipeline, folder, hdfs)
    expected.drain(AMOUNTS)
    expected.process(second, AMOUNTS)
    assert pipeline.all_state() == expected.stored(CENTS, AMOUNTS)
    assert pipeline.handed_rows == expected.output


def run_through_a_restart(pipeline, folder, hdfs):
    """Where Spark's own call meets the restart it ends the query, which is started once more."""
    code = migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    query = pipeline.start(pipeline.result(code))
    try:
        hdfs.restart_namenode()
        with suppress(StreamingQueryException):
            query.processAllAvailable()
    finally:
        query.stop()
    again = migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    pipeline.deploy_natively(again)
