"""The one way to files on HDFS and S3, and what a store that is away or not allowed says."""

import time

import pytest
from support.files_contract import FilesContract

from statemigrate.errors import StorageError
from statemigrate.files import hadoop_failures as reaching
from statemigrate.files.open import open_files

pytestmark = pytest.mark.integration


class TestRemoteFiles(FilesContract):
    @pytest.fixture
    def files(self, spark, remote):
        return open_files(f"{remote}/checkpoint")


def refused(place):
    began = time.monotonic()
    with pytest.raises(StorageError, match="cannot be reached") as raised:
        open_files(place)
    assert time.monotonic() - began < 10
    return str(raised.value)


def test_a_bucket_that_is_not_there_is_named(spark, s3):
    assert "expected: a bucket that exists" in refused("s3a://no-such-bucket/checkpoint")


def test_wrong_and_missing_credentials_and_addresses_are_named(spark, s3):
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    names = ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.endpoint")
    before = {name: hadoop.get(name) for name in names}
    providers = "fs.s3a.aws.credentials.provider"
    known = hadoop.get(providers)
    reaching._reached.clear()
    try:
        hadoop.set("fs.s3a.endpoint", "http://127.0.0.1:1")
        assert "fs.s3a.endpoint" in refused(f"{s3.uri}/checkpoint")
        hadoop.unset("fs.s3a.access.key")
        simple = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
        hadoop.set(providers, simple)
        assert "fs.s3a.access.key and fs.s3a.secret.key" in refused(f"{s3.uri}/checkpoint")
    finally:
        hadoop.set(providers, known)
        for name, value in before.items():
            hadoop.set(name, value)
    assert open_files(f"{s3.uri}/checkpoint").find() is None
