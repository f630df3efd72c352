"""Work on partitions in several processes of one command, each with a part of what Python can do.

Threads would share one core: what takes the time is Python's own decoding, transforms and encoding.
A process is this interpreter started again, which runs no module of the caller's; it gets its work
to do by its standard input, and ends as soon as that does, however the command ends.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from importlib import import_module
from queue import SimpleQueue
from typing import IO, Any

from statemigrate.errors import CheckpointError, StatemigrateError
from statemigrate.processor import few_collections

Document = dict[str, Any]
Work = Callable[[int], Iterator[Document]]
"""Works on the partition of a number, and tells of it in documents of JSON's own types."""
_START = "from statemigrate.embedded.processes import serve; serve()"
_LOADED = ("pyspark.cloudpickle", "pyarrow")
"""What a process loads while the command still finds out what it is to do."""


def cores() -> int:
    """The processors that this process may use."""
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


class Waiting:
    """Processes that load what they need, and wait for work; `end` ends those that got none."""

    def __init__(self) -> None:
        self.answers: SimpleQueue[tuple[_Process, Document | None]] = SimpleQueue()
        self._idle: list[_Process] = []

    def start(self, processes: int, *modules: str) -> None:
        """Start so many, which load ``modules``; fewer than two are this one, which is there."""
        if processes > 1 and sys.executable:
            self._idle += [_Process(self.answers, modules) for _ in range(processes)]

    def taken(self, processes: int) -> list[_Process]:
        """So many processes, for the caller to end; those that are not there yet are started."""
        while len(self._idle) < processes:
            self._idle.append(_Process(self.answers))
        taken, self._idle = self._idle[:processes], self._idle[processes:]
        return taken

    def end(self) -> None:
        """End those that nobody has taken."""
        while self._idle:
            self._idle.pop().end()


def shared_out(
    work: Work, numbers: Sequence[int], processes: int, waiting: Waiting | None = None
) -> Generator[tuple[int, Document], None, None]:
    """What ``work`` tells of each partition, as soon as it does, from so many processes at once.

    With one process it is this one; others are taken from those that are ``waiting``. An error of
    this package is raised as it was raised there, and ends all of them, as closing this iterator
    does. Raises `CheckpointError` for a process that ended by itself.
    """
    if min(processes, len(numbers)) < 2 or not sys.executable:
        with few_collections():
            for number in numbers:
                for report in work(number):
                    yield number, report
        return
    waiting = waiting or Waiting()
    answers, todo = waiting.answers, deque(numbers)
    started = waiting.taken(min(processes, len(numbers)))
    try:
        code = _pickled(work)
        for each in started:
            each.send(len(code).to_bytes(8, "big") + code)
            each.go_on(todo)
        while any(each.number is not None for each in started):
            process, document = answers.get()
            if process not in started:
                # One that ended with the work before this.
                continue
            if document is None:
                process.check_ended()
            elif "report" in document and process.number is not None:
                yield process.number, document["report"]
            else:
                process.check_done(document)
                process.go_on(todo)
    finally:
        for each in started:
            each.end()


def _pickled(work: Work) -> bytes:
    from pyspark import cloudpickle

    # As Spark does: functions of scripts go by value.
    code: bytes = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
    return code


class _Process:
    """A process, and the ``number`` of the partition that it works on; None if on none."""

    def __init__(
        self,
        answers: SimpleQueue[tuple[_Process, Document | None]],
        modules: Sequence[str] = (),
    ) -> None:
        path = os.pathsep.join(each or str(os.getcwd()) for each in sys.path)  # noqa: PTH109
        self.number: int | None = None
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-c", _START, *_LOADED, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._answers = answers
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def go_on(self, todo: deque[int]) -> None:
        """Give it the next partition, or the end."""
        self.number = todo.popleft() if todo else None
        if self.number is None:
            self._close()
        else:
            self.send(b"%d\n" % self.number)

    def send(self, data: bytes) -> None:
        """Write to it; one that has ended is noticed by what it answers."""
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - asked for above
        try:
            stdin.write(data)
            stdin.flush()
        except BrokenPipeError:
            return

    def check_done(self, document: Document) -> None:
        """Raise what it raised, if it did not do all of its partition."""
        if "error" in document:
            raise StatemigrateError.from_json(document["error"])
        if "raised" in document:
            raise self._failed(document["raised"])

    def check_ended(self) -> None:
        """Raise `CheckpointError` if it has ended in the middle of its work."""
        if self.number is not None:
            raise self._failed(f"it ended with status {self._process.wait()}")

    def end(self) -> None:
        """End it now, whatever it does; what it has reported is durable."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._close()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _close(self) -> None:
        stdin = self._process.stdin
        if stdin is not None:
            try:
                stdin.close()
            except BrokenPipeError:
                return

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101 - asked for above
        for line in stdout:
            self._answers.put((self, json.loads(line)))
        self._answers.put((self, None))

    def _failed(self, found: str) -> CheckpointError:
        return CheckpointError(
            "SM-EMBEDDED-008",
            f"a process that worked on partition {self.number} of the state failed",
            expected="work that ends with its result",
            found=found,
            next_action="run the command again: what is done is kept, and it goes on from there",
        )


def serve() -> None:
    """What a process does: its work on each partition that it gets, until there are no more."""
    # The command that is interrupted ends its processes itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = _own_output()
    for module in sys.argv[1:]:
        import_module(module)
    size = int.from_bytes(sys.stdin.buffer.read(8), "big")
    if not size:
        # There was nothing to do for this one.
        return
    # Of the command that started this process, not of any file.
    work: Work = pickle.loads(sys.stdin.buffer.read(size))  # noqa: S301
    numbers: SimpleQueue[int | None] = SimpleQueue()
    busy = threading.Event()
    threading.Thread(target=_listen, args=(numbers, busy), daemon=True).start()
    with few_collections():
        while (number := numbers.get()) is not None:
            for document in _answered(work, number):
                if "report" not in document:
                    # Before it is reported: the next partition may arrive at once.
                    busy.clear()
                answers.write(json.dumps(document, default=str).encode() + b"\n")
                answers.flush()


def _listen(numbers: SimpleQueue[int | None], busy: threading.Event) -> None:
    for line in sys.stdin.buffer:
        busy.set()
        numbers.put(int(line))
    if busy.is_set():
        # The command is gone.
        os._exit(1)
    numbers.put(None)


def _answered(work: Work, number: int) -> Iterator[Document]:
    try:
        for document in work(number):
            yield {"report": document}
    except StatemigrateError as error:
        yield {"error": error.to_json()}
    except BaseException:
        yield {"raised": traceback.format_exc()}
    else:
        yield {"done": number}


def _own_output() -> IO[bytes]:
    """Standard output for the answers alone: what a transform prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers
