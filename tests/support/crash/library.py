"""The preloaded library: compiled once, and armed in the process that is to end."""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

Form = Literal["count", "before", "after", "torn", "lost", "fail once", "full"]
"""``lost`` ends the process after the operation and takes away what was not synced; ``fail once``
lets this operation alone fail, ``full`` this one and all later ones that take space."""
_FORMS: dict[Form, int] = {
    "count": 0,
    "before": 1,
    "after": 2,
    "torn": 3,
    "lost": 2,
    "fail once": 4,
    "full": 5,
}
_SOURCE = Path(__file__).with_name("points.c")


@dataclass(frozen=True)
class Point:
    """Where a life ends, or meets an error: the number of a file operation below ``folders``."""

    folders: tuple[str, ...]
    number: int = 0
    form: Form = "count"
    error: int = 0
    reads: bool = False
    journal: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Point:
        return cls(**{**document, "folders": tuple(document["folders"])})


def compiler() -> str | None:
    """The system's C compiler, None where there is none."""
    return shutil.which("cc") or shutil.which("gcc")


@cache
def library() -> Path:
    """The compiled library, in a directory of this process's own."""
    found = compiler()
    assert found is not None, "a C compiler (cc) is needed"
    directory = Path(tempfile.mkdtemp(prefix="statemigrate-points-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    into = directory / "points.so"
    words: Sequence[str] = (found, "-O1", "-shared", "-fPIC", "-o", str(into), str(_SOURCE))
    subprocess.run([*words, "-lpthread"], check=True)
    return into


def arm(loaded: Path, point: Point) -> None:
    """From now on this process's file operations count; it must run with ``loaded`` preloaded."""
    journal = -1
    if point.journal is not None:
        journal = os.open(point.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    ctypes.CDLL(str(loaded)).crash_points_arm(
        ":".join(point.folders).encode(),
        ctypes.c_long(point.number),
        _FORMS[point.form],
        point.error,
        journal,
        int(point.reads),
    )


def counted(loaded: Path) -> int:
    """How many operations this process has made since it was armed."""
    count = ctypes.CDLL(str(loaded)).crash_points_counted
    count.restype = ctypes.c_long
    return int(count())
