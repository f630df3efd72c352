"""Two queries' states, compared after each batch by what it has changed, and as a whole."""

import shutil

import previewed_code
import pytest
from previewed_code import (
    by_odd_names,
    by_odd_names_doubled,
    first_ones,
    first_ones_of_some,
    joined,
    joined_with_a_wrong_value,
    minutes,
    minutes_of_another_field,
)
from previewed_query import BATCHES, Query, events
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support.sessions import temporary_settings

from statemigrate import CorruptFileError, init, open_state
from statemigrate.preview import StateComparison, compare_states, equal
from statemigrate.state import StateTable

pytestmark = pytest.mark.spark

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORES = {
    "hdfs": {},
    "tables": {"providerClass": ROCKSDB},
    "changelogs": {"providerClass": ROCKSDB, "rocksdb.changelogCheckpointing.enabled": "true"},
}


def settings_of(store):
    """The settings of a query with a store."""
    named = {f"spark.sql.streaming.stateStore.{name}": each for name, each in STORES[store].items()}
    return {"spark.sql.shuffle.partitions": "2", **named}


class Recent(StatefulProcessor):
    """Keeps a list, a map and a value of each key, and forgets some of each."""

    step = 0

    def init(self, handle):
        self.last = handle.getValueState("last", "v BIGINT")
        self.values = handle.getListState("recent", "v BIGINT")
        self.by_value = handle.getMapState("by_value", "v BIGINT", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        found = [row.v for row in rows]
        self.last.update((max(found) + self.step,))
        self.values.appendValue((found[0],))
        if len(list(self.values.get())) > 2:
            self.values.put([(each + self.step,) for each in found[:2]])
        for each in found[:3]:
            if self.by_value.containsKey((each,)) and each % 3 == 0:
                self.by_value.removeKey((each,))
            else:
                self.by_value.updateValue((each,), (len(found) + self.step,))
        if key[0] == "k3":
            self.values.clear()
        yield Row(k=key[0], n=len(found))

    def close(self):
        pass


class RecentPlusOne(Recent):
    """Adds one to what it keeps."""

    step = 1


def recent(events):
    return events.groupBy("k").transformWithState(Recent(), "k STRING, n BIGINT", "Update", "None")


def recent_plus_one(events):
    return events.where("k <> 'k5'").groupBy("k").transformWithState(
        RecentPlusOne(), "k STRING, n BIGINT", "Update", "None"
    )  # fmt: skip


QUERIES = {
    "windows": (minutes, minutes_of_another_field, "update", 1),
    "join": (joined, joined_with_a_wrong_value, "append", 2),
    "without duplicates": (first_ones, first_ones_of_some, "append", 1),
    "processor": (recent, recent_plus_one, "update", 1),
    "odd names": (by_odd_names, by_odd_names_doubled, "update", 1),
}
WAYS = [
    (query, store)
    for query in QUERIES
    for store in STORES
    if (query, store) != ("processor", "hdfs")
]


@pytest.mark.long
@pytest.mark.parametrize(("query", "store"), WAYS)
def test_what_batches_have_changed_gives_what_all_rows_give(
    spark, tmp_path, monkeypatch, query, store
):
    old, new, mode, inputs = QUERIES[query]
    with temporary_settings(spark, settings_of(store)):
        made = [Query(spark, tmp_path / each.__name__, each, mode, inputs) for each in (old, new)]
    read = []
    batches = StateTable.batches
    monkeypatch.setattr(
        StateTable, "batches", lambda self, *some: read.append(self.name) or batches(self, *some)
    )
    followed, same, differs = StateComparison(share=100.0), StateComparison(share=100.0), 0
    for batch in range(BATCHES):
        sides = [open_state(each.checkpoint, batch=batch, migrations=None) for each in made]
        read.clear()
        found = followed.differences(*sides, lambda _: equal)
        if store == "tables":
            assert bool(read) == (batch == 0), "after the first batch only what has changed is read"
        expected = compare_states(*sides, lambda _: equal)
        assert by_store(found) == by_store(expected)
        differs += sum(not each.is_same for each in found)
        assert all(each.is_same for each in same.differences(sides[0], sides[0], lambda _: equal))
    assert differs >= 2


@pytest.mark.long
def test_where_the_query_has_removed_the_batch_before_all_rows_are_read(spark, tmp_path):
    with temporary_settings(spark, settings_of("tables")):
        made = [
            Query(spark, tmp_path / each.__name__, each, "update")
            for each in QUERIES["windows"][:2]
        ]
    followed = StateComparison(share=100.0)

    def sides(batch):
        return [open_state(each.checkpoint, batch=batch, migrations=None) for each in made]

    followed.differences(*sides(2), lambda _: equal)
    for snapshot in (made[0].checkpoint / "state").rglob("3.zip"):
        snapshot.unlink()
    found = followed.differences(*sides(3), lambda _: equal)
    assert by_store(found) == by_store(compare_states(*sides(3), lambda _: equal))
    assert not all(each.is_same for each in found)
    (made[1].checkpoint / "state" / "0" / "0" / "4.zip").write_bytes(b"no archive")
    with pytest.raises(CorruptFileError):
        followed.differences(*sides(4), lambda _: equal)


@pytest.mark.long
def test_a_live_migration_is_compared_by_what_it_has_migrated(spark, tmp_path, monkeypatch):
    """A value that is read moves to another family, in another format, and is the same."""
    scripts = tmp_path / "migrations"
    init(migrations=scripts)
    (scripts / "versions" / "aaaa11112222_means.py").write_text(previewed_code.SCRIPT)
    monkeypatch.setattr(previewed_code, "MIGRATIONS", str(scripts))
    old, right, wrong = (tmp_path / name for name in ("old", "right", "wrong"))
    query = Query(spark, old, previewed_code.processed, "update", batches=2)
    for place, code in (
        (right, previewed_code.with_means),
        (wrong, previewed_code.with_wrong_means),
    ):
        shutil.copytree(old / "checkpoint", place / "checkpoint")
        # The same files are its input: a file that was read is known by its path.
        run(query, place, code)
    run(query, old, previewed_code.processed)
    comparisons = {place: StateComparison(share=100.0) for place in (right, wrong)}
    for batch in range(1, 5):
        before = open_state(old / "checkpoint", batch=batch, migrations=scripts)
        for place, comparison in comparisons.items():
            after = open_state(place / "checkpoint", batch=batch, migrations=scripts)
            found = comparison.differences(before, after, lambda _: equal)
            assert by_store(found) == by_store(compare_states(before, after, lambda _: equal))
            assert all(each.is_same for each in found) == (place == right or batch == 1)


def run(query, place, code):
    """Three more batches of a query whose checkpoint is in a place, with some code."""
    query.function, query.checkpoint = code, place / "checkpoint"
    files = {number: query.inputs[0] / f"{number}.json" for number in range(2, 5)}
    for file in files.values():
        file.unlink(missing_ok=True)
    for number, file in files.items():
        file.write_text("\n".join(events(number)))
        query.run()


def by_store(found):
    """What was found, without the few examples of many that are shown."""
    documents = {each.store: each.to_json() for each in found}
    for each in documents.values():
        del each["examples"]
    return documents
