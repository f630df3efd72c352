"""The entries of Spark's two logs: a batch that has begun, and a batch that is done.

Line 2 of an entry of the offset log is JSON: the watermark and the clock that the batch ran with,
and the settings that are pinned to the query, which a restart takes from here and not from its
session. Version 2 has the names and kinds of the sources there too. Format: ``OffsetSeqLog.scala``,
``OffsetSeq.scala`` of apache/spark.

Line 1 of an entry of the commit log is its version, line 2 JSON. Version 1 has the watermark of the
next batch. Version 2 adds ``stateUniqueIds``: for each operator, for each partition, the ids of the
stores' files, where files of state have unique names (checkpoint format 2). Version 3 adds
``sinkMetadataMap``. Format: ``CommitLog.scala`` of apache/spark.

A key that is not known is refused, since a newer Spark means something by it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from statemigrate.checkpoint.logs.offsets import Offsets, parse_offsets, unknown
from statemigrate.errors import CheckpointError, UnsupportedError
from statemigrate.files import (
    OBJECT,
    VERSION,
    Files,
    Maybe,
    Table,
    check_shape,
    parse_json,
    whole_number,
)

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


StateIds = Mapping[int, tuple[tuple[str, ...], ...]]
"""By operator: of each partition the ids of its stores, in Spark's order of them."""

_IDS = Maybe(Table([[str]]), missing=True)
_SHAPES: dict[int, dict[str, Any]] = {
    1: {"nextBatchWatermarkMs": Maybe(VERSION, missing=True)},
    2: {"nextBatchWatermarkMs": VERSION, "stateUniqueIds": _IDS},
    3: {"nextBatchWatermarkMs": VERSION, "stateUniqueIds": _IDS, "sinkMetadataMap": OBJECT},
}


@dataclass(frozen=True)
class CommitEntry:
    """The entry of a batch; ``watermark`` is the next batch's, in milliseconds since 1970.

    ``state_ids`` is None in version 1, and in a batch without state. ``sinks`` is version 3's.
    """

    watermark: int
    version: int = 1
    state_ids: StateIds | None = None
    sinks: Mapping[str, Any] | None = None

    @property
    def data(self) -> bytes:
        """The file as Spark writes it."""
        document: dict[str, Any] = {"nextBatchWatermarkMs": self.watermark}
        if self.state_ids is not None:
            document["stateUniqueIds"] = {str(n): ids for n, ids in self.state_ids.items()}
        if self.sinks is not None:
            document["sinkMetadataMap"] = dict(self.sinks)
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        return f"v{self.version}\n{text}".encode()


def parse_commit(data: bytes, path: str) -> CommitEntry:
    """Read a file of the commit log. Raises `CheckpointError` for a layout that is not known."""
    first, _, second = data.partition(b"\n")
    version = {b"v1": 1, b"v2": 2, b"v3": 3}.get(first.strip())
    if version is None:
        raise _unknown(path, "v1, v2 or v3 in the first line", repr(first[:60]))
    try:
        document = parse_json(second or b"{}")
        check_shape(document, _SHAPES[version])
        state_ids = _state_ids(document.get("stateUniqueIds"))
    except ValueError as error:
        raise _unknown(path, "what a commit says, as JSON, in line 2", str(error)) from error
    foreign = set(document) - set(_SHAPES[version])
    if foreign:
        expected = f"only {', '.join(_SHAPES[version])} in version {version}"
        raise _unknown(path, expected, ", ".join(sorted(foreign))[:200])
    # Before 2.4 Spark wrote none, and reads that as 0.
    watermark = document.get("nextBatchWatermarkMs") or 0
    return CommitEntry(watermark, version, state_ids, document.get("sinkMetadataMap"))


def read_commit(files: Files, batch: int) -> CommitEntry:
    """The entry of a batch that is in the commit log of a checkpoint.

    Raises `CheckpointError` also where there is none.
    """
    path = f"{files.location}/commits/{batch}"
    try:
        return parse_commit(files.get(f"commits/{batch}"), path)
    except FileNotFoundError as error:
        raise _unknown(path, "the entry of a committed batch", "no such file") from error


def _state_ids(document: dict[str, list[list[str]]] | None) -> StateIds | None:
    if document is None:
        return None
    if any(whole_number(operator) is None for operator in document):
        raise ValueError(f"operators {', '.join(document)[:60]} are no numbers")
    return {
        int(operator): tuple(tuple(stores) for stores in partitions)
        for operator, partitions in document.items()
    }


def _unknown(path: str, expected: str, found: str) -> CheckpointError:
    return CheckpointError(
        "SM-CHECKPOINT-007",
        f"{path} is not a commit file of a known layout",
        expected=expected,
        found=found,
        next_action="look at the file; restore it from a copy of the checkpoint if it was altered",
        path=path,
    )
