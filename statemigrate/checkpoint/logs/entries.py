"""A whole entry of the offset log: the offsets, and what line 2 says of the batch.

Line 2 is JSON: the watermark and the clock that the batch ran with, and the settings that are
pinned to the query, which a restart takes from here and not from its session. Version 2 has the
names and kinds of the sources there too. A key that is not known is refused, since a newer Spark
means something by it. Format: ``OffsetSeqLog.scala``, ``OffsetSeq.scala`` of apache/spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from statemigrate.checkpoint.logs.offsets import Offsets, parse_offsets, unknown
from statemigrate.errors import UnsupportedError
from statemigrate.files import Files, parse_json
from statemigrate.files.documents.shapes import OBJECT, VERSION, Maybe, Table, check_shape

_METADATA = {
    "batchWatermarkMs": VERSION,
    "batchTimestampMs": VERSION,
    "conf": Maybe(Table(str), missing=True),
}
_KEYS = {False: set(_METADATA), True: {*_METADATA, "sourceMetadataInfo"}}
_CONTROL = "controlBatchInfo"


@dataclass(frozen=True)
class OffsetEntry:
    """The entry of a batch. ``watermark`` and ``timestamp`` are milliseconds since 1970.

    ``conf`` is None where a Spark before 2.2 has pinned nothing. ``source_metadata`` is version 2's
    account of its sources by their names.
    """

    offsets: Offsets
    watermark: int
    timestamp: int
    pinned: Mapping[str, str] | None = None
    source_metadata: Mapping[str, Any] | None = None

    @property
    def conf(self) -> Mapping[str, str]:
        """The pinned settings by their names."""
        return self.pinned or {}

    @property
    def data(self) -> bytes:
        """The file as Spark writes it."""
        metadata: dict[str, Any] = {
            "batchWatermarkMs": self.watermark,
            "batchTimestampMs": self.timestamp,
        }
        if self.pinned is not None:
            metadata["conf"] = dict(self.pinned)
        if self.source_metadata is not None:
            metadata["sourceMetadataInfo"] = dict(self.source_metadata)
        version = "v2" if self.offsets.named else "v1"
        return "\n".join([version, _json(metadata), *self.offsets.lines]).encode()


def parse_entry(data: bytes, path: str) -> OffsetEntry:
    """Read a file of the offset log as a whole.

    Raises `CheckpointError` for a layout that is not known, and `UnsupportedError` for a batch that
    changes the checkpoint itself instead of taking rows.
    """
    offsets = parse_offsets(data, path)
    metadata = parse_json(data.split(b"\n", 2)[1])
    if metadata.get(_CONTROL) is not None:
        raise _control_batch(path, metadata[_CONTROL])
    known = _KEYS[offsets.named]
    if not set(metadata) <= known:
        raise unknown(path, f"only {', '.join(sorted(known))} in line 2", _names(metadata, known))
    try:
        check_shape(metadata, {**_METADATA, "sourceMetadataInfo": Maybe(OBJECT, missing=True)})
    except ValueError as error:
        raise unknown(path, "the metadata of a batch in line 2", str(error)) from error
    return OffsetEntry(
        offsets,
        metadata["batchWatermarkMs"],
        metadata["batchTimestampMs"],
        metadata.get("conf"),
        metadata.get("sourceMetadataInfo"),
    )


def read_entry(files: Files, batch: int) -> OffsetEntry:
    """The entry of a batch that is in the offset log of a checkpoint.

    Raises `CheckpointError` also where there is none.
    """
    path = f"{files.location}/offsets/{batch}"
    try:
        return parse_entry(files.get(f"offsets/{batch}"), path)
    except FileNotFoundError as error:
        raise unknown(path, "the entry of a batch", "no such file") from error


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _names(metadata: Mapping[str, Any], known: set[str]) -> str:
    return ", ".join(sorted(set(metadata) - known))[:200]


def _control_batch(path: str, info: object) -> UnsupportedError:
    return UnsupportedError(
        "SM-REWRITE-001",
        f"{path} is of a control batch",
        expected="batches that take rows of the sources",
        found=f"{_CONTROL} {str(info)[:200]}",
        next_action="let the query commit one more batch, which no longer has it, and try again",
        path=path,
    )
