"""Spark opens the tables that are written for large state, and its query goes on from them."""

import io
import shutil

import numpy as np
import pytest
from test_stores_that_spark_reads import moved_sources, rows_of, wrapped

from statemigrate.checkpoint.logs.entries import CODEC, PROVIDER, ROCKSDB_PROVIDER
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.values import merged_values
from statemigrate.checkpoint.shape import describe
from statemigrate.checkpoint.stores.changelog import MERGE, read_changelog
from statemigrate.checkpoint.stores.files import (
    hdfs_version,
    read_snapshot,
    rocksdb_version,
    store_folder,
)
from statemigrate.checkpoint.stores.hdfs_state import HdfsState
from statemigrate.errors import RewriteError
from statemigrate.files import LocalFiles
from statemigrate.rewrite.rocksdb_writing import RocksDBStore, SortedTables

pytestmark = pytest.mark.spark


def rewritten(root, target, *, run):
    """A checkpoint of the HDFS-backed provider, its state in tables of ``run`` bytes."""
    shutil.copytree(root, target, ignore=shutil.ignore_patterns("*.crc", "*.delta", "*.snapshot"))
    files = LocalFiles(root)
    shape = describe(files)
    for each in shape.operators[0].stores:
        for partition in range(2):
            folder = store_folder(0, partition, each.name)
            scratch = target.with_name(f"scratch-{folder.replace('/', '-')}")
            store = RocksDBStore(scratch, shape.batch + 1, "zstd", {}, run=run)
            version = hdfs_version(files, folder, shape.batch + 1)
            for keys, values in HdfsState(files, version, shape.conf).rows():
                for at in range(len(keys)):
                    store.put(*wrapped("rocksdb", keys.slice(at, at + 1), values.slice(at, at + 1)))
            for name, content in store.close().items():
                LocalFiles(target).put(f"{folder}/{name}", content)
    for batch, entry in shape.offsets.items():
        entry.pinned.update({PROVIDER: ROCKSDB_PROVIDER, CODEC: "zstd"})
        (target / "offsets" / str(batch)).write_bytes(entry.data)


@pytest.mark.long
@pytest.mark.parametrize("run", [1, 200], ids=["a table a row", "a table some rows"])
def test_spark_reads_the_same_rows_from_tables(spark, made, tmp_path, run):
    root = made("windows", "hdfs").checkpoint
    rewritten(root, tmp_path / "new", run=run)
    files = LocalFiles(tmp_path / "new")
    version = rocksdb_version(files, "state/0/0", describe(files).batch + 1, None, "zstd")
    assert len(version.shared) > 0
    assert rows_of(spark, tmp_path / "new") == rows_of(spark, root)


@pytest.mark.long
def test_the_query_goes_on_from_tables(spark, made, tmp_path):
    from state_queries import WAYS, StateQuery

    old = made("join", "hdfs")
    twin = tmp_path / "twin"
    shutil.copytree(old.checkpoint, twin, ignore=shutil.ignore_patterns("*.crc"))
    rewritten(old.checkpoint, tmp_path / "new", run=100)
    for source in ("one", "two"):
        shutil.copytree(old.root / source, tmp_path / source)
    moved_sources(old.root, tmp_path, [twin, tmp_path / "new"])
    outputs = []
    for checkpoint, way in ((twin, "hdfs"), (tmp_path / "new", "rocksdb")):
        query = StateQuery(spark, tmp_path, "join", checkpoint)
        for batch in (5, 6):
            query.feed(batch)
        query.run(**WAYS[way])
        outputs.append(query.output)
    assert outputs[0] == outputs[1]
    assert sum(map(len, outputs[0].values()))


def test_a_key_that_comes_twice_is_refused(tmp_path):
    tables = SortedTables(tmp_path / "scratch")
    with pytest.raises(RewriteError, match="does not take the rows"):
        tables.add(Rows.from_list([b"k", b"k"]), Rows.from_list([b"v", b"w"]))


FAMILIES = {"default": 0, "n": 1, "$rowCounter_n": 2}


def test_what_is_merged_stays_in_the_changelog(tmp_path):
    store = RocksDBStore(
        tmp_path / "scratch", 4, "zstd", FAMILIES, {"$rowCounter_n"}, merges=True, run=30
    )
    for number in range(3):
        key = Rows.from_list([b"\1\0k%d" % number])
        store.put(key, Rows.from_list([b"first" * 4]))
        store.merge(key, Rows.from_list([b"second"]))
        store.put(Rows.from_list([b"\2\0k%d" % number]), Rows.from_list([b"count"]))
    made = store.close()
    assert sum(name.startswith("SSTs/") for name in made) == 4
    with made["4.changelog"].open("rb") as source:
        found = read_changelog(source, "zstd", "x").changes
        assert [kind for each in found for kind in each.kinds.tolist()] == [MERGE] * 3
    told = read_snapshot(io.BytesIO(made["3.zip"]), "3.zip")
    assert (told.keys, told.internal_keys, told.families) == (3, 3, FAMILIES)


@pytest.mark.parametrize("rows", [0, 3])
def test_the_first_version_of_families_is_a_snapshot_which_has_their_numbers(tmp_path, rows):
    store = RocksDBStore(tmp_path / "scratch", 1, "zstd", FAMILIES, {"$rowCounter_n"}, merges=True)
    assert store.is_snapshot
    for number in range(rows):
        store.put(Rows.from_list([b"\1\0k%d" % number]), Rows.from_list([b"value"]))
    made = store.close()
    assert {name.partition("/")[0] for name in made} == ({"SSTs", "1.zip"} if rows else {"1.zip"})
    told = read_snapshot(io.BytesIO(made["1.zip"]), "1.zip")
    assert (told.keys, told.families) == (rows, FAMILIES)


def test_the_elements_of_a_list_are_merged_as_rocksdb_merges_them():
    keys, values = Rows.from_list([b"k", b"k", b"l"]), Rows.from_list([b"a", b"bc", b"d"])
    lists, merged = merged_values(keys, values, np.array([0, 0, 1]), b",")
    assert (lists.to_list(), merged.to_list()) == ([b"k", b"l"], [b"a,bc", b"d"])


@pytest.mark.parametrize("version", [1, 4])
def test_what_is_only_put_is_a_snapshot_of_its_version(tmp_path, version):
    store = RocksDBStore(tmp_path / "scratch", version, "zstd", {}, run=30)
    for number in range(3):
        store.put(Rows.from_list([b"k%d" % number]), Rows.from_list([b"value" * 6]))
    made = store.close()
    assert {name.partition("/")[0] for name in made} == {"SSTs", f"{version}.zip"}
    assert read_snapshot(io.BytesIO(made[f"{version}.zip"]), "zip").keys == 3
