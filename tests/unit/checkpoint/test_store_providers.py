"""A provider of state stores is one class, which all that reads and writes state asks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from support.spark_checkpoints import KEY, VALUE, logs, put

from statemigrate.checkpoint.changes import PartitionChange
from statemigrate.checkpoint.logs.entries import PARTITIONS, PROVIDER
from statemigrate.checkpoint.operators.metadata import OperatorEntry, StoreEntry
from statemigrate.checkpoint.operators.schemas import FamilySchema, written_v2
from statemigrate.checkpoint.operators.shapes import FamilyShape, NoPrefix, StoreShape
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.hashing import partition_of
from statemigrate.checkpoint.rows.wrapping import RowLayout
from statemigrate.checkpoint.state import CommittedState
from statemigrate.checkpoint.stores.changelog import PUT, ChangelogRecords, among
from statemigrate.checkpoint.stores.files import StoredPartition, StoreVersion
from statemigrate.checkpoint.stores.provider import PROVIDERS, provider_of
from statemigrate.errors import CorruptFileError, UnsupportedError
from statemigrate.files import LocalFiles
from statemigrate.rewrite import store_writers as writing
from statemigrate.rewrite.fork import fork
from statemigrate.rewrite.store_writers import StoreAddress, StoreFiles

CLASS_NAME = "com.example.JsonStateStoreProvider"
STORE = StoreShape("default", False, 2, (FamilyShape("default", KEY, VALUE, NoPrefix()),))


class JsonRows:
    """All rows of a version, in one file of JSON."""

    def __init__(self, files, version):
        self._files, self._version = files, version

    def rows(self, start=b"", stop=None, *, values=True):
        found = json.loads(self._files.get(self._version.snapshot))
        rows = [(bytes.fromhex(k), bytes.fromhex(v)) for k, v in found.items()]
        inside = [(k, v) for k, v in rows if k >= start and (stop is None or k < stop)]
        yield Rows.from_list([k for k, _ in inside]), Rows.from_list([v for _, v in inside])

    def find(self, keys):
        ((found, values),) = self.rows()
        places = among(found, keys)
        return found.take(places), values.take(places)

    def keys_in(self, names):
        return None

    def check(self):
        list(self.rows())


class JsonProvider:
    """The third provider: a file of JSON for each version, and no changes."""

    name = "json"
    class_name = CLASS_NAME
    label = "JSON"
    has_families = False
    has_file_ids = False
    changes_suffix = "changes"

    def row_layout(self, conf):
        return RowLayout(rocksdb=False)

    def version(self, files, folder, version, conf, unique_id):
        name = f"{folder}/{version}.json"
        if files.find(name) is None:
            raise CorruptFileError(
                "SM-CHECKPOINT-023",
                f"{name} is missing",
                expected="a file of each version",
                found="no such file",
                next_action="restore it",
            )
        return StoreVersion(folder, version, name, ())

    def partition(self, files, version):
        return StoredPartition(version, {})

    def open(self, files, version, conf):
        return JsonRows(files, version)

    def changes(self, files, names, conf):
        for name in names:
            ((keys, values),) = JsonRows(files, StoreVersion("", 0, name, ())).rows()
            yield ChangelogRecords([PUT] * len(keys), keys, values)


class JsonWriter:
    """Writes a version of a store."""

    is_snapshot = True

    def __init__(self, place, folder, is_snapshot):
        folder.mkdir()
        self._path = folder / f"{place.version}.json"
        self._rows: dict[str, str] = {}

    def put(self, keys, values):
        for key, value in zip(keys.to_list(), values.to_list(), strict=True):
            self._rows[key.hex()] = value.hex()

    def close(self):
        self._path.write_text(json.dumps(self._rows))
        return {self._path.name: self._path}


@pytest.fixture
def third(monkeypatch):
    provider = JsonProvider()
    monkeypatch.setitem(PROVIDERS, provider.name, provider)
    monkeypatch.setitem(writing.WRITERS, provider.name, JsonWriter)
    return provider


def written(root: Path, counts: dict[str, int], batch: int = 0) -> Path:
    """An aggregation's checkpoint whose state, written by the package, has these counts."""
    conf = {PARTITIONS: "2", PROVIDER: CLASS_NAME}
    logs(root, batch + 1, conf)
    store = StoreEntry("default", 0, 2)
    put(root, "state/0/_metadata/metadata", OperatorEntry(0, "stateStoreSave", (store,)).data)
    put(root, "state/0/0/_metadata/schema", written_v2(FamilySchema("default", KEY, VALUE)))
    write_state(root, counts, batch)
    return root


def write_state(root: Path, counts: dict[str, int], batch: int) -> None:
    for partition in range(2):
        address = StoreAddress(0, partition, STORE, batch + 1, {PROVIDER: CLASS_NAME})
        scratch = root.parent / f"scratch-{batch}-{partition}"
        scratch.mkdir()
        files = StoreFiles(address, scratch)
        numbers = partition_of([pa.array(list(counts))], 2).tolist()
        chosen = [key for key, n in zip(counts, numbers, strict=True) if n == partition]
        key_column = pa.array(chosen, pa.string())
        values = pa.array([counts[key] for key in chosen], pa.int64())
        files.put(
            "default",
            pa.StructArray.from_arrays([key_column], ["k"]),
            pa.StructArray.from_arrays([values], ["n"]),
        )
        for name, content in files.close().items():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(content, target)


def counts_of(root: Path, batch: int | None = None) -> dict[str, int]:
    (family,) = CommittedState(LocalFiles(root), batch).families
    found: dict[str, int] = {}
    for partition in range(2):
        for keys, values in family.rows(partition):
            rows = zip(keys.to_pylist(), values.to_pylist(), strict=True)
            found |= {key["k"]: value["n"] for key, value in rows}
    return found


COUNTS = {f"key-{n}": n for n in range(40)}


def test_state_of_a_third_provider_is_written_read_looked_up_and_forked(third, tmp_path):
    root = written(tmp_path / "checkpoint", COUNTS)
    assert counts_of(root) == COUNTS
    (family,) = CommittedState(LocalFiles(root)).families
    wanted = pa.StructArray.from_arrays([pa.array(["key-7", "key-8", "no such"])], ["k"])
    found = {
        key["k"]: value["n"]
        for keys, values in family.under(wanted)
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True)
    }
    assert found == {"key-7": 7, "key-8": 8}
    fork(root, tmp_path / "fork")
    assert counts_of(tmp_path / "fork") == COUNTS


def test_two_batches_of_a_third_provider_are_compared(third, tmp_path):
    root = written(tmp_path / "checkpoint", COUNTS)
    later = {**COUNTS, "key-3": 300, "new": 1}
    del later["key-5"]
    logs(root, 2, {PARTITIONS: "2", PROVIDER: CLASS_NAME})
    write_state(root, later, 1)
    before, after = (CommittedState(LocalFiles(root), each).families[0] for each in (0, 1))
    gone: dict[str, int] = {}
    new: dict[str, int] = {}
    for partition in range(2):
        sides = PartitionChange(before, after, partition).rows()
        for family, rows, into in zip((before, after), sides, (gone, new), strict=True):
            keys, values = family.decode(partition, *rows)
            into |= {
                key["k"]: value["n"]
                for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True)
            }
    assert gone == {"key-3": 3, "key-5": 5}
    assert new == {"key-3": 300, "new": 1}


def test_a_provider_that_is_not_known_is_refused_by_its_name():
    with pytest.raises(UnsupportedError) as refused:
        provider_of({PROVIDER: CLASS_NAME})
    assert refused.value.code == "SM-STATE-001"
    assert refused.value.data["setting"] == PROVIDER
    assert CLASS_NAME in refused.value.found


def test_a_query_that_pins_no_provider_has_the_one_of_the_time_before_there_was_a_choice():
    assert provider_of({}).name == "hdfs"
