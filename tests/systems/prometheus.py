"""A Prometheus that scrapes one target every second, with the rules of a file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from systems.packages import Missing
from systems.processes import Process, answers, free_port

_SETTINGS = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: queries
    static_configs: [{{targets: ["127.0.0.1:{target}"]}}]
"""


class Prometheus:
    """Started with its construction, in ``folder``."""

    def __init__(self, folder: Path, target: int, rules: Path) -> None:
        place = folder / "prometheus"
        place.mkdir()
        settings = place / "prometheus.yml"
        settings.write_text(_SETTINGS.format(rules=json.dumps(str(rules)), target=target))
        self._port = free_port()
        command = [program("prometheus"), f"--config.file={settings}"]
        command += [
            f"--storage.tsdb.path={place}/data",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        self._process = Process(command, place / "log")
        self._process.wait_until(lambda: answers(self._port) and self._is_ready())

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API."""
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            document = json.load(answer)
        assert document["status"] == "success", document
        return document["data"]

    def stop(self) -> None:
        """End it."""
        self._process.end()

    def _is_ready(self) -> bool:
        try:
            return bool(self.ask("targets", state="active")["activeTargets"])
        except OSError:
            return False


def check(command: str, file: Path) -> str:
    """What ``promtool COMMAND rules FILE`` says. Raises where it finds something wrong."""
    ran = subprocess.run(
        [program("promtool"), command, "rules", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def program(name: str) -> str:
    """Where a program of Prometheus's is."""
    unpacked = Path(sys.prefix) / "prometheus" / "usr" / "bin" / name
    found = shutil.which(name) or (str(unpacked) if unpacked.exists() else None)
    if found is None:
        raise Missing(f"no {name} on the path\n  next: make prometheus")
    return found
