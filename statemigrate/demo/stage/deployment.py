"""A job of the demonstration, started in a session of its own and watched from outside."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from statemigrate.demo.stage.batch import Batch
from statemigrate.demo.stage.places import DemoFolder
from statemigrate.demo.stage.processes import ProcessSession
from statemigrate.errors import StatemigrateError

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

    def new_batches(self) -> Iterator[Batch]:
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

    def until_end(self) -> Iterator[Batch]:
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


def _batch(document: dict[str, Any]) -> Batch:
    retired = tuple(document.pop("retired"))
    return Batch(retired=retired, **document)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "none"


def run_job(folder: DemoFolder, role: str) -> None:
    """Run what makes no batches to its end."""
    with Deployment(folder, role) as job:
        for _ in job.until_end():
            pass
