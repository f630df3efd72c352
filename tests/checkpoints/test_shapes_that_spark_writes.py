"""What Spark notes of every operator is read as a whole, and written as Spark wrote it."""

import dataclasses
import shutil

import pytest

from statemigrate.checkpoint.logs.entries import parse_commit, parse_entry
from statemigrate.checkpoint.operators.catalogue import kind_of, user_stores
from statemigrate.checkpoint.operators.metadata import parse_operator
from statemigrate.checkpoint.operators.schemas import parse_schemas, written_v2, written_v3
from statemigrate.checkpoint.operators.shapes import PrefixScan
from statemigrate.checkpoint.shape import describe
from statemigrate.errors import CheckpointError
from statemigrate.files import LocalFiles

pytestmark = [pytest.mark.spark, pytest.mark.long]

PREFIX = "spark.sql.streaming."
EXPECTED = {
    "aggregation": ("stateStoreSave", {"aggregation-0"}),
    "windows": ("stateStoreSave", {"aggregation-0"}),
    "no keys": ("stateStoreSave", {"aggregation-0"}),
    "deduplicate": ("dedupe", {"deduplicate-0"}),
    "deduplicate within watermark": (
        "dedupeWithinWatermark",
        {"deduplicate-within-watermark-0"},
    ),
    "sessions": ("sessionWindowStateStoreSaveExec", {"session-window-0"}),
    "join": ("symmetricHashJoin", {"join-0.left", "join-0.right"}),
    "limit": ("globalLimit", {"limit-0"}),
    "groups": ("applyInPandasWithState", {"groups-0"}),
    "variables": ("transformWithStateInPySparkExec", {"count", "numbers", "times"}),
}
MADE = [(name, "changelogs") for name in EXPECTED] + [
    ("join", "rocksdb with ids"),
    ("variables", "changelogs with ids"),
]


@pytest.mark.parametrize(("name", "way"), MADE)
def test_every_note_is_written_as_spark_wrote_it(made, name, way):
    root = made(name, way).checkpoint
    writers = {
        "offsets/[0-9]*": lambda data, path: parse_entry(data, path).data,
        "commits/[0-9]*": lambda data, path: parse_commit(data, path).data,
        "state/*/_metadata/metadata": lambda data, path: parse_operator(data, path).data,
        "state/*/_metadata/v2/[0-9]*": lambda data, path: parse_operator(data, path).data,
        "state/*/0/**/_metadata/schema": lambda data, path: written_v2(*parse_schemas(data, path)),
        "state/*/_stateSchema/*/[0-9]*": lambda data, path: written_v3(parse_schemas(data, path)),
    }
    seen = set()
    for pattern, written in writers.items():
        for file in root.glob(pattern):
            seen.add(pattern)
            assert written(file.read_bytes(), str(file)) == file.read_bytes(), file
    assert len(seen) == 4


@pytest.mark.parametrize(("name", "way"), MADE)
def test_a_checkpoint_is_described(spark, made, name, way):
    root = made(name, way).checkpoint
    shape = describe(LocalFiles(root))
    operator_name, stores = EXPECTED[name]
    (operator,) = shape.operators
    assert (operator.name, set(user_stores(operator))) == (operator_name, stores)
    assert kind_of(operator.name).word in " ".join(stores) or name == "variables"
    (told,) = spark.read.format("state-metadata").load(str(root)).limit(1).collect()
    assert shape.batch == told.maxBatchId
    assert operator.stores[0].partitions == told.numPartitions == 2
    by_spark = spark.read.format("statestore").option("storeName", operator.stores[0].name)
    if name != "variables":
        schema = by_spark.load(str(root)).schema.jsonValue()["fields"]
        family = operator.stores[0].families[0]
        assert [each["type"] for each in schema[:2]] == [family.key, family.value]


def test_a_variables_families_have_their_kinds(made):
    (operator,) = describe(LocalFiles(made("variables", "changelogs").checkpoint)).operators
    (store,) = operator.stores
    families = {each.name: each for each in store.families}
    assert store.has_families
    assert {name for name, each in families.items() if each.is_list} == {"numbers"}
    assert families["times"].encoder == PrefixScan(1)
    assert [field["name"] for field in families["times"].user_key["fields"]] == ["n"]
    assert {"$rowCounter_numbers", "$eventTimers_keyToTimestamp"} <= set(families)


@pytest.fixture
def copied(made, tmp_path):
    root = made("aggregation", "changelogs").checkpoint
    return shutil.copytree(root, tmp_path / "copied", ignore=shutil.ignore_patterns(".*.crc"))


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        ("commits/3", "batch 3 of .* is not committed"),
        ("commits/2", "commits/2 is missing"),
        ("offsets/2", "offsets/2 is missing"),
        ("metadata", "is not the checkpoint"),
        ("state/0/0/_metadata/schema", "schema is missing"),
    ],
)
def test_what_is_missing_is_named(copied, removed, message):
    (copied / removed).unlink()
    with pytest.raises(CheckpointError, match=message):
        describe(LocalFiles(copied))


@pytest.mark.parametrize("name", [name for name in EXPECTED if name != "variables"])
def test_an_operator_without_metadata_is_known_by_its_schemas(made, tmp_path, name):
    """Spark before 4.0 writes the same schemas, and no metadata."""
    root = made(name, "changelogs").checkpoint
    shutil.copytree(root, tmp_path / "old", ignore=shutil.ignore_patterns("*.crc"))
    (tmp_path / "old/state/0/_metadata/metadata").unlink()
    (found,) = describe(LocalFiles(tmp_path / "old")).operators
    (expected,) = describe(LocalFiles(root)).operators
    assert found == dataclasses.replace(expected, name=found.name, metadata_version=0)
    # Nothing tells a function in Scala from one in Python.
    assert found.name == expected.name or name == "groups"
    assert kind_of(found.name) is kind_of(expected.name)


def test_an_operator_that_schemas_do_not_tell_may_be_named(copied):
    (copied / "state/0/_metadata/metadata").unlink()
    path = copied / "offsets/3"
    entry = parse_entry(path.read_bytes(), "offsets/3")
    del entry.pinned[f"{PREFIX}aggregation.stateFormatVersion"]
    path.write_bytes(entry.data)
    with pytest.raises(CheckpointError, match="does not say which operator"):
        describe(LocalFiles(copied))
    (operator,) = describe(LocalFiles(copied), operators={0: "stateStoreSave"}).operators
    assert (operator.stores[0].name, operator.stores[0].partitions) == ("default", 2)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("stateStore.compression.codec", "brotli"),
        ("stateStore.encodingFormat", "protobuf"),
        ("stateStore.providerClass", "com.example.Provider"),
    ],
)
def test_a_setting_that_is_not_known_is_refused_by_name(copied, setting, value):
    path = copied / "offsets/3"
    entry = parse_entry(path.read_bytes(), "offsets/3")
    entry.pinned[PREFIX + setting] = value
    path.write_bytes(entry.data)
    with pytest.raises(Exception, match=f"{PREFIX}{setting} = {value} is not understood"):
        describe(LocalFiles(copied))


def test_a_batch_that_is_kept_can_be_chosen(copied):
    shape = describe(LocalFiles(copied), batch=2)
    assert (shape.batch, sorted(shape.commits)) == (2, [1, 2])
    with pytest.raises(CheckpointError, match="batch 9 is not among the commits"):
        describe(LocalFiles(copied), batch=9)
