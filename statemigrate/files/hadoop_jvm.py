"""The JVM that Hadoop's file systems are reached through, and the settings that count there.

It is the Spark session's own where there is one. Else one is started as PySpark starts it, so that
``SPARK_CONF_DIR``, ``HADOOP_CONF_DIR`` and ``PYSPARK_SUBMIT_ARGS`` say the same as they would to
Spark; a session that is made later still gets a JVM of its own, with its own settings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.errors import StatemigrateError, StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Whether there is a Java that Spark runs on, asked before anything is started.


MINIMUM = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def require_java() -> int:
    """The major version of the Java that Spark will use: JAVA_HOME's, else the path's.

    Raises `StatemigrateError` when there is none or it is older than 17.
    """
    java = find_java()
    if java is None:
        raise _error(_where_looked())
    printed = _printed_version(java)
    match = _VERSION.search(printed)
    if match is None:
        raise _error(f"{java}, which answers: {printed.strip() or 'nothing'}")
    major = int(match.group(1))
    if major < MINIMUM:
        raise _error(f"Java {major} ({java})")
    return major


def find_java() -> str | None:
    """The command that Spark will call, None where there is none."""
    home = os.environ.get("JAVA_HOME")
    if home:
        # Spark does the same: with JAVA_HOME set it never looks at the path.
        return shutil.which("java", path=str(Path(home) / "bin"))
    return shutil.which("java")


def _where_looked() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"no bin/java in JAVA_HOME={home}" if home else "no java on the path, no JAVA_HOME"


def _printed_version(java: str) -> str:
    done = subprocess.run(  # noqa: S603 - the user's own java, no shell
        [java, "-version"], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stderr + done.stdout


def _error(found: str) -> StatemigrateError:
    return StatemigrateError(
        "SM-PACKAGES-002",
        "Spark needs Java 17 or newer",
        expected=f"Java {MINIMUM} or newer in JAVA_HOME or on the path",
        found=found,
        next_action="install a Java runtime (Debian and Ubuntu: apt install "
        "openjdk-17-jre-headless; macOS: brew install openjdk@17), or set JAVA_HOME to one",
    )


_SETTINGS = ("core-site.xml", "hdfs-site.xml", "spark-defaults.conf")
_STARTING = threading.Lock()
_started: list[Java] = []
_makers: list[Callable[[], SparkSession]] = []


@dataclass(frozen=True)
class Java:
    """``gateway`` is py4j's, ``configuration`` Hadoop's, with all settings of a session."""

    gateway: Any
    configuration: Any

    @cached_property
    def jvm(self) -> Any:
        """The view of its classes."""
        return self.gateway.jvm

    @cached_property
    def hadoop(self) -> Any:
        """The package ``org.apache.hadoop``."""
        return self.jvm.org.apache.hadoop


def has_jvm(spark: SparkSession) -> bool:
    """Whether the session's JVM can be called from this process; a session of Connect has none."""
    return hasattr(spark, "_jsparkSession")


def has_session(spark: SparkSession | None = None) -> bool:
    """Whether a session, the active one unless it is given, has a JVM in this process."""
    if spark is not None and not has_jvm(spark):
        return False
    return _context(spark) is not None


def java_of(spark: SparkSession | None = None) -> Java | None:
    """The JVM of a session, the active one unless it is given; None where there is none.

    Raises `StorageError` for a session that has no JVM in this process (Spark Connect).
    """
    context = _context(spark)
    if context is None:
        return None
    made = context._jvm.org.apache.hadoop.conf.Configuration(context._jsc.hadoopConfiguration())
    for name, value in _session_settings(spark):
        made.set(name, value)
    return Java(context._gateway, made)


@contextmanager
def started_by(make: Callable[[], SparkSession]) -> Iterator[None]:
    """Within the block a JVM that is needed is that of the session which ``make`` makes."""
    _makers.append(make)
    try:
        yield
    finally:
        _makers.remove(make)


def any_java(spark: SparkSession | None = None) -> Java:
    """The JVM of a session, or else one that is started now, once a process.

    Raises `StatemigrateError` where none can be started.
    """
    found = java_of(spark) or (java_of(_makers[-1]()) if _makers else None)
    if found is not None:
        return found
    with _STARTING:
        if not _started:
            _started.append(_start())
        return _started[0]


def default_file_system(spark: SparkSession | None = None) -> str:
    """What a path without a scheme is on, as a URI without a slash at its end.

    A JVM is started only where settings for it speak of that. The server of a session of Connect
    tells only what was set in Spark's own settings, not in Hadoop's files.
    """
    if spark is not None and not has_jvm(spark):
        return (spark.conf.get("spark.hadoop.fs.defaultFS", None) or "file:").rstrip("/")
    context = _context(spark)
    if context is not None:
        settings = context._jsc.hadoopConfiguration()
    elif _configures_default():
        settings = any_java().configuration
    else:
        return "file:"
    return str(settings.get("fs.defaultFS") or "file:").rstrip("/")


def _configures_default() -> bool:
    """Whether what a JVM would read says where a path without a scheme is."""
    return is_configured(("fs.defaultFS", "fs.default.name"))


def is_configured(names: Iterable[str]) -> bool:
    """Whether what a JVM would read speaks of any of these settings, or of their beginnings."""
    folders = [os.environ.get(name) for name in ("HADOOP_CONF_DIR", "SPARK_CONF_DIR")]
    home = os.environ.get("SPARK_HOME")
    folders.append(home and f"{home}/conf")
    files = [Path(folder, name) for folder in folders if folder for name in _SETTINGS]
    texts = [os.environ.get("PYSPARK_SUBMIT_ARGS", ""), *map(_text, files)]
    return any(name in text for text in texts for name in names)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _context(spark: SparkSession | None) -> Any:
    if spark is not None and not has_jvm(spark):
        raise _remote_session()
    # Without the package there is no session; importing it takes a second.
    pyspark = sys.modules.get("pyspark")
    context = getattr(spark, "sparkContext", None)
    context = context or (pyspark and pyspark.SparkContext._active_spark_context)
    return context if context is not None and context._jsc is not None else None


def _session_settings(spark: SparkSession | None) -> list[tuple[str, str]]:
    """The session's own settings, which Spark's readers hand to Hadoop unchanged."""
    from pyspark.sql import SparkSession

    session = spark or SparkSession.getActiveSession()
    session_settings: Any = {} if session is None else session.conf.getAll
    return [
        (name, value) for name, value in session_settings.items() if not name.startswith("spark.")
    ]


def _start() -> Java:
    from pyspark import java_gateway
    from pyspark.errors import PySparkException

    require_java()
    launch: Any = java_gateway.launch_gateway
    try:
        gateway = launch()
    except (PySparkException, OSError) as error:
        raise StorageError(
            "SM-STORAGE-009",
            "no JVM could be started to reach a remote file system",
            expected="PySpark's own start of Java to succeed",
            found=str(error),
            next_action="look at what Java printed; or pass the Spark session of the query",
        ) from error
    made = gateway.jvm.org.apache.hadoop.conf.Configuration()
    for entry in gateway.jvm.org.apache.spark.SparkConf().getAllWithPrefix("spark.hadoop."):
        made.set(entry._1(), entry._2())
    return Java(gateway, made)


def _remote_session() -> StorageError:
    return StorageError(
        "SM-STORAGE-010",
        "a session of Spark Connect has no JVM in this process",
        expected="a classic SparkSession, or none",
        found="a remote session",
        next_action="run this where the driver is, or without a session: then a JVM is started "
        "here, with the settings of SPARK_CONF_DIR",
    )
