"""List state as a real query's changelog has it: elements put and merged, rows or Avro, summed."""

import glob
import json
from collections import defaultdict

import pytest
from listing import Listing, elements_of
from support.sessions import spark_version, temporary_settings

from statemigrate.checkpoint.logs.entries import ENCODING, MERGE_OPERATOR, ROW_CHECKSUM
from statemigrate.checkpoint.operators.shapes import NoPrefix
from statemigrate.checkpoint.rows.keys import KeyCodec, families_of
from statemigrate.checkpoint.rows.values import ValueCodec
from statemigrate.checkpoint.stores.changelog import PUT, read_changelog
from statemigrate.checkpoint.stores.provider import row_layout

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(spark_version() < (4, 2), reason="has one merge operator, no checksums"),
]
KEY = "key STRING"
VALUE = "text STRING, n BIGINT"
CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
CODEC = "spark.sql.streaming.stateStore.compression.codec"


@pytest.mark.long(weight=1 / 3)
@pytest.mark.parametrize(
    ("merging", "encoding", "summed"),
    [("1", "unsaferow", "true"), ("2", "unsaferow", "true"), ("1", "avro", "false")],
)
def test_the_elements_of_lists_are_read_and_written(spark, tmp_path, merging, encoding, summed):
    settings = {MERGE_OPERATOR: merging, ENCODING: encoding, ROW_CHECKSUM: summed}
    run(spark, tmp_path, {**settings, CHANGELOGS: "true", CODEC: "zstd"})
    provider = spark.conf.get("spark.sql.streaming.stateStore.providerClass")
    layout = row_layout({"spark.sql.streaming.stateStore.providerClass": provider, **settings})
    found, written = defaultdict(list), 0
    for path in glob.glob(f"{tmp_path}/checkpoint/state/0/[01]/1.changelog"):  # noqa: PTH207
        with open(path, "rb") as file:  # noqa: PTH123
            for changes in read_changelog(file, "zstd", path).changes:
                written += check(layout, changes, found)
    assert dict(found) == {name: elements_of(name) for name in ("a", "b", "c")}
    assert written == len(found)


def check(layout, changes, found):
    """Read a list's records into ``found``, and write each record of one element as it was."""
    # The list's own family has the most bytes a value: its counter has one long.
    families = families_of(changes.keys)
    longest = {f: max(changes.values.lengths[families == f]) for f in set(families.tolist())}
    family = max(longest, key=longest.get)
    key, value = (json.loads(schema_of(ddl)) for ddl in (KEY, VALUE))
    chosen = families == family
    keys, values = changes.keys.take(chosen), changes.values.take(chosen)
    keyed = KeyCodec(key, NoPrefix(), layout, family)
    valued = ValueCodec(value, layout, is_list=True)
    read, owners = valued.decode(values, keys)
    names = keyed.decode(keys).field(0).to_pylist()
    assert keyed.encode(keyed.decode(keys)).to_list() == keys.to_list()
    again = valued.encode(read, keys.take(owners)).to_list()
    records = [[] for _ in names]
    for owner, element, data in zip(owners.tolist(), read.to_pylist(), again, strict=True):
        found[names[owner]].append(element)
        records[owner].append(data)
    assert [layout.delimiter.join(each) for each in records] == values.to_list()
    return int((changes.kinds[chosen] == PUT).sum())


def schema_of(ddl):
    from pyspark.sql.types import StructType

    return StructType.fromDDL(ddl).json()


def run(spark, folder, settings):
    source = str(folder / "input")
    spark.createDataFrame([("a",), ("b",), ("c",)], KEY).coalesce(1).write.parquet(source)
    with temporary_settings(spark, settings):
        stream = spark.readStream.schema(KEY).parquet(source).groupBy("key")
        listed = stream.transformWithStateInPandas(Listing(), KEY, "Update", "None")
        started = listed.writeStream.format("noop").outputMode("update")
        started = started.option("checkpointLocation", str(folder / "checkpoint"))
        started.trigger(availableNow=True).start().awaitTermination()
