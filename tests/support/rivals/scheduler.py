"""Drivers as threads of which one runs at a time, up to its next file operation.

Who goes on at each operation is `Choices`': at random from a seed, or one schedule after the other
until all were had. The drivers reach files through `RivalFiles` alone, so that the order of their
operations, and with it everything they do, follows from the choices.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol

from statemigrate.files.protocol import LARGEST, FileEntry, Files

_STUCK = 120.0
"""Seconds after which a driver that does not come to its next operation waits for another one."""


@dataclass(frozen=True)
class Operation:
    """What a driver is about to do, or has done."""

    driver: int
    verb: str
    name: str

    def __str__(self) -> str:
        return f"{'ABC'[self.driver]} {self.verb} {self.name}"


class Choices(Protocol):
    """Says who goes on."""

    def choose(self, last: int | None, ready: Sequence[int]) -> int:
        """One of those that are ``ready``; ``last`` had the operation before."""


class Drawn:
    """At random, from a seed that also says how often drivers take turns."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._often = self._random.choice((0.02, 0.1, 0.3, 0.7))

    def choose(self, last: int | None, ready: Sequence[int]) -> int:
        """See `Choices`."""
        if last in ready and self._random.random() > self._often:
            return last
        return self._random.choice(ready)


class Alone:
    """One after the other."""

    def choose(self, last: int | None, ready: Sequence[int]) -> int:
        """See `Choices`."""
        return ready[0]


@dataclass
class Given:
    """The ``first`` choices as they are given, and then nobody is interrupted."""

    first: Sequence[int] = ()
    made: list[tuple[int | None, tuple[int, ...], int]] = field(default_factory=list)
    """Each choice: who had the operation before, who was ready, and who went on."""

    def choose(self, last: int | None, ready: Sequence[int]) -> int:
        """See `Choices`."""
        at = len(self.made)
        usual = last if last in ready else ready[0]
        chosen = self.first[at] if at < len(self.first) else usual
        self.made.append((last, tuple(ready), chosen))
        return chosen


def every_schedule(
    play: Callable[[Given], Any], interruptions: int | None = None
) -> Iterator[Given]:
    """Play every schedule once in which drivers are interrupted so often at most."""
    to_do: list[tuple[int, ...]] = [()]
    while to_do:
        given = Given(to_do.pop())
        play(given)
        yield given
        chosen = tuple(each for _, _, each in given.made)
        for at in range(len(given.first), len(chosen)):
            last, ready, went_on = given.made[at]
            before = sum(each in rest and each != who for each, rest, who in given.made[:at])
            for other in ready:
                more = last in ready and other != last
                if other != went_on and (interruptions is None or before + more <= interruptions):
                    to_do.append((*chosen[:at], other))


class AbandonedError(BaseException):
    """Ends a driver of a run that has failed."""


@dataclass
class _Driver:
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    has_ended: bool = False
    result: Any = None
    error: Exception | None = None


class Rivals:
    """One run of drivers on the same files. ``operations`` are in the order they took place."""

    def __init__(self, files: Files, choices: Choices) -> None:
        self.operations: list[Operation] = []
        self._files = files
        self._choices = choices
        self._drivers: list[_Driver] = []
        self._back = threading.Semaphore(0)
        self._abandoned = False

    @property
    def drivers(self) -> int:
        """How many there were."""
        return len(self._drivers)

    @property
    def refused(self) -> int:
        """How many of them ended with an error."""
        return sum(each.error is not None for each in self._drivers)

    def files(self, driver: int) -> RivalFiles:
        """The files as a driver reaches them; it is numbered from 0."""
        return RivalFiles(self._files, driver, self)

    def run(self, *drivers: Callable[[], Any]) -> list[_Driver]:
        """Run all to their ends; what became of each."""
        self._drivers = [_Driver() for _ in drivers]
        threads = [
            threading.Thread(target=self._life, args=(state, body), daemon=True)
            for state, body in zip(self._drivers, drivers, strict=True)
        ]
        for thread in threads:
            thread.start()
        last: int | None = None
        try:
            while ready := [n for n, each in enumerate(self._drivers) if not each.has_ended]:
                last = self._choices.choose(last, ready)
                self._drivers[last].turn.release()
                if not self._back.acquire(timeout=_STUCK):
                    raise AssertionError(f"driver {last} waits for another: {self.operations[-1]}")
        finally:
            self._abandoned = True
            for each in self._drivers:
                each.turn.release()
        for thread in threads:
            thread.join(_STUCK)
        return self._drivers

    def operation(self, driver: int, verb: str, name: str) -> None:
        """Called by a driver before an operation: wait for its turn."""
        self._wait(self._drivers[driver])
        self.operations.append(Operation(driver, verb, name))

    def _wait(self, state: _Driver) -> None:
        self._back.release()
        state.turn.acquire()
        if self._abandoned:
            raise AbandonedError

    def _life(self, state: _Driver, body: Callable[[], Any]) -> None:
        state.turn.acquire()
        try:
            if not self._abandoned:
                state.result = body()
        except AbandonedError:
            return
        except Exception as error:
            state.error = error
        finally:
            state.has_ended = True
            self._back.release()


@dataclass(frozen=True)
class RivalFiles:
    """`Files` of one driver, which waits for its turn before each operation."""

    files: Files
    driver: int
    rivals: Rivals

    @property
    def location(self) -> str:
        return self.files.location

    def get(self, name: str, *, most: int = LARGEST) -> bytes:
        self._turn("get", name)
        return self.files.get(name, most=most)

    def fetch(
        self, name: str, target: Path, *, most: int, shared: bool = False, cut: bool = False
    ) -> None:
        self._turn("get", name)
        self.files.fetch(name, target, most=most, shared=shared, cut=cut)

    def put(self, name: str, data: bytes | Path) -> None:
        self._turn("put", name)
        self.files.put(name, data)

    def create(self, name: str, data: bytes) -> None:
        self._turn("create", name)
        self.files.create(name, data)

    def replace(self, name: str, data: bytes, *, like: str | None = None) -> None:
        self._turn("replace", name)
        self.files.replace(name, data, like=like)

    def list(self, folder: str = "", *, recursive: bool = False) -> tuple[FileEntry, ...]:
        self._turn("list", folder)
        return self.files.list(folder, recursive=recursive)

    def find(self, name: str = "") -> FileEntry | None:
        self._turn("find", name)
        return self.files.find(name)

    def delete(self, names: Iterable[str]) -> None:
        # One after the other, as a store does it.
        for name in names:
            self._turn("delete", name)
            self.files.delete([name])

    def delete_folder(self, folder: str) -> None:
        self.delete(each.name for each in self.list(folder, recursive=True))

    def _turn(self, verb: str, name: str) -> None:
        self.rivals.operation(self.driver, verb, name)


class InOrder:
    """In the place of a pool of threads, whose order no seed repeats: each task at once."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> InOrder:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, task: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """As ``Executor.submit``."""
        done: Future[Any] = Future()
        try:
            done.set_result(task(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done

    def shutdown(self, **_: Any) -> None:
        """As ``Executor.shutdown``."""
