"""The settings that an offset log pins to its query, and the value of one that is missing there.

Spark takes them from the log on a restart, whatever the session says. A setting that is missing
has the value of the time before there was such a setting, not today's default. Source:
``OffsetSeqMetadata`` in ``OffsetSeq.scala`` of apache/spark.
"""

from __future__ import annotations

from collections.abc import Mapping

from statemigrate.errors import UnsupportedError

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
