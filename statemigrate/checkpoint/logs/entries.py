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

Spark takes the pinned settings from the log on a restart, whatever the session says. A setting that
is missing has the value of the time before there was such a setting, not today's default. Source:
``OffsetSeqMetadata`` in ``OffsetSeq.scala`` of apache/spark.

Each line of the offset log belongs to a folder of ``sources/``. A query that reads one stream in
several places has a line for each of them, and one folder: every folder after that has another
number than its line. Spark counts folders up as it meets sources, so that a line is either that of
the next folder or repeats one before it, with the same offset. What the logs of the folders have
reached tells them apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statemigrate.checkpoint.logs.offsets import (
    Offsets,
    file_offset,
    folders_in,
    lines_of_sources,
    newest_offsets,
    parse_offsets,
    reads_twice,
    unknown,
)
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


PARTITIONS = "spark.sql.shuffle.partitions"
_STREAMING = "spark.sql.streaming."
PROVIDER = f"{_STREAMING}stateStore.providerClass"
CODEC = f"{_STREAMING}stateStore.compression.codec"
ENCODING = f"{_STREAMING}stateStore.encodingFormat"
ROW_CHECKSUM = f"{_STREAMING}stateStore.rowChecksum.enabled"
MERGE_OPERATOR = f"{_STREAMING}stateStore.rocksdb.mergeOperatorVersion"
AGGREGATION_FORMAT = f"{_STREAMING}aggregation.stateFormatVersion"
JOIN_FORMAT = f"{_STREAMING}join.stateFormatVersion"
GROUPS_FORMAT = f"{_STREAMING}flatMapGroupsWithState.stateFormatVersion"
FILE_IDS = f"{_STREAMING}stateStore.checkpointFormatVersion"
"""Not pinned: the session of each run says it. Whether files have ids is in the commit log."""
STRICT_DISTRIBUTION = f"{_STREAMING}statefulOperator.useStrictDistribution"

_PACKAGE = "org.apache.spark.sql.execution.streaming.state."
HDFS_PROVIDER = f"{_PACKAGE}HDFSBackedStateStoreProvider"
ROCKSDB_PROVIDER = f"{_PACKAGE}RocksDBStateStoreProvider"

WHERE_MISSING = {
    PROVIDER: HDFS_PROVIDER,
    CODEC: "lz4",
    ENCODING: "unsaferow",
    ROW_CHECKSUM: "false",
    MERGE_OPERATOR: "1",
    AGGREGATION_FORMAT: "1",
    JOIN_FORMAT: "1",
    GROUPS_FORMAT: "1",
    STRICT_DISTRIBUTION: "false",
}
"""What a setting meant before offset logs had it."""
_CODEC_CLASSES = {
    "org.apache.spark.io.lz4compressioncodec": "lz4",
    "org.apache.spark.io.lzfcompressioncodec": "lzf",
    "org.apache.spark.io.snappycompressioncodec": "snappy",
    "org.apache.spark.io.zstdcompressioncodec": "zstd",
}
CODECS = tuple(_CODEC_CLASSES.values())
_ENCODINGS = ("unsaferow", "avro")


def pinned(conf: Mapping[str, str], setting: str) -> str:
    """The value of one of the settings of `WHERE_MISSING`."""
    return conf.get(setting, WHERE_MISSING[setting])


def codec_of(conf: Mapping[str, str]) -> str:
    """The short name of the codec of state files: one of `CODECS`.

    Raises `UnsupportedError` for another one.
    """
    found = pinned(conf, CODEC).lower()
    name = _CODEC_CLASSES.get(found, found)
    if name not in CODECS:
        raise unknown_setting(CODEC, found, CODECS)
    return name


def is_avro(conf: Mapping[str, str]) -> bool:
    """Whether rows are Avro. Raises `UnsupportedError` for an encoding that is not known."""
    encoding = pinned(conf, ENCODING).lower()
    if encoding not in _ENCODINGS:
        raise unknown_setting(ENCODING, encoding, _ENCODINGS)
    return encoding == "avro"


def has_checksums(conf: Mapping[str, str]) -> bool:
    """Whether each row of state has a checksum."""
    return pinned(conf, ROW_CHECKSUM).lower() == "true"


def unknown_setting(setting: str, found: str, known: tuple[str, ...]) -> UnsupportedError:
    """The error for a pinned setting whose value is not one of those ``known``."""
    return UnsupportedError(
        "SM-STATE-001",
        f"state with {setting} = {found} is not understood",
        expected=f"one of {', '.join(known)}",
        found=found,
        next_action="such state can only be read by the Spark, and the classes, that wrote it",
        setting=setting,
    )


def lines_of_folders(files: Files, offsets: Offsets) -> dict[str, str]:
    """By folder of ``sources/``, the source in ``offsets`` whose line has its offset.

    A folder of a source that these offsets do not have is not among them. Raises `UnsupportedError`
    where the files leave it open which of two lines with different offsets is the folder's.
    """
    folders = folders_in(files, "sources")
    newest = newest_offsets(files) or offsets
    if not (reads_twice(files, offsets) or reads_twice(files, newest)):
        return {folder: folder for folder in folders if folder in offsets.by_source}
    known = lines_of_sources(files, newest, offsets.lines)
    return {
        str(number): str(_only(files, number, lines, offsets))
        for number in sorted(known.reached)
        if (lines := [line for line in known.of(number) if line < len(offsets.lines)])
    }


def is_read_twice(offsets: Offsets, lines: Mapping[str, str]) -> bool:
    """Whether one of the sources is certainly read in several places.

    ``lines`` are those that the folders have by these ``offsets``. In a bucket a source that has
    taken nothing has no folder, so that fewer folders alone say nothing.
    """
    if offsets.named:
        return False
    own = set(lines.values())
    others = (file_offset(text) for name, text in offsets.by_source.items() if name not in own)
    return any(folder != line for folder, line in lines.items()) or any(
        # What has taken files has a folder: its own, or that of another line.
        offset is not None and offset >= 0
        for offset in others
    )


def _only(files: Files, number: int, lines: Sequence[int], offsets: Offsets) -> int:
    if len({offsets.lines[line] for line in lines}) == 1:
        return lines[0]
    raise UnsupportedError(
        "SM-CHECKPOINT-034",
        f"the query of {files.location} reads one stream in several places, and which offset is "
        f"that of sources/{number} cannot be determined",
        expected="one line of the offset log that fits the source's own log",
        found=f"lines {' and '.join(str(line + 1) for line in lines)} of its "
        f"{len(offsets.lines)} sources, with different offsets",
        next_action="let the query take another file from each of its sources, stop it, and run "
        "the same command again; a copy of the whole directory of the stopped query is one too",
        path=files.location,
    )
