"""From a path or URI to the files there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.errors import StorageError
from statemigrate.files.local import LocalFiles
from statemigrate.files.protocol import Files, hadoop_path, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PathOrFiles = str | Path | Files
"""A path or a URI, or the files there."""
_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]+:")


def open_files(place: PathOrFiles, spark: SparkSession | None = None) -> Files:
    """The files below ``place``, a path or a URI of any file system that Spark has a connector for.

    A path without a scheme means what it means to Spark: it is on ``fs.defaultFS``, as the session,
    ``SPARK_CONF_DIR`` or ``HADOOP_CONF_DIR`` say, which is the local disk where they do not.
    A remote one is reached through the JVM of ``spark``, of the active session, or of one that is
    started, on the driver only. Raises `StorageError` within ten seconds where it cannot be
    reached, which says whether connector, address or credentials are missing.
    """
    if not isinstance(place, str | Path):
        return place
    text = str(place)
    if _SCHEME.match(text):
        local = local_path(text)
        if local is None and text.lower().startswith("file:"):
            raise _not_here(text)
        return _remote(text, spark) if local is None else LocalFiles(local)
    from statemigrate.files.hadoop_jvm import default_file_system

    default = default_file_system(spark)
    if default.partition(":")[0] == "file":
        return LocalFiles(hadoop_path(Path(text)))
    return _remote(text, spark, default)


def files_to_read(place: PathOrFiles, spark: SparkSession | None = None) -> Files:
    """As `open_files`, for who only reads: buckets and HDFS are reached without Java.

    The connectors of ``spark`` or of the active session are used where there is one, or where
    settings of Hadoop's, which a JVM would read, speak of the store; and for HDFS where
    hdfs-native is not installed.
    """
    if isinstance(place, str | Path) and _SCHEME.match(text := str(place)):
        from statemigrate.files.hadoop_jvm import has_session, is_configured
        from statemigrate.files.without_java import files_without_java, settings_of

        if not (local_path(text) or has_session(spark) or is_configured(settings_of(text))):
            found = files_without_java(text)
            if found is not None:
                return found
    return open_files(place, spark)


def _remote(place: str, spark: SparkSession | None, default: str | None = None) -> Files:
    from statemigrate.files.hadoop import HadoopFiles, whole_uri
    from statemigrate.files.hadoop_failures import reach
    from statemigrate.files.hadoop_jvm import any_java

    java = any_java(spark)
    reach(java, place if default is None else f"{default}/")
    return HadoopFiles(java, place.rstrip("/") if default is None else whole_uri(java, place))


def _not_here(place: str) -> StorageError:
    return StorageError(
        "SM-STORAGE-015",
        f"{place} is no place on this machine's disks",
        expected="file:/path or file:///path",
        found="a host, or a path that is not absolute",
        next_action="write the absolute path after file:",
        path=place,
    )
