"""Every document of a checkpoint, with something wrong in it: read, or refused by name."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.operators.metadata import operator_files, operator_names
from statemigrate.checkpoint.operators.schemas import value_fields
from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.embedded.batches import remove_old_beats
from statemigrate.embedded.continuation import last_committed, next_batch
from statemigrate.embedded.durable import FileReference
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState, SnapshotReference
from statemigrate.embedded.retention import remove_old_versions
from statemigrate.embedded.snapshots import snapshot_files
from statemigrate.embedded.versions import publish_manifest, read_manifest, retained_versions
from statemigrate.files import LocalFiles
from statemigrate.formats import Struct, format_from_json
from statemigrate.meaning import (
    CodeMeaning,
    MeaningRecord,
    OperatorMeaning,
    compare_code,
    lock_text,
    read_lock,
    recorded_meaning,
)
from statemigrate.meaning.recorded import Accepted
from statemigrate.native.adoption_files import OffsetLog, last_backup
from statemigrate.native.chunks import ChunkFiles, PlanRecord
from statemigrate.native.deployment_check import StoreRecord, read_record, write_record
from statemigrate.rewrite.aggregates import AggregateFunction
from statemigrate.rewrite.probe_facts import OperatorFact
from statemigrate.rewrite.state_schemas import StateSchema
from statemigrate.rewrite.windows import KeyMeaning, TimeWindow
from statemigrate.scripts.applied import read_applied
from statemigrate.state.open import applied_by
from tests.support.hostile import bounded, fuzzed, refused_or_read
from tests.support.mutations import altered, documents, mutated

HEX = "a" * 64
FORMAT = Struct("amount DECIMAL(18,2), tags ARRAY<STRING>, inner STRUCT<a: MAP<STRING, INT>>")
BACKUP = {
    "format": 1,
    "progress": "adopted",
    "sources": 1,
    "files": [{"batch": 3, "before": HEX, "after": HEX}],
    "since": "2026-01-01",
}


def manifest(directory: Path) -> Any:
    layout = Layout(directory)
    file = FileReference("000000000001-x.changelog", HEX, 3)
    state = PartitionState().followed_by(file, 2)
    state = PartitionState(
        state.state,
        SnapshotReference(file, "empty", {"items": 3}),
        state.changelogs,
        {"items": 3, "other": None},
        {"items": 1},
        state.base,
    )
    store = StoredStore("map", (StoredFamily("items", "base", FORMAT),), {"a": HEX}, None)
    key = Struct("id BIGINT").struct_type().jsonValue()
    publish_manifest(layout, Manifest(1, key, (state,), {"items": store}, {"share": 0.1}))
    return json.loads((layout.versions / "1-1.json").read_text())["body"]


def record(directory: Path) -> Any:
    write_record(str(directory), {"items": StoreRecord(("items",), 3, {"a": HEX})})
    return json.loads((directory / "statemigrate/deployed.json").read_text())


def enveloped(body: Any) -> bytes:
    """A document with the checksum that vouches for it."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"sha256":"{digest}","body":{text}}}\n'.encode()


def read_listing(directory: Path) -> object:
    data = (directory / "x.snapshot").read_bytes()
    reference = FileReference("x.snapshot", hashlib.sha256(data).hexdigest(), len(data))
    files = snapshot_files(reference, directory)
    return [each.stored.within(directory) for each in files if each.stored is not None]


def read_format(directory: Path) -> object:
    document = json.loads((directory / "format").read_text())
    found = format_from_json(document)
    return found.fingerprint, found.struct_type()


def read_operators(directory: Path) -> object:
    files = operator_files(LocalFiles(directory))
    names = operator_names(LocalFiles(directory))
    return names, [(each.roots, each.schemas, each.rooted_at("file:/x").data) for each in files]


def written_utf(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2) + data


SPARK = json.dumps(Struct("a BIGINT").to_json()["schema"])
STATE_SCHEMA = b"".join(
    [written_utf("v2"), *((1).to_bytes(4) + written_utf(SPARK) for _ in range(2))]
)
OPERATOR = {
    "operatorInfo": {"operatorId": 0, "operatorName": "transformWithState"},
    "stateStoreInfo": [
        {"storeName": "default", "stateSchemaFilePaths": ["file:/cp/state/0/_stateSchema/a/0_b"]}
    ],
}
LISTING = {"files": [{"name": "000001.sst", "sha256": HEX, "size": 3}]}
PLAN = {"format": 1, "plan": asdict(PlanRecord("plan", 1, 1, -1))}
APPLIED = {"format": 1, "applied": {"items": {"a": HEX}}}
OFFSETS = b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":5,"conf":{"a":"b"}}\n{"logOffset":3}\n-'
SOURCES = (
    b'v1\n{"path":"file:///cp/statemigrate/control/chunks/a/b.json","timestamp":1,"batchId":0}'
)

COUNT = AggregateFunction(
    "count(1)", (("count", "long"),), "Count(1)", "Count(1)", "Count", None, "n", (0,)
)
MEANING = CodeMeaning(
    "pipeline:orders",
    "4.3",
    ("orders",),
    (
        OperatorMeaning(
            "aggregation-0",
            0,
            "stateStoreSave",
            {"aggregation-0": StateSchema("count BIGINT", "k STRING")},
            (
                KeyMeaning("k", "Upper(k)", None),
                KeyMeaning("window", "window(at)", TimeWindow(60_000_000, 60_000_000, 0)),
            ),
            (COUNT,),
            (
                OperatorFact("filter", "GreaterThan(v, '0')"),
                OperatorFact("watermark", "at", "left"),
            ),
        ),
    ),
    ("struct<k:string>",),
)
MEANT = MeaningRecord(3, MEANING, (Accepted("filter", "another one", "meant"),))


def read_meant(directory: Path) -> object:
    """The record, compared with another meaning as a start compares it."""
    found = recorded_meaning(LocalFiles(directory), 5)
    assert found is not None
    return [list(compare_code(*pair)) for pair in both_ways(found.meaning)]


def read_locked(directory: Path) -> object:
    return [list(compare_code(*pair)) for pair in both_ways(read_lock(directory / "state.lock"))]


def both_ways(meaning: CodeMeaning) -> list[tuple[CodeMeaning, CodeMeaning]]:
    return [(meaning, MEANING), (MEANING, meaning)]


def locked(body: Any) -> bytes:
    """A lock file with the checksum that vouches for it."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps({**body, "checksum": checksum} if isinstance(body, dict) else body).encode()


LOCK = {name: part for name, part in json.loads(lock_text(MEANING)).items() if name != "checksum"}

Read = Callable[[Path], object]
CASES: dict[str, tuple[str, Callable[[Path], st.SearchStrategy[bytes]], Read]] = {
    "a manifest": (
        "statemigrate/versions/1-1.json",
        lambda at: mutated(manifest(at)).map(enveloped) | altered(enveloped(manifest(at))),
        lambda at: read_manifest(Layout(at), 1),
    ),
    "a listing": ("x.snapshot", lambda _: mutated(LISTING).map(enveloped), read_listing),
    "the record": (
        "statemigrate/deployed.json",
        lambda at: documents(record(at)),
        lambda at: read_record(str(at)),
    ),
    "a plan": (
        "statemigrate/control/plan.json",
        lambda _: documents(PLAN),
        lambda at: ChunkFiles(str(at)).plan(),
    ),
    "metadata": (
        "metadata",
        lambda _: documents({"id": "x"}),
        lambda at: ChunkFiles(str(at)).directory.query_id(),
    ),
    "a backup": (
        "statemigrate/adoption/1/record.json",
        lambda _: documents(BACKUP),
        lambda at: last_backup(LocalFiles(at)),
    ),
    "applied.json": ("applied.json", lambda _: documents(APPLIED), read_applied),
    "offsets": ("offsets/3", lambda _: altered(OFFSETS), lambda at: ChunkFiles(str(at)).offsets()),
    "offsets on restart": (
        "offsets/0",
        lambda _: altered(OFFSETS),
        lambda at: OffsetLog(str(at)).read_on_restart(),
    ),
    "a source's log": (
        "sources/0/0",
        lambda _: altered(SOURCES),
        lambda at: ChunkFiles(str(at)).log(),
    ),
    "an operator": (
        "state/0/_metadata/v2/0",
        lambda _: documents(OPERATOR).map(lambda each: b"v2\n" + each),
        read_operators,
    ),
    "a schema of state": (
        "schema",
        lambda _: altered(STATE_SCHEMA),
        lambda at: value_fields((at / "schema").read_bytes(), "schema"),
    ),
    "a record of meaning": (
        "statemigrate/meaning/3",
        lambda _: mutated(MEANT.document()).map(enveloped) | altered(enveloped(MEANT.document())),
        read_meant,
    ),
    "a lock file": (
        "state.lock",
        lambda _: mutated(LOCK).map(locked) | altered(locked(LOCK)),
        read_locked,
    ),
    "a format": (
        "format",
        lambda _: mutated(FORMAT.to_json()).map(lambda each: json.dumps(each).encode()),
        read_format,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_document_with_something_wrong_is_read_or_refused_by_name(
    tmp_path: Path, case: str
) -> None:
    name, make, read = CASES[case]
    checkpoint = tmp_path / "cp"
    for folder in ("offsets", "commits", "sources/0"):
        (checkpoint / folder).mkdir(parents=True)
    for log in ("offsets/0", "offsets/1", "offsets/3"):
        (checkpoint / log).write_bytes(OFFSETS)
    (checkpoint / "metadata").write_text('{"id":"query"}')
    path = checkpoint / name
    path.parent.mkdir(parents=True, exist_ok=True)

    @fuzzed
    @given(make(checkpoint))
    def run(data: bytes) -> None:
        path.write_bytes(data)
        with bounded():
            refused_or_read(lambda: read(checkpoint))

    run()


NAMES = ["²", "1²", "٣", "8 (copy).json", "-1.json", "01", "+1", "1\n", "x" * 200, "..json", ".tmp"]
BYTES = [b"\xff\xfe.json", b"\x1b[2J.txt", b"7\xff"]
FOLDERS = (
    "commits",
    "offsets",
    "sources",
    "sources/0",
    "statemigrate/versions",
    "statemigrate/heartbeat",
    "statemigrate/meaning",
    "statemigrate/adoption",
    "statemigrate/control/chunks",
    "statemigrate/partitions/0",
    "state",
    "state/0/_metadata/v2",
)
LISTINGS: dict[str, Read] = {
    "versions": lambda at: retained_versions(Layout(at)),
    "last": lambda at: last_committed(Layout(at)),
    "next": lambda at: next_batch(Layout(at)),
    "beats": lambda at: remove_old_beats(Layout(at), 9, 1),
    "retention": lambda at: remove_old_versions(Layout(at), 9, 1),
    "operators": lambda at: operator_files(LocalFiles(at)),
    "applied": lambda at: applied_by(str(at)),
    "sources": lambda at: ChunkFiles(str(at)).offsets(),
    "log": lambda at: ChunkFiles(str(at)).log(),
    "written": lambda at: ChunkFiles(str(at)).written(),
    "withdraw": lambda at: ChunkFiles(str(at)).withdraw(),
    "backup": lambda at: last_backup(LocalFiles(at)),
    "offsets": lambda at: OffsetLog(str(at)).read_on_restart(),
    "meaning": lambda at: recorded_meaning(LocalFiles(at), 5),
}


@pytest.mark.parametrize("listing", LISTINGS)
@pytest.mark.parametrize("make", ["files", "directories"])
def test_names_that_nobody_would_write_are_passed_over(
    tmp_path: Path, listing: str, make: str
) -> None:
    checkpoint = tmp_path / "cp"
    for folder in FOLDERS:
        (checkpoint / folder).mkdir(parents=True)
        for name in [*map(os.fsencode, NAMES), *BYTES]:
            path = os.fsencode(checkpoint / folder) + b"/" + name
            if make == "directories":
                Path(os.fsdecode(path)).mkdir()
            else:
                Path(os.fsdecode(path)).touch()
    for log in ("offsets/0", "commits/0"):
        (checkpoint / log).write_bytes(OFFSETS)
    (checkpoint / "metadata").write_text('{"id":"query"}')
    with bounded():
        refused_or_read(lambda: LISTINGS[listing](checkpoint))
