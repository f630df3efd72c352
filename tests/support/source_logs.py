"""What sources of every kind leave in a checkpoint, written by hand as their own code writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from support.offset_logs import put

CHUNKS = "statemigrate/control/chunks"


@dataclass(frozen=True)
class Kind:
    """A kind of source: its offsets of two batches, and the files it keeps in its folder."""

    first: str
    second: str
    files: dict[str, str] = field(default_factory=dict)


_KINESIS = '{{"shardId-000":{{"iteratorType":"{}","iteratorPosition":"{}"}},"metadata":{}}}'

KINDS = {
    "kafka": Kind(
        '{"bids":{"0":12,"1":9}}',
        '{"bids":{"0":40,"1":31}}',
        # The zero byte tells readers of old versions that this is no plain JSON.
        {"0": '\0v1\n{"bids":{"0":0,"1":0}}'},
    ),
    "rate": Kind("3", "7", {"0": "v1\n1795293373139"}),
    "rate-micro-batch": Kind(
        '{"offset":10,"timestamp":1000}',
        '{"offset":20,"timestamp":2000}',
        {"0": '{"offset":0,"timestamp":0}'},
    ),
    "delta": Kind(
        '{"sourceVersion":1,"reservoirId":"ef5b9a4f","reservoirVersion":3,"index":-1,'
        '"isStartingVersion":true}',
        '{"sourceVersion":1,"reservoirId":"ef5b9a4f","reservoirVersion":4,"index":-1,'
        '"isStartingVersion":false}',
        {"_schema_log_ef5b9a4f/0": 'v1\n{"tableId":"ef5b9a4f"}'},
    ),
    "kinesis": Kind(
        _KINESIS.format("TRIM_HORIZON", "", '{"streamName":"bids","batchId":"0"}'),
        _KINESIS.format("AFTER_SEQUENCE_NUMBER", "496", '{"streamName":"bids","batchId":"1"}'),
        {"shard-commit/0/shardId-000": "0"},
    ),
    "iceberg": Kind(
        '{"version":1,"snapshot_id":34,"position":0,"scan_all_files":true}',
        '{"version":1,"snapshot_id":35,"position":7,"scan_all_files":false}',
        {"offsets/0": '{"version":1,"snapshot_id":-1,"position":-1,"scan_all_files":false}'},
    ),
    "of one's own": Kind("a=1;b=2", "a=3;b=4", {"0": "\udcff", "notes.txt": "x"}),
}


def source_files(root: Path, number: int, kind: Kind) -> None:
    """Write what a source keeps in its folder."""
    for name, text in kind.files.items():
        path = root / "sources" / str(number) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(errors="surrogateescape"))


def file_log(root: Path, number: int, *batches: list[str]) -> None:
    """Write a file source's log: for each of its offsets the paths it has taken."""
    for offset, paths in enumerate(batches):
        lines = (f'{{"path":"file://{path}","timestamp":1,"batchId":{offset}}}' for path in paths)
        put(root / "sources" / str(number) / str(offset), "\n".join(["v1", *lines]))
