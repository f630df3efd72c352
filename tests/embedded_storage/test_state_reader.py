"""Reading a checkpoint's last committed version, without Spark and without a trace."""

import json
import tempfile
from decimal import Decimal

import pytest
from support.file_hashes import file_hashes

from statemigrate import ScriptError, TransformError, init, open_state
from statemigrate.commands.browse import browse_page
from statemigrate.commands.diff import diff
from statemigrate.commands.sql import sql
from statemigrate.demo.paths import example_migrations
from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.embedded.versions import publish_manifest
from statemigrate.errors import CheckpointError, CorruptFileError, StartupError
from statemigrate.formats import Struct
from statemigrate.processor.keys import TupleKeyCodec
from statemigrate.scripts import ScriptFolder

LINEAGE = ScriptFolder(example_migrations()).lineage("auctions")
OLD = StoredFamily("auctions", LINEAGE.oldest, LINEAGE.format_of(LINEAGE.oldest))
NEW = StoredFamily(f"auctions@{LINEAGE.head}", LINEAGE.head, LINEAGE.format_of(LINEAGE.head))
PERSONS = StoredFamily("persons", "base", Struct("name STRING"))
TAGS = StoredFamily("tags", "base", Struct("tag STRING"))
KEY = Struct("entity STRING").struct_type()
USER_KEY = Struct("shelf INT").struct_type()


def key(entity):
    return TupleKeyCodec(KEY).encode((entity,))


def old(bids, total):
    flat = {"seller": 1, "name": "lot", "category": "maps"}
    return {**flat, "bids": bids, "total": total, "highest": None}


def new(bids, total):
    price = {"bids": bids, "total": Decimal(total), "highest": None}
    return {"seller": 1, "item": {"name": "lot", "category": "maps"}, "price": price}


class Checkpoint:
    """A checkpoint of two partitions, written a version at a time."""

    def __init__(self, root):
        self.layout = Layout.of(root / "checkpoint")
        self.working = root / "working"
        self.states = [PartitionState(), PartitionState()]
        self.version = -1

    def write(self, *changes, stores, snapshot=False, committed=True):
        """Make a version; each partition is given to its function."""
        self.version += 1
        for number, change in enumerate(changes):
            place = PartitionPaths(
                number, self.layout.partition(number), self.working / str(number)
            )
            partition = Partition(place, self.states[number], self.version)
            change(partition)
            self.states[number] = partition.commit(snapshot=snapshot)
        manifest = Manifest(self.version, KEY.jsonValue(), tuple(self.states), stores, {})
        publish_manifest(self.layout, manifest)
        if committed:
            commits = self.layout.checkpoint / "commits"
            commits.mkdir(exist_ok=True)
            (commits / str(self.version)).touch()


def putting(family, kind="value", **values):
    def change(partition):
        opened = partition.target(family, kind)
        for entity, value in values.items():
            opened.put(key(entity), value)

    return change


def migrating(entity, value):
    def change(partition):
        partition.source(OLD, "value").delete(key(entity))
        partition.target(NEW, "value").put(key(entity), value)

    return change


@pytest.fixture
def checkpoint(tmp_path):
    """Auctions a and c in the old format, and b in the new one."""
    made = Checkpoint(tmp_path)
    made.write(
        putting(OLD, a=old(1, 250), b=old(2, 999)),
        putting(OLD, c=old(3, 5)),
        stores={"auctions": StoredStore("value", (OLD,))},
        snapshot=True,
    )
    made.write(
        migrating("b", new(4, "12.34")),
        lambda _: None,
        stores={"auctions": StoredStore("value", (NEW, OLD))},
    )
    return made


def read(checkpoint, store="auctions", **options):
    with open_state(checkpoint.layout.checkpoint, **options) as state:
        return list(state[store].entries())


def test_values_of_both_formats_are_read_in_the_new_one(checkpoint):
    assert read(checkpoint, migrations=example_migrations()) == [
        (("a",), new(1, "2.50")),
        (("b",), new(4, "12.34")),
        (("c",), new(3, "0.05")),
    ]


def test_the_values_can_be_read_in_the_older_format(checkpoint):
    found = read(checkpoint, migrations=example_migrations(), targets={"auctions": "base"})
    assert found == [(("a",), old(1, 250)), (("b",), old(4, 1234)), (("c",), old(3, 5))]


def test_reading_changes_nothing_and_leaves_nothing(checkpoint, tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    before = file_hashes(checkpoint.layout.checkpoint)
    with open_state(checkpoint.layout.checkpoint, migrations=example_migrations()) as state:
        assert len(list(state["auctions"].entries())) == 3
        assert list(temporary.iterdir()) != []
    assert file_hashes(checkpoint.layout.checkpoint) == before
    assert list(temporary.iterdir()) == []


def test_an_iteration_may_be_left_in_the_middle(checkpoint):
    with open_state(checkpoint.layout.checkpoint, migrations=example_migrations()) as state:
        entries = state["auctions"].entries()
        assert next(entries)[0] == ("a",)
    assert len(read(checkpoint, migrations=example_migrations())) == 3


def test_a_version_that_spark_has_not_committed_is_not_read(checkpoint):
    checkpoint.write(
        migrating("a", new(9, "9.00")),
        lambda _: None,
        stores={"auctions": StoredStore("value", (NEW, OLD))},
        committed=False,
    )
    with open_state(checkpoint.layout.checkpoint, migrations=example_migrations()) as state:
        assert state.batch == 1
        assert state.stores == ("auctions",)
        assert next(state["auctions"].entries()) == (("a",), new(1, "2.50"))


def test_a_store_without_scripts_is_read_as_it_is(tmp_path):
    made = Checkpoint(tmp_path)
    stores = {"persons": StoredStore("value", (PERSONS,))}
    made.write(putting(PERSONS, ada={"name": "Ada"}), putting(PERSONS), stores=stores)
    assert read(made, "persons") == [(("ada",), {"name": "Ada"})]
    assert read(made, "persons", migrations=example_migrations()) == [(("ada",), {"name": "Ada"})]


def test_lists_are_read_whole(tmp_path):
    made = Checkpoint(tmp_path)
    tags = [{"tag": "x"}, {"tag": "y"}]
    change = putting(TAGS, "list", ada=tags)
    made.write(change, putting(TAGS, "list"), stores={"tags": StoredStore("list", (TAGS,))})
    assert read(made, "tags") == [(("ada",), tags)]


def test_map_entries_have_the_maps_key_behind_the_grouping_key(tmp_path):
    made = Checkpoint(tmp_path)

    def change(partition):
        opened = partition.target(TAGS, "map")
        for shelf in (2, 1):
            opened.put(key("ada") + TupleKeyCodec(USER_KEY).encode((shelf,)), {"tag": f"t{shelf}"})

    stores = {"tags": StoredStore("map", (TAGS,), {}, USER_KEY.jsonValue())}
    made.write(change, putting(TAGS, "map"), stores=stores)
    assert read(made, "tags") == [(("ada", 1), {"tag": "t1"}), (("ada", 2), {"tag": "t2"})]


def test_values_of_two_formats_need_the_scripts(checkpoint):
    with pytest.raises(StartupError, match="there is no script for it"):
        read(checkpoint, migrations=None)


def test_an_unknown_store_is_named(checkpoint):
    with pytest.raises(CheckpointError) as raised:
        read(checkpoint, "bids")
    assert (raised.value.expected, raised.value.found) == ("one of auctions", "bids")


def test_a_checkpoint_without_a_commit_is_an_error(tmp_path):
    Layout.of(tmp_path).versions.mkdir(parents=True)
    with pytest.raises(CheckpointError, match="nothing is committed"):
        open_state(tmp_path)


def test_a_damaged_changelog_is_named(checkpoint):
    (damaged,) = checkpoint.layout.partition(0).glob("*1-*.changelog")
    damaged.write_bytes(damaged.read_bytes()[:-10])
    with pytest.raises(CorruptFileError) as raised:
        read(checkpoint, migrations=example_migrations())
    assert str(damaged) in str(raised.value)


FAILING = """
from statemigrate import Struct

revision = "aaaa11112222"
down_revision = None
branch_labels = ("tags",)
store = "tags"
old = Struct("tag STRING")
new = Struct("tag STRING, size INT")


def upgrade(value):
    value["tag"] = value["tag"].strip("-")
    return {**value, "size": int(value["tag"])}


def downgrade(value):
    return {"tag": value["tag"]}
"""
REASON = "Store 'tags': the transform from revision base to aaaa11112222 raised"


@pytest.fixture
def unmigrated(tmp_path):
    """Values of which one migrates, and the folder of the script."""
    made = Checkpoint(tmp_path)
    values = {"a": {"tag": "-7-"}, "b": {"tag": "-old-"}, "c": {"tag": "9"}}
    stores = {"tags": StoredStore("value", (TAGS,))}
    made.write(putting(TAGS, **values), lambda _: None, stores=stores)
    made.write(putting(TAGS, b={"tag": "-older-"}), lambda _: None, stores=stores)
    versions = tmp_path / "migrations" / "versions"
    init(migrations=versions.parent)
    (versions / "aaaa11112222_size.py").write_text(FAILING)
    return made.layout.checkpoint, versions.parent


def test_a_value_that_does_not_migrate_is_null_with_the_reason_and_what_is_stored(unmigrated):
    checkpoint, migrations = unmigrated
    with open_state(checkpoint, migrations=migrations) as state, pytest.raises(TransformError):
        state["tags"].to_arrow()
    with open_state(checkpoint, migrations=migrations, on_error="null") as state:
        table = state["tags"]
        found = {row["entity"]: row for row in table.to_arrow().to_pylist()}
        assert {key: (row["tag"], row["size"]) for key, row in found.items()} == {
            "a": ("7", 7),
            "b": (None, None),
            "c": ("9", 9),
        }
        assert [found[each]["_error"] for each in "ac"] == [None, None]
        assert found["b"]["_error"].startswith(REASON)
        assert "ValueError" in found["b"]["_error"]
        assert json.loads(found["b"]["_stored"]) == {"tag": "-older-"}
        named = table.to_arrow(["entity", "_error"]).to_pylist()
        assert [row["entity"] for row in named if row["_error"]] == ["b"]
        changes = table.changes(0).to_pylist()
        assert [(row["entity"], row["_change"]) for row in changes] == [("b", "changed")]
        assert table.history("b")["_change"].to_pylist() == ["first", "changed"]


def test_neither_mask_nor_hidden_values_are_in_the_reason(unmigrated, monkeypatch):
    checkpoint, migrations = unmigrated
    opened = {"migrations": migrations, "on_error": "null"}
    with open_state(checkpoint, mask=["tag"], **opened) as state:
        (row,) = (row for row in state["tags"].to_arrow().to_pylist() if row["_error"])
        assert row["_error"] == REASON
        assert len(row["_stored"]) == 16
    monkeypatch.setenv("STATEMIGRATE_NO_VALUES", "1")
    with open_state(checkpoint, **opened) as state:
        (row,) = (row for row in state["tags"].to_arrow().to_pylist() if row["_error"])
        assert row["_error"] == f"{REASON}: ValueError"


def test_values_that_do_not_migrate_are_shown_by_sql_and_diff_and_in_a_browser(unmigrated):
    checkpoint, migrations = unmigrated
    query = "SELECT entity, _stored FROM tags WHERE _error IS NOT NULL"
    found = sql(query, checkpoint, migrations=migrations, on_error="null")
    assert found.rows == [("b", '{"tag": "-older-"}')]
    with pytest.raises(TransformError, match="--on-error null"):
        sql("SELECT size FROM tags", checkpoint, migrations=migrations)
    (found,) = diff(checkpoint, migrations=migrations).stores
    assert (found.value[-2:], dict(found.counts)["changed"]) == (("_error", "_stored"), 1)
    (row,) = found.table.to_pylist()
    assert [json.loads(each["_stored"])["tag"] for each in (row["_before"], row)] == [
        "-old-",
        "-older-",
    ]
    page = browse_page(checkpoint, migrations=migrations)
    assert REASON.replace("'", "&#39;") in page or REASON in page
    assert "-older-" in page


def test_sql_raises_what_is_wrong_with_a_script_as_every_other_verb(unmigrated):
    checkpoint, migrations = unmigrated
    (script,) = (migrations / "versions").glob("*.py")
    script.write_text(FAILING.replace('old = Struct("tag STRING")', ""))
    with pytest.raises(ScriptError) as refused:
        sql("SELECT size FROM tags", checkpoint, migrations=migrations)
    assert refused.value.code == "SM-SCRIPT-015"


def test_another_word_than_raise_and_null_is_refused(unmigrated):
    checkpoint, migrations = unmigrated
    with pytest.raises(StartupError) as refused:
        open_state(checkpoint, migrations=migrations, on_error="skip")
    assert (refused.value.code, refused.value.data) == ("SM-START-035", {"parameter": "on_error"})


def test_columns_that_are_called_as_those_of_failures_keep_their_values(tmp_path):
    made = Checkpoint(tmp_path)
    family = StoredFamily("odd", "base", Struct("_error STRING, _stored BIGINT"))
    stores = {"odd": StoredStore("value", (family,))}
    made.write(putting(family, a={"_error": "own", "_stored": 7}), lambda _: None, stores=stores)
    checkpoint = made.layout.checkpoint
    found = {}
    for on_error in ("raise", "null"):
        with open_state(checkpoint, migrations=None, on_error=on_error) as state:
            (found[on_error],) = state["odd"].to_arrow().to_pylist()
            assert state["odd"].get("a") == {"_error": "own", "_stored": 7}
    assert (found["raise"]["_error"], found["raise"]["_stored"]) == ("own", 7)
    assert (found["null"]["value__error"], found["null"]["value__stored"]) == ("own", 7)
    assert (found["null"]["_error"], found["null"]["_stored"]) == (None, None)
