"""The Spark session of a verb that reads Spark's own state."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def local_session(master: str | None = None) -> Iterator[SparkSession]:
    """A session of this process alone, stopped at the end; the active one where there is one.

    Unless it is given the ``master`` of a cluster.

    What Spark reads by itself still holds: ``SPARK_CONF_DIR`` with its ``spark-defaults.conf`` and
    ``PYSPARK_SUBMIT_ARGS`` are the places for a remote file system's settings, or more memory.
    ``spark`` of the project's configuration comes before them. Of itself Spark says nothing, unless
    its logging is configured there or ``--debug`` asks for it.
    Raises `StatemigrateError` where there is no Java that Spark runs on, and for a setting in the
    configuration whose value Spark refuses.
    """
    from pyspark.sql import SparkSession

    from statemigrate.files import require_java

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    require_java()
    before = signal.getsignal(signal.SIGINT)
    session = _started(master)
    try:
        with _plain_interrupts(before):
            yield session
    finally:
        session.stop()


@contextmanager
def _plain_interrupts(before: Any) -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt and say nothing; ``before`` is set again at the end.

    PySpark's own handler asks Java to cancel the jobs, which fails while an answer from Java is
    waited for, and py4j logs the traceback. Stopping the session cancels them as well.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # The call itself is logged by the root, closing its connection by a logger of py4j's own.
    loggers = [logging.getLogger(), logging.getLogger("py4j.clientserver")]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for logger in loggers:
        logger.addFilter(_is_no_interrupt)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_no_interrupt)
        signal.signal(signal.SIGINT, before)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    error: BaseException | None = record.exc_info[1] if record.exc_info else None
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is None


@contextmanager
def spark_when_needed(master: str | None = None) -> Iterator[Callable[[], SparkSession]]:
    """A function that starts a session when it is called first; stopped at the end of the block."""
    from statemigrate.files import started_by

    started: list[SparkSession] = []
    with ExitStack() as stack:

        def session() -> SparkSession:
            if not started:
                made = local_session(master) if master else local_session()
                started.append(stack.enter_context(made))
            return started[0]

        # A remote checkpoint is reached through its JVM, and not through a second one.
        stack.enter_context(started_by(session))
        yield session


def _started(master: str | None) -> SparkSession:
    from pyspark.sql import SparkSession

    from statemigrate.checkpoint.logs import PROVIDER, ROCKSDB_PROVIDER
    from statemigrate.cli.main import is_quiet, quiet_settings, start_java
    from statemigrate.cli.options import configuration

    settings = {
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        PROVIDER: ROCKSDB_PROVIDER,
        # A preview reads state after each batch: changes since a snapshot of RocksDB are few then.
        # Spark takes the interval once for all sessions, when the first store is opened.
        "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master is None:
        # Nobody else is to reach it.
        settings |= dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1")
    if is_quiet():
        settings |= quiet_settings()
        start_java(settings)
    given = configuration().spark
    settings |= given
    builder = SparkSession.builder.master(master or "local[*]").appName("statemigrate")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    _check_settings(session, given)
    if master is None and "PYSPARK_PYTHON" not in os.environ:
        # Only spark-submit reads the setting of that name.
        session.sparkContext.pythonExec = sys.executable
    return session


def _check_settings(session: SparkSession, given: Mapping[str, str]) -> None:
    """Stop the session if Spark refuses a value. Spark compares them when one is asked for."""
    from pyspark.errors import IllegalArgumentException

    from statemigrate.configuration import ConfigurationError, project_folder

    try:
        for name in given:
            session.conf.get(name)
    except IllegalArgumentException as error:
        session.stop()
        refused, _, _ = str(error).partition("\n")
        raise ConfigurationError(
            "SM-CONFIG-014",
            "Spark does not take the settings of this project",
            expected="values that Spark takes, in `spark` of the configuration",
            found=refused,
            next_action="correct the value",
            path=str(project_folder(Path.cwd())),
        ) from error
