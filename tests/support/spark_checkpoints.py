"""Whole checkpoints of Spark's own state, made without Spark: two partitions, a file source."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

from statemigrate.checkpoint.logs.entries import CODEC, PARTITIONS, PROVIDER, ROCKSDB_PROVIDER
from statemigrate.checkpoint.operators.metadata import OperatorEntry, StoreEntry
from statemigrate.checkpoint.operators.schemas import FamilySchema, written_v2, written_v3
from statemigrate.checkpoint.operators.shapes import NoPrefix, StructJson
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.stores.changelog import SparkChangelogWriter
from statemigrate.checkpoint.stores.hdfs_state import SnapshotWriter

QUERY = "2b9f2f0e-0000-4000-8000-000000000000"
SST = b"not really RocksDB's"


def struct(**fields: str) -> StructJson:
    of = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields.items()]
    return {"type": "struct", "fields": of}


KEY, VALUE = struct(k="string"), struct(n="long")


def aggregation(root: Path, *, batches: int = 4) -> Path:
    """An aggregation in the HDFS-backed provider, with a delta for each batch."""
    logs(root, batches, {PARTITIONS: "2", CODEC: "lz4"})
    store = StoreEntry("default", 0, 2)
    put(root, "state/0/_metadata/metadata", OperatorEntry(0, "stateStoreSave", (store,)).data)
    put(root, "state/0/0/_metadata/schema", written_v2(FamilySchema("default", KEY, VALUE)))
    for partition in range(2):
        for version in range(1, batches + 1):
            sink = io.BytesIO()
            writer = SnapshotWriter(sink, "lz4")
            writer.put(Rows.from_list([b"k%d" % version]), Rows.from_list([b"v"]))
            writer.close()
            put(root, f"state/0/{partition}/{version}.delta", sink.getvalue())
    return root


def variables(root: Path, *, batches: int = 4) -> Path:
    """A ``transformWithState`` in RocksDB: a snapshot of version 1, and changelogs."""
    conf = {PARTITIONS: "2", CODEC: "zstd", PROVIDER: ROCKSDB_PROVIDER}
    logs(root, batches, conf)
    schema = "state/0/_stateSchema/default/0_0b1c"
    store = StoreEntry("default", 0, 2, (f"file:{root}/{schema}",))
    entry = OperatorEntry(0, "transformWithStateInPySparkExec", (store,), "{}")
    put(root, "state/0/_metadata/v2/0", entry.data)
    put(root, schema, written_v3([FamilySchema("count", KEY, VALUE, NoPrefix())]))
    for partition in range(2):
        folder = f"state/0/{partition}"
        put(root, f"{folder}/1.zip", snapshot(f"00000{partition}-x.sst"))
        put(root, f"{folder}/SSTs/00000{partition}-x.sst", SST)
        for version in range(1, batches + 1):
            sink = io.BytesIO()
            SparkChangelogWriter(sink, "zstd", 2).close()
            put(root, f"{folder}/{version}.changelog", sink.getvalue())
    return root


def snapshot(sst: str) -> bytes:
    file = {"localFileName": "000004.sst", "dfsSstFileName": sst, "sizeBytes": len(SST)}
    document = {"sstFiles": [file], "numKeys": 1, "columnFamilyMapping": {"default": 0, "count": 1}}
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        # Without the time of day: the same checkpoint is the same files.
        archive.writestr(zipfile.ZipInfo("CURRENT"), "MANIFEST-000005\n")
        archive.writestr(zipfile.ZipInfo("metadata"), f"v1\n{json.dumps(document)}")
    return sink.getvalue()


def logs(root: Path, batches: int, conf: dict[str, str]) -> None:
    put(root, "metadata", json.dumps({"id": QUERY}).encode())
    for batch in range(batches):
        line = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": conf})
        put(root, f"offsets/{batch}", f'v1\n{line}\n{{"logOffset":{batch}}}'.encode())
        put(root, f"commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')
        put(root, f"sources/0/{batch}", f"v1\n{taken(f'file:///in/{batch}', batch)}".encode())


def taken(path: str, batch: int) -> str:
    """A line of a file source's log."""
    return json.dumps({"path": path, "timestamp": 1, "batchId": batch}, separators=(",", ":"))


def put(root: Path, name: str, data: bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
