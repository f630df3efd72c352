"""What is in Spark's own files of state is what Spark's own reader says is in them."""

import pytest

from statemigrate.checkpoint.logs.entries import codec_of
from statemigrate.checkpoint.operators.catalogue import used_partitions
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.unsafe_row import RowCodec
from statemigrate.checkpoint.shape import describe
from statemigrate.checkpoint.stores.files import hdfs_version, rocksdb_version, store_folder
from statemigrate.checkpoint.stores.hdfs_state import HdfsState
from statemigrate.checkpoint.stores.provider import provider_of
from statemigrate.checkpoint.stores.rocksdb_state import RocksDBState
from statemigrate.files import LocalFiles

pytestmark = [pytest.mark.spark, pytest.mark.long]

CODECS = ["lz4", "lzf", "snappy", "zstd"]
CODEC = "stateStore.compression.codec"
CHECKSUM = {"stateStore.rowChecksum.enabled": "true"}


def state_of(root, partition, store=0):
    """The keys and values of a partition as their bytes."""
    files = LocalFiles(root)
    shape = describe(files)
    (operator,) = shape.operators
    folder = store_folder(operator.number, partition, operator.stores[store].name)
    if provider_of(shape.conf).name != "rocksdb":
        version = hdfs_version(files, folder, shape.batch + 1)
        return joined(HdfsState(files, version, shape.conf).rows())
    ids = shape.commits[shape.batch].state_ids
    unique_id = ids and ids[operator.number][partition][store]
    version = rocksdb_version(files, folder, shape.batch + 1, unique_id, codec_of(shape.conf))
    stored = RocksDBState(files, version, shape.conf)
    found = joined(stored.rows())
    # Who counts reads keys alone.
    keys = Rows.concat([keys for keys, _ in stored.rows(values=False)])
    assert keys.to_list() == found[0].to_list()
    return found


def joined(batches):
    found = list(batches)
    return Rows.concat([k for k, _ in found]), Rows.concat([v for _, v in found])


def decoded(root, partition, *, before=(0, 0), store=0):
    """The same as Python values; ``before`` is what keys and values have in front."""
    (operator,) = describe(LocalFiles(root)).operators
    family = operator.stores[store].families[0]
    parts = []
    for rows, schema, skipped in zip(
        state_of(root, partition, store), (family.key, family.value), before, strict=True
    ):
        plain = Rows.from_list([row[skipped:] for row in rows.to_list()])
        parts.append(RowCodec(schema).decode(plain).to_pylist())
    return sorted(zip(*parts, strict=True), key=repr)


def by_spark(spark, root, partition, store="default"):
    frame = spark.read.format("statestore").option("storeName", store).load(str(root))
    rows = frame.where(f"partition_id = {partition}").select("key", "value").collect()
    return sorted(((r.key.asDict(True), r.value.asDict(True)) for r in rows), key=repr)


def same(ours, sparks):
    """Times are compared as text: Arrow's have a zone, Spark's rows have none."""

    def plain(rows):
        return [repr(r).replace(", tzinfo=zoneinfo.ZoneInfo(key='UTC')", "") for r in rows]

    assert len(ours) == len(sparks)
    return sorted(plain(ours)) == sorted(plain(sparks))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("way", ["hdfs", "changelogs"])
def test_each_codec_is_read(spark, made, way, codec):
    root = made("deduplicate", way, **{CODEC: codec}).checkpoint
    before = (0, 0) if way == "hdfs" else (1, 1)
    found = [decoded(root, partition, before=before) for partition in range(2)]
    assert all(same(found[p], by_spark(spark, root, p)) for p in range(2))
    assert sum(map(len, found)) == 7


@pytest.mark.parametrize("way", ["hdfs", "changelogs"])
@pytest.mark.parametrize("checksums", [{}, CHECKSUM], ids=["plain", "with checksums"])
def test_keys_that_were_deleted_are_gone(spark, made, way, checksums):
    root = made("windows", way, **checksums).checkpoint
    for partition in range(2):
        rows = state_of(root, partition)
        frame = spark.read.format("statestore").load(str(root))
        assert len(rows[0]) == frame.where(f"partition_id = {partition}").count() > 0
        assert len({*rows[0].to_list()}) == len(rows[0])


def test_each_store_of_a_join_is_read(spark, made):
    root = made("join", "hdfs").checkpoint
    (operator,) = describe(LocalFiles(root)).operators
    assert used_partitions(operator) == 2
    for number, store in enumerate(operator.stores):
        frame = spark.read.format("statestore").option("storeName", store.name).load(str(root))
        for partition in range(2):
            keys, _ = state_of(root, partition, number)
            assert len(keys) == frame.where(f"partition_id = {partition}").count()
