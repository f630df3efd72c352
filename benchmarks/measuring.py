"""Measuring two things in turn, and saying whether their ratio is what it should be."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal
from unittest import mock

_TENTH = 0.1
_TOP = str(Path(__file__).resolve().parents[1])


@dataclass(frozen=True)
class Result:
    """One ratio: ``ratio`` of ``compared``, whose ``bound`` is ``limit``."""

    name: str
    compared: str
    ratio: float
    bound: Literal["at least", "at most", "within a tenth of"]
    limit: float
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether the ratio is within its limit."""
        if self.bound == "within a tenth of":
            return abs(self.ratio / self.limit - 1) <= _TENTH
        above = self.ratio >= self.limit
        return above if self.bound == "at least" else self.ratio <= self.limit

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON document."""
        return {**asdict(self), "holds": self.holds}


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call, in seconds."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def run_command(folder: Path, *arguments: str, expected: int = 0) -> str:
    """What ``statemigrate`` prints with these arguments, in a process of its own in a ``folder``.

    Raises RuntimeError for another exit code than the ``expected`` one.
    """
    command = [sys.executable, "-m", "statemigrate", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != expected:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def environment() -> dict[str, str]:
    """That of a command which imports the benchmarks' modules, and of its workers."""
    return {**os.environ, "PYTHONPATH": _TOP, "PYSPARK_PYTHON": sys.executable}


def processor_seconds() -> float:
    """Seconds of processors that this process has taken so far, with all that it has started.

    Only on Linux, where ``/proc`` tells.
    """
    taken, children = {}, defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            number = int(path.parent.name)
            children[int(fields[1])].append(number)
            taken[number] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    found, todo = 0.0, [os.getpid()]
    while todo:
        number = todo.pop()
        found += taken.get(number, 0.0)
        todo += children[number]
    return found


def in_turn(
    first: Callable[[], float], second: Callable[[], float], rounds: int
) -> tuple[list[float], list[float]]:
    """Measure both ``rounds`` times, A B A B, so that both meet the same disturbances."""
    pairs = [(first(), second()) for _ in range(rounds)]
    return [one for one, _ in pairs], [other for _, other in pairs]


def median_ratio(numerators: list[float], denominators: list[float]) -> float:
    """The median of the ratios pair by pair."""
    return statistics.median(a / b for a, b in zip(numerators, denominators, strict=True))


HEAD = "| what | compared | ratio | limit | |\n|---|---|---|---|---|"
"""What a Markdown table of results begins with."""


def table_rows(results: list[Result]) -> str:
    """The results as rows of a Markdown table."""
    lines = [
        f"| {r.name} | {r.compared} | {r.ratio:.2f} | {r.bound} {r.limit:g} | "
        f"{'holds' if r.holds else 'MISSED'} |"
        for r in results
    ]
    return "\n".join(lines)


def as_json(results: list[Result]) -> str:
    """The results with all their figures."""
    return json.dumps([result.to_json() for result in results], indent=2)


@contextlib.contextmanager
def codec_in_python() -> Iterator[None]:
    """Formats that are made and first used in here write and read without the compiled codec."""
    with mock.patch("statemigrate.formats.avro.extension.loaded", return_value=None):
        yield
