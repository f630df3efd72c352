"""A standalone Spark cluster on this machine: one master, two workers of one core each."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from pathlib import Path

import pyspark

from statemigrate.demo.stage import ProcessSession

_HOME = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
_PATIENCE = 180.0  # seconds


class Cluster:
    """Started with its construction; as a context manager it leaves no process behind.

    With ``own_disk``, a folder that is there, each worker has another one under its path.
    """

    def __init__(self, folder: Path, own_disk: Path | None = None) -> None:
        self._folder = folder
        self._own_disk = own_disk
        folder.mkdir()
        port = _free_port()
        self.master = f"spark://127.0.0.1:{port}"
        arguments = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        self._sessions = [self._started("master", f"{_DEPLOY}.master.Master", arguments)]
        _wait_for(folder / "master.log", r"I have been elected leader")
        for number in (1, 2):
            name = f"worker-{number}"
            work = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / name)]
            work += ["--webui-port", "0", "--host", "127.0.0.1", self.master]
            self._sessions.append(self._started(name, f"{_DEPLOY}.worker.Worker", work))
        for number in (1, 2):
            _wait_for(folder / f"worker-{number}.log", r"Successfully registered with master")

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions:
            session.kill()

    def executors(self) -> set[int]:
        """The ids of the running executors' processes, which the workers started."""
        members = set().union(*(session.members() for session in self._sessions))
        return {pid for pid in members if b"CoarseGrainedExecutorBackend" in _command(pid)}

    def kill_one_executor(self) -> None:
        """End one executor by SIGKILL; its worker starts another."""
        os.kill(min(self.executors()), signal.SIGKILL)

    def _started(self, name: str, main: str, arguments: list[str]) -> ProcessSession:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
        command = [str(_HOME / "bin" / "spark-class"), main, *arguments]
        if self._own_disk is not None and name != "master":
            mounted = 'mount -t tmpfs none "$0" && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", mounted, str(self._own_disk), *command]
        return ProcessSession(
            command,
            directory=self._folder,
            environment={**kept, "SPARK_HOME": str(_HOME), "SPARK_LOCAL_IP": "127.0.0.1"},
            log=self._folder / f"{name}.log",
        )


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if re.search(text, log.read_text(errors="replace")):
            return
        time.sleep(0.1)
    raise AssertionError(f"{text!r} never came in {log}:\n{log.read_text()[-2000:]}")
