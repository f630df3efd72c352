"""What a difference of two batches reads: files and blocks of what changed, and no others."""

from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import functions as f
from support.sessions import temporary_settings

from statemigrate import open_state
from statemigrate.checkpoint.stores.sorted_tables import SortedTable
from statemigrate.files.local import LocalFiles

pytestmark = [pytest.mark.spark, pytest.mark.long(weight=1 / 2)]

KEYS, CHANGED = 20_000, 10
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "hdfs": {},
    "tables": {"providerClass": ROCKSDB},
    "changelogs": {
        "providerClass": ROCKSDB,
        "rocksdb.changelogCheckpointing.enabled": "true",
    },
}


@pytest.fixture(scope="module", params=SETTINGS)
def query(request, spark, tmp_path_factory):
    """The checkpoint of two batches: many keys, of which the second changes a few."""
    root = tmp_path_factory.mktemp(request.param)
    begin = "spark.sql.streaming.stateStore."
    settings = {f"{begin}{name}": value for name, value in SETTINGS[request.param].items()}
    with temporary_settings(spark, settings):
        for batch, count in enumerate((KEYS, CHANGED)):
            rows = spark.range(count).selectExpr("concat('key-', id) AS k", "id AS n")
            rows.write.parquet(f"{root}/rows/{batch}")
            stream = spark.readStream.schema("k STRING, n BIGINT").parquet(f"{root}/rows/*")
            writer = stream.groupBy("k").agg(f.sum("n")).writeStream.outputMode("update")
            writer = writer.format("noop").option("checkpointLocation", f"{root}/checkpoint")
            writer.trigger(availableNow=True).start().awaitTermination()
    return request.param, root / "checkpoint"


@pytest.fixture
def read(monkeypatch):
    """How often each file is fetched, and under "blocks" how many blocks of tables are read."""
    found = Counter()
    fetch, records = LocalFiles.fetch, SortedTable.records

    def fetched(self, name, *args, **options):
        found[name] += 1
        return fetch(self, name, *args, **options)

    def recorded(self, blocks, **how):
        found["blocks"] += int(blocks.size)
        return records(self, blocks, **how)

    monkeypatch.setattr(LocalFiles, "fetch", fetched)
    monkeypatch.setattr(SortedTable, "records", recorded)
    return found


def test_a_difference_reads_only_what_changed(query, read):
    way, checkpoint = query
    table = open_state(checkpoint, migrations=None)["aggregation-0"]
    assert table.to_arrow().num_rows == KEYS
    blocks = read["blocks"]
    read.clear()
    changes = table.changes(0)
    assert changes.num_rows == CHANGED - 1  # The first key's sum is 0 before and after.
    assert set(changes["_change"].to_pylist()) == {"changed"}
    tables = {name: count for name, count in read.items() if name.endswith(".sst")}
    # Each side opens a table once, be it for the keys in it or for values.
    assert all(count <= 2 for count in tables.values())
    if way == "tables":
        assert blocks > 100
        # The new tables, and in the old ones the blocks that have one of the keys.
        assert 0 < read["blocks"] < blocks / 4
    if way == "changelogs":
        # No table is read but for blocks that have one of the keys.
        assert any(name.endswith(".changelog") for name in read)
        assert read["blocks"] <= 2 * CHANGED


def test_a_difference_streams_partition_by_partition(query, read):
    _, checkpoint = query
    table = open_state(checkpoint, migrations=None)["aggregation-0"]
    whole = table.changes(0)
    read.clear()
    batches = table.change_batches(0)
    first = next(batches)
    some = dict(read)
    rest = list(batches)
    assert pa.Table.from_batches([first, *rest]).equals(whole)
    assert set(first["_partition"].to_pylist()) < set(whole["_partition"].to_pylist())
    assert sum(some.values()) < sum(read.values())
