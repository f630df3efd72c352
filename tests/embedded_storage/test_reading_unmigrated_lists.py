"""A list that is not migrated yet reads in the target format too, element by element."""

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from statemigrate import open_state
from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.embedded.versions import publish_manifest
from statemigrate.errors import TransformError
from statemigrate.formats import Struct
from statemigrate.processor.keys import TupleKeyCodec

KEY = StructType([StructField("entity", StringType())])
SHELF = StructType([StructField("shelf", IntegerType())])
OLD = StoredFamily("tags", "base", Struct("tag STRING"))
SCRIPT = """
from statemigrate.formats import Struct

revision = "aaaa"
down_revision = None
branch_labels = ("tags",)
store = "tags"
old = Struct("tag STRING")
new = Struct("label STRING")


def upgrade(value):
    if value["tag"] == "poison":
        raise ValueError("poison")
    return {"label": value["tag"].upper()}


def downgrade(value):
    return {"tag": value["label"].lower()}
"""


def read(root, kind, key, value, *, user_key=None):
    """What a reader of the new format sees of one entry that is stored in the old one."""
    layout = Layout.of(root / "checkpoint")
    place = PartitionPaths(0, layout.partition(0), root / "working")
    partition = Partition(place, PartitionState(), 0)
    partition.target(OLD, kind).put(key, value)
    states = (partition.commit(snapshot=False),)
    stores = {"tags": StoredStore(kind, (OLD,), {}, user_key and user_key.jsonValue())}
    publish_manifest(layout, Manifest(0, KEY.jsonValue(), states, stores, {}))
    (layout.checkpoint / "commits").mkdir()
    (layout.checkpoint / "commits" / "0").touch()
    versions = root / "migrations" / "versions"
    versions.mkdir(parents=True)
    (versions.parent / "script.py.mako").touch()
    (versions / "aaaa_labels.py").write_text(SCRIPT)
    with open_state(layout.checkpoint, migrations=root / "migrations") as state:
        return list(state["tags"].entries())


def test_an_unmigrated_list_is_read_in_the_target_format(tmp_path):
    found = read(
        tmp_path, "list", TupleKeyCodec(KEY).encode(("ada",)), [{"tag": "x"}, {"tag": "y"}]
    )
    assert found == [(("ada",), [{"label": "X"}, {"label": "Y"}])]


def test_a_map_entry_that_does_not_migrate_is_named_with_its_own_key(tmp_path):
    key = TupleKeyCodec(KEY).encode(("ada",)) + TupleKeyCodec(SHELF).encode((7,))
    with pytest.raises(TransformError, match="poison") as raised:
        read(tmp_path, "map", key, {"tag": "poison"}, user_key=SHELF)
    assert raised.value.data["key"] == ("ada", 7)
