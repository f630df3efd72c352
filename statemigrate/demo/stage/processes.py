"""A process with everything it starts, to be stopped, continued and killed as one.

Spark's driver starts a JVM and that one Python workers, in process groups of their own; what holds
them together is the operating system's session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

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
