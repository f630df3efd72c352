"""Running a parser on bytes that somebody else made, within bounds of memory and time."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pyarrow as pa
from hypothesis import settings

from statemigrate.errors import StatemigrateError
from statemigrate.formats.arrow_values import binary_type

EXAMPLES = int(os.environ.get("STATEMIGRATE_FUZZ", "40"))
"""Examples of each parser's input: a sample in the suite, as many as asked for by `make fuzz`."""
fuzzed = settings(max_examples=EXAMPLES)
MEMORY = 1 << 30
"""Bytes of address space that a parser may take beyond what the process has."""
SECONDS = 5


@contextmanager
def bounded(memory: int = MEMORY, seconds: int = SECONDS) -> Iterator[None]:
    """Fail with `MemoryError` or `TimeoutError` where the block takes more."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + memory, before[1]))
    handler = signal.signal(signal.SIGALRM, _overdue)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def refused_or_read(parse: Callable[[], Any]) -> StatemigrateError | None:
    """The named error with which an input was refused, None if it was read; nothing else passes."""
    try:
        parse()
    except StatemigrateError as error:
        refusal = error
    else:
        return None
    assert refusal.summary
    assert refusal.next_action
    return refusal


def _address_space() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()


def _overdue(_: int, __: FrameType | None) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def check_whole(array: pa.Array) -> None:
    """Raise `pyarrow.ArrowInvalid` for an array of which a part is not there.

    Text may be any bytes.
    """
    array.validate()
    array.cast(binary_type(array.type)).validate(full=True)
