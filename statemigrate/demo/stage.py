"""The demonstration's processes, sessions and batches, watched from outside.

A job of the demonstration, started in a session of its own and watched from outside.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row

from statemigrate.checkpoint.logs import HDFS_PROVIDER, PROVIDER, ROCKSDB_PROVIDER
from statemigrate.demo.demo_size import DemoOptions
from statemigrate.demo.paths import DemoFolder
from statemigrate.embedded import BatchProgress
from statemigrate.errors import StatemigrateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A process with everything it starts, to be stopped, continued and killed as one.
#
# Spark's driver starts a JVM and that one Python workers, in process groups of their own; what
# holds them together is the operating system's session.


_PATIENCE = 30.0  # seconds


class ProcessSession:
    """A command run as the leader of a new session, its output in a file.

    The command's standard input stays open as long as this process lives.
    """

    def __init__(
        self, command: list[str], *, directory: Path, environment: dict[str, str], log: Path
    ) -> None:
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - a fixed command, no shell
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.id = self._process.pid

    def exit_code(self) -> int | None:
        """The leader's exit code, None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Halt every process where it is."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let halted processes go on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End every process by SIGKILL, and wait until none is left."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        deadline = time.monotonic() + _PATIENCE
        while self.members() and time.monotonic() < deadline:
            time.sleep(0.02)

    def members(self) -> set[int]:
        """The ids of the session's living processes."""
        return {pid for pid in _living() if _session_of(pid) == self.id}

    def _signal(self, number: signal.Signals) -> None:
        done: set[int] = set()
        # A process may have been started between the listing and its signal: look again.
        while new := self.members() - done:
            for pid in new:
                _send(pid, number)
            done |= new


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # ended by itself meanwhile


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _living() -> set[int]:
    if Path("/proc/self/stat").exists():
        return {int(path.name) for path in Path("/proc").glob("[0-9]*") if not _is_zombie(path)}
    listed = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in listed.stdout.splitlines()]
    return {int(pid) for pid, state in rows if not state.startswith("Z")}


def _is_zombie(path: Path) -> bool:
    try:
        stat = (path / "stat").read_text()
    except OSError:
        return True  # gone
    # The command's name, in parentheses, may hold anything; the state follows it.
    return stat.rpartition(")")[2].split()[0] in "ZX"


# A batch as the demonstration shows it, whichever engine ran it.


@dataclass(frozen=True)
class BatchOutcome:
    """What one batch did. Times are milliseconds.

    ``left`` counts the values still in the old family. ``without_backfill`` leaves out the slowest
    partition's share of the backfill; it is None on Spark's own state, which does not tell.
    """

    number: int
    rows: int
    left: int
    touched: int
    backfilled: int
    milliseconds: float
    without_backfill: float | None = None
    retired: tuple[str, ...] = ()

    @classmethod
    def of(cls, progress: BatchProgress) -> BatchOutcome:
        """From the figures of the embedded engine."""
        return cls(
            progress.batch,
            progress.rows,
            progress.left,
            progress.touched,
            progress.backfilled,
            progress.batch_ms,
            progress.batch_ms - progress.backfill_ms,
            progress.retired,
        )


_POLL = 0.05  # seconds


class Deployment:
    """A running job; as a context manager it leaves no process behind."""

    def __init__(self, folder: DemoFolder, role: str) -> None:
        self._folder = folder
        self._role = role
        self._read = 0
        self.session = ProcessSession(
            [sys.executable, "-m", "statemigrate.demo.jobs.job", str(folder.root), role],
            directory=folder.root,
            environment=_environment(folder),
            log=folder.log(role),
        )

    def __enter__(self) -> Deployment:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.session.kill()

    def has_ended(self) -> bool:
        """Whether the job is done. Raises the error it ended with, if it did with one."""
        code = self.session.exit_code()
        if code is None:
            return False
        if code != 0:
            raise self._failure(code)
        return True

    def new_batches(self) -> Iterator[BatchOutcome]:
        """The batches reported since the last call."""
        path = self._folder.progress(self._role)
        if not path.exists():
            return
        with path.open("rb") as lines:
            lines.seek(self._read)
            # A line without its end is still being written, or was when the process was killed.
            whole, separator, _ = lines.read().rpartition(b"\n")
        self._read += len(whole) + len(separator)
        for line in whole.splitlines():
            yield _batch(json.loads(line))

    def until_end(self) -> Iterator[BatchOutcome]:
        """Every batch as it is reported, until the job is done."""
        while not self.has_ended():
            yield from self.new_batches()
            time.sleep(_POLL)
        yield from self.new_batches()

    def _failure(self, code: int) -> StatemigrateError:
        log = self._folder.log(self._role)
        described = self._folder.error(self._role)
        if described.exists():
            error = StatemigrateError.from_json(json.loads(described.read_text()))
            error.next_action = f"{error.next_action or 'see what it printed'} (its log: {log})"
            return error
        return StatemigrateError(
            "SM-DEMO-002",
            f"the process '{self._role}' failed",
            expected="exit code 0",
            found=f"exit code {code}; the last line it printed: {_last_line(log)}",
            next_action=f"read {log}",
            path=str(log),
        )


def _environment(folder: DemoFolder) -> dict[str, str]:
    # Another Spark or Python that the user's environment points at is not the one installed here.
    kept = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    return {
        **kept,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder.temporary),
        "TMPDIR": str(folder.temporary),
    }


_LEFT_OUT = frozenset({"SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS"})


def _batch(document: dict[str, Any]) -> BatchOutcome:
    retired = tuple(document.pop("retired"))
    return BatchOutcome(retired=retired, **document)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "none"


def run_job(folder: DemoFolder, role: str) -> None:
    """Run what makes no batches to its end."""
    with Deployment(folder, role) as job:
        for _ in job.until_end():
            pass


# The Spark session of the demonstration's processes.


# A JVM that lives for a minute spends more on optimising its code than that code gives back.
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def spark_session(folder: DemoFolder) -> SparkSession:
    """A session that keeps all its files in the folder and its messages to itself."""
    from pyspark.sql import SparkSession

    logging = (Path(__file__).parent / "log4j2.properties").as_uri()
    options = (
        f"-Dlog4j2.configurationFile={logging}",
        f"-Djava.io.tmpdir={folder.temporary}",
        *_SHORT_LIVED,
    )
    java = " ".join(f'"{option}"' for option in options)
    settings = {
        "spark.driver.extraJavaOptions": java,
        "spark.sql.warehouse.dir": str(folder.temporary / "warehouse"),
        "spark.sql.shuffle.partitions": str(folder.options.partitions),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.pyspark.python": sys.executable,
        PROVIDER: _provider(folder),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(folder.options.master).appName("statemigrate demo")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _provider(folder: DemoFolder) -> str:
    """Several variables need RocksDB; what is rewritten begins with Spark's default."""
    return HDFS_PROVIDER if folder.options.engine == "rewrite" else ROCKSDB_PROVIDER


# From a running query to the lines its process reports, one a batch.


def plain_outcomes(query: Any) -> list[BatchOutcome]:
    """The batches with rows of a query of Spark's that does not migrate."""
    return [
        BatchOutcome(
            each.batchId, each.numInputRows, 0, 0, 0, float(each.durationMs["triggerExecution"])
        )
        for each in query.recentProgress
        if each.numInputRows
    ]


@contextmanager
def reported(batches: Callable[[], Sequence[BatchOutcome]], path: Path) -> Iterator[None]:
    """Append what ``batches`` gives, which only grows, to ``path`` as it comes."""
    done = threading.Event()
    reporter = threading.Thread(target=_report, args=(batches, path, done))
    reporter.start()
    try:
        yield
    finally:
        done.set()
        reporter.join()


def _report(
    batches: Callable[[], Sequence[BatchOutcome]], path: Path, done: threading.Event
) -> None:
    reported = 0
    with path.open("a") as lines:
        while True:
            last = done.wait(_POLL)
            for batch in batches()[reported:]:
                lines.write(json.dumps(asdict(batch)) + "\n")
                reported += 1
            lines.flush()
            if last:
                return


# What both versions of the processor tell downstream: a key's row as it is now, money in cents.


COLUMNS = ("entity", "seller", "name", "category", "city", "bids", "total", "highest")
OUTPUT = (
    "entity STRING, seller BIGINT, name STRING, category STRING, city STRING, "
    "bids BIGINT, total BIGINT, highest BIGINT"
)
Summary = Row(*COLUMNS)
REWRITTEN = ("entity", "bids", "total", "highest", "mean")
"""What the aggregation gives of an auction whose state was rewritten."""


# Ending a deployment in the middle of a batch, and being sure that it was the middle.


@dataclass(frozen=True)
class Crash:
    """A batch that was begun and not committed when its processes were killed.

    ``partitions_written`` of the ``partitions`` had already made their part of it durable.
    """

    batch: int
    partitions: int
    partitions_written: int


class MidBatchKill:
    """Waits for a batch from ``first_batch`` on to be half done, then kills.

    Spark notes a batch in ``offsets`` before it runs and in ``commits`` after it. Half done is
    noted but not committed, with the part of at least one partition written; ``written`` counts
    those of a batch.
    """

    def __init__(
        self,
        session: ProcessSession,
        checkpoint: Path,
        partitions: int,
        first_batch: int,
        written: Callable[[int], int],
    ) -> None:
        self._session = session
        self._checkpoint = checkpoint
        self._written = written
        self._partitions = partitions
        self._first = first_batch

    def strike(self) -> Crash | None:
        """Kill if the moment is right; None if it is not. Never blocks for long."""
        batch = self._newest("offsets")
        if batch < self._first or not self._is_half_done(batch):
            return None
        self._session.stop()
        # Only of halted processes is it certain what they have done.
        if not self._is_half_done(batch):
            self._session.resume()
            return None
        self._session.kill()
        return Crash(batch, self._partitions, self._written(batch))

    def _is_half_done(self, batch: int) -> bool:
        return self._newest("commits") < batch and self._written(batch) > 0

    def _newest(self, log: str) -> int:
        names = [path.name for path in (self._checkpoint / log).glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=-1)


# The first deployment of every demonstration, which is ended in the middle of a batch.


FILES = 12
FIRST_FILES = 9  # what the first deployment sees
KILL_FROM = 6  # the first batch worth interrupting: by then there is state to lose
_KILL_POLL = 0.01  # seconds


def until_killed(
    folder: DemoFolder, options: DemoOptions, written: Callable[[int], int]
) -> Iterator[BatchOutcome | Crash]:
    """The batches of the first deployment until it is killed, and then how it was killed.

    ``written`` counts the partitions that have made their part of a batch durable. Raises
    `StatemigrateError` when it was done before.
    """
    folder.arrive(FIRST_FILES)
    with Deployment(folder, "before") as deployment:
        kill = MidBatchKill(
            deployment.session, folder.checkpoint, options.partitions, KILL_FROM, written
        )
        crash = None
        while crash is None:
            if deployment.has_ended():
                raise _never_half_done(options)
            crash = kill.strike()
            yield from deployment.new_batches()
            time.sleep(_KILL_POLL)
    yield crash


def _never_half_done(options: DemoOptions) -> StatemigrateError:
    return StatemigrateError(
        "SM-DEMO-001",
        "the first deployment was done before a batch of it could be interrupted",
        expected="a batch long enough to be caught in the middle",
        found=f"{FIRST_FILES} batches of {options.events // FILES} events",
        next_action=f"run it again, or with larger batches: --events {2 * options.events}",
    )


# How long each act of a demonstration takes.


class ActTimes:
    """Seconds by the names of acts, rounded to tenths."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Time what is done within."""
        began = time.monotonic()
        yield
        self._seconds[name] = round(time.monotonic() - began, 1)

    def to_json(self) -> dict[str, float]:
        """Each act, and all of them together."""
        return {**self._seconds, "all": round(sum(self._seconds.values()), 1)}
