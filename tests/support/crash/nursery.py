"""A prepared process that forks a child for each life, so that a life costs no start of Python.

`Nursery` is the harness's side. The other side, started with the library preloaded and a hash seed
of its own, imports what lives need, and then forks for each order: the child arms the library,
calls the life and answers with what it returned; how it ended is told in any case.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from support.crash.library import Point, arm, counted, library

_TESTS = Path(__file__).parents[2]
_SECONDS = 120.0
"""How long a life may take: far more than it does on a busy machine."""

Ended = Literal["returned", "raised", "killed", "hung", "died"]


@dataclass(frozen=True)
class Life:
    """How a life ended, what it returned or raised, and how many operations it made."""

    ended: Ended
    value: Any = None
    error: str = ""
    kind: str = ""
    """The name of the class of what it raised, for an error of the package behind "package:"."""
    counted: int = 0


def _further_paths() -> list[str]:
    return [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]


class Nursery:
    """Forks lives in a process with the given hash seed; ``modules`` are imported before."""

    def __init__(self, hash_seed: int, modules: Sequence[str]) -> None:
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(hash_seed),
            "PYTHONPATH": os.pathsep.join([str(_TESTS), *_further_paths()]),
            "TZ": "UTC",
            "LD_PRELOAD": str(library()),
        }
        self.hash_seed = hash_seed
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.crash.nursery", str(library()), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def run(self, life: str, *arguments: Any, point: Point | None = None) -> Life:
        """Call ``life`` ("module:function") with plain arguments in a child of its own."""
        order = {
            "life": life,
            "arguments": arguments,
            "point": None if point is None else point.to_json(),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the nursery ended: {self._process.poll()}"
        return Life(**json.loads(answer))

    def close(self) -> None:
        """End the prepared process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


def _serve(loaded: Path) -> None:
    for line in sys.stdin:
        order = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _live(order, loaded, write)
        os.close(write)
        # The answer goes where the orders came from; nothing else is printed there.
        print(json.dumps(_ended(child, read)), flush=True)  # noqa: T201


def _live(order: dict[str, Any], loaded: Path, write: int) -> None:
    sys.stdout = sys.stderr
    module, function = order["life"].split(":")
    call = getattr(importlib.import_module(module), function)
    if order["point"] is not None:
        arm(loaded, Point.from_json(order["point"]))
    try:
        answer: dict[str, Any] = {"ended": "returned", "value": call(*order["arguments"])}
    except BaseException as error:
        answer = {"ended": "raised", "error": _told(error), "kind": _kind(error)}
    answer["counted"] = counted(loaded)
    with os.fdopen(write, "w") as out:
        out.write(json.dumps(answer))
    os._exit(0)


def _ended(child: int, read: int) -> dict[str, Any]:
    text = _read_all(read, time.monotonic() + _SECONDS)
    os.close(read)
    if text is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return {"ended": "hung"}
    _, status = os.waitpid(child, 0)
    if text:
        answer: dict[str, Any] = json.loads(text)
        return answer
    by_us = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return {"ended": "killed" if by_us else "died", "error": f"status {status}"}


def _read_all(read: int, end: float) -> bytes | None:
    found = b""
    while (left := end - time.monotonic()) > 0:
        if not select.select([read], [], [], left)[0]:
            return None
        block = os.read(read, 1 << 16)
        if not block:
            return found
        found += block
    return None


def _told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _kind(error: BaseException) -> str:
    from statemigrate.errors import StatemigrateError

    name = type(error).__name__
    return f"package:{name}" if isinstance(error, StatemigrateError) else name


if __name__ == "__main__":
    for each in sys.argv[2:]:
        lives = importlib.import_module(each)
        # Not when it is imported: that is done by tests too.
        if hasattr(lives, "prepare"):
            lives.prepare()
    _serve(Path(sys.argv[1]))
