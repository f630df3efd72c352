"""A system's process: it ends with the tests, however they end."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

_PATIENCE = 120.0  # seconds


class Process:
    """A command whose output goes to ``log``, with ``variables`` added to the environment.

    ``user`` is who it runs as, when root starts it.
    """

    def __init__(
        self,
        command: list[str],
        log: Path,
        user: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=log.parent,
                env={**os.environ, **(variables or {})},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                user=user,
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - one call that takes no lock
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Return as soon as it is ready; says the end of its log where it ends or never is."""
        deadline = time.monotonic() + _PATIENCE
        while not ready():
            ended = self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                said = self.log.read_text(encoding="utf-8", errors="replace")[-3000:]
                state = f"ended with {self._process.returncode}" if ended else "is not ready"
                self.kill()
                raise RuntimeError(f"{self._process.args!r} {state}:\n{said}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End it at once."""
        self.end(signal.SIGKILL)

    def end(self, sent: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end, and end it where it does not."""
        if self._process.poll() is None:
            self._process.send_signal(sent)
        with suppress(BrokenPipeError):
            self._process.stdin.close()  # type: ignore[union-attr]
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=30)


def free_port() -> int:
    """A port that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Whether something listens."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end_with_parent() -> None:
    if sys.platform == "linux":
        parent_died = 1
        ctypes.CDLL(None).prctl(parent_died, signal.SIGKILL)
