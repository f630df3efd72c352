"""Spark reads the files of state that are written here, and its query goes on from them."""

import dataclasses
import json
import shutil

import pytest

from statemigrate.checkpoint.logs.entries import CODEC, PROVIDER, has_checksums
from statemigrate.checkpoint.rows.buffers import Rows, joined
from statemigrate.checkpoint.shape import describe
from statemigrate.checkpoint.stores.files import hdfs_version, store_folder
from statemigrate.checkpoint.stores.hdfs_state import HdfsState
from statemigrate.files import LocalFiles
from statemigrate.rewrite.rocksdb_writing import RocksDBStore
from statemigrate.rewrite.store_writers import HdfsStore

pytestmark = [pytest.mark.spark, pytest.mark.long]

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
UNIQUE = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")
WRITTEN = [
    ("hdfs", "lz4", False),
    ("hdfs", "zstd", False),
    ("rocksdb", "lz4", False),
    ("rocksdb", "snappy", False),
    ("rocksdb", "lzf", False),
    ("rocksdb", "zstd", False),
    ("rocksdb", "zstd", True),
]


def rewritten(root, target, way, codec, *, ids):
    """The checkpoint ``root`` of the HDFS-backed provider with its state written anew."""
    from state_queries import WAYS

    shutil.copytree(root, target, ignore=shutil.ignore_patterns("*.crc", "*.delta", "*.snapshot"))
    files = LocalFiles(root)
    shape = describe(files)
    assert not has_checksums(shape.conf)
    for operator in shape.operators:
        for each in operator.stores:
            for partition in range(2):
                folder = store_folder(operator.number, partition, each.name)
                scratch = target.with_name(f"scratch-{folder.replace('/', '-')}")
                writer = opened(scratch, shape.batch + 1, way, codec, ids=ids)
                version = hdfs_version(files, folder, shape.batch + 1)
                for keys, values in HdfsState(files, version, shape.conf).rows():
                    writer.put(*wrapped(way, keys, values))
                for name, content in writer.close().items():
                    LocalFiles(target).put(f"{folder}/{name}", content)
    for batch, entry in shape.offsets.items():
        entry.pinned.update({PROVIDER: WAYS[way]["stateStore.providerClass"], CODEC: codec})
        (target / "offsets" / str(batch)).write_bytes(entry.data)
    if ids:
        commit = shape.commits[shape.batch]
        told = {each.number: ((UNIQUE[1],) * len(each.stores),) * 2 for each in shape.operators}
        changed = dataclasses.replace(commit, version=2, state_ids=told)
        (target / "commits" / str(shape.batch)).write_bytes(changed.data)


def opened(scratch, version, way, codec, *, ids):
    if way == "hdfs":
        return HdfsStore(scratch, version, codec)
    return RocksDBStore(scratch, version, codec, {}, unique_ids=UNIQUE if ids else None)


def wrapped(way: str, keys: Rows, values: Rows) -> tuple[Rows, Rows]:
    return (keys, values) if way == "hdfs" else (joined(b"\0", keys), joined(b"\0", values))


def rows_of(spark, root, store="default", *, ids=False):
    """Spark's reader looks for files with ids where the session says so."""
    spark.conf.set(FORMAT, "2" if ids else "1")
    try:
        frame = spark.read.format("statestore").option("storeName", store).load(str(root))
        return sorted(map(repr, frame.collect()))
    finally:
        spark.conf.unset(FORMAT)


@pytest.mark.parametrize(("way", "codec", "ids"), WRITTEN)
def test_spark_reads_the_same_rows(spark, made, tmp_path, way, codec, ids):
    root = made("aggregation", "hdfs").checkpoint
    rewritten(root, tmp_path / "new", way, codec, ids=ids)
    expected = rows_of(spark, root)
    assert len(expected) == 7
    assert rows_of(spark, tmp_path / "new", ids=ids) == expected


@pytest.mark.parametrize(
    ("name", "way", "ids"),
    [
        ("aggregation", "hdfs", False),
        ("aggregation", "rocksdb", False),
        ("join", "rocksdb", False),
        ("join", "rocksdb", True),
    ],
)
def test_the_query_goes_on_as_if_nothing_had_happened(spark, made, tmp_path, name, way, ids):
    from state_queries import WAYS, StateQuery

    old = made(name, "hdfs")
    twin = tmp_path / "twin"
    shutil.copytree(old.checkpoint, twin, ignore=shutil.ignore_patterns("*.crc"))
    rewritten(old.checkpoint, tmp_path / "new", way, "zstd", ids=ids)
    inputs = shutil.copytree(old.root / "one", tmp_path / "one").parent
    if name == "join":
        shutil.copytree(old.root / "two", tmp_path / "two")
    # The source's log names the files it has taken by their paths.
    moved_sources(old.root, inputs, [twin, tmp_path / "new"])
    outputs = []
    for checkpoint, kept in ((twin, "hdfs"), (tmp_path / "new", f"{way} with ids" if ids else way)):
        query = StateQuery(spark, inputs, name, checkpoint)
        for batch in (5, 6):
            query.feed(batch)
        query.run(**WAYS[kept])
        outputs.append(query.output)
    assert outputs[0] == outputs[1]
    assert sum(map(len, outputs[0].values()))
    expected = rows_of(spark, twin, store_of(name))
    assert rows_of(spark, tmp_path / "new", store_of(name), ids=ids) == expected


def store_of(name: str) -> str:
    return "left-keyWithIndexToValue" if name == "join" else "default"


def moved_sources(old, new, checkpoints):
    for checkpoint in checkpoints:
        for file in checkpoint.glob("sources/*/[0-9]*"):
            version, *lines = file.read_text().split("\n")
            entries = [json.loads(line) for line in lines]
            for entry in entries:
                entry["path"] = entry["path"].replace(str(old), str(new))
            file.write_text("\n".join([version, *map(json.dumps, entries)]))
