"""Backfill: how much to migrate in one batch, and the loop that does it.

Engine-free: the loop reads a source family from a cursor and migrates through dual access, so a
backfilled entry takes the same write path as a live one and loses to it. The cursor and the
quarantined entries go through the `Ledger` the engine supplies, and are committed with the chunk.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol, get_args

from statemigrate.access import DualAccess
from statemigrate.blocks import BYTES_IN_BLOCK
from statemigrate.errors import StartupError, TransformError, require_word
from statemigrate.families import Key, MeasuredFamily, Source, Span

OnError = Literal["raise", "quarantine"]
_BLOCK, _SECONDS, _PART = 4_096, 0.02, 0.05
"""Entries that are migrated at once, and for how long, at the most; large values are fewer.

So many seconds, or that part of a budget with much time, as where the query is stopped.
"""


@dataclass(frozen=True)
class Budget:
    """The most one partition's chunk may take: entries, and milliseconds, whichever ends first."""

    rows: int
    milliseconds: float


@dataclass(frozen=True)
class Chunk:
    """What one chunk did. ``finished`` says that the source was read to its end."""

    migrated: int = 0
    quarantined: int = 0
    milliseconds: float = 0.0
    finished: bool = False


class Ledger(Protocol):
    """Where a partition keeps the backfill's cursor and its quarantined entries."""

    def cursor(self, family: str) -> bytes | None:
        """The last key the backfill has dealt with in ``family``."""

    def set_cursor(self, family: str, key: bytes) -> None:
        """Move the cursor, as part of the running batch."""

    def quarantine(self, family: str, key: Key, cause: str) -> None:
        """Record that ``key`` of ``family`` cannot be migrated; the entry itself stays."""


@dataclass(frozen=True)
class BackfillOptions:
    """The backfill's share of a batch.

    ``share`` is the target share of a batch's duration (0 to 1) for the backfill.
    ``idle_milliseconds`` is its time in a batch without live rows. With ``enabled=False`` values
    migrate only when the query reads or writes them. With ``drain`` a run that ends by itself
    (``availableNow``, ``once``) migrates the remaining values after its last batch; on a run that
    does not end, it has no effect. Raises `StartupError` for an option out of range.
    """

    enabled: bool = True
    share: float = 0.25
    idle_milliseconds: float = 1000.0
    minimum_milliseconds: float = 20.0
    initial_rows: int = 1_000
    maximum_rows: int = 1_000_000
    on_error: OnError = "raise"
    drain: bool = False

    def __post_init__(self) -> None:
        require_word("on_error", self.on_error, get_args(OnError))
        bounds = {
            "idle_milliseconds": 0,
            "minimum_milliseconds": 0,
            "initial_rows": 1,
            "maximum_rows": 1,
        }
        for name, least in bounds.items():
            given = getattr(self, name)
            # Written so that a NaN is refused.
            if not given >= least:
                raise _out_of_range(name, given, f"{least} or more")
        if not 0 <= self.share < 1:
            raise _out_of_range("share", self.share, "0 or more, and less than 1")


def _out_of_range(name: str, given: object, expected: str) -> StartupError:
    return StartupError(
        "SM-BACKFILL-018",
        f"BackfillOptions({name}={given}) cannot work",
        expected=expected,
        found=str(given),
        next_action=f"correct {name}, or leave it out",
        parameter=name,
    )


@dataclass(frozen=True)
class Tuner:
    """Chooses the next budget from what the last chunks achieved.

    The rate of a chunk is smoothed exponentially (weight 0.4 for the newest) and the row budget
    follows the time budget at that rate, growing to at most twice its size in one step.
    """

    options: BackfillOptions
    rows: int
    rows_per_millisecond: float | None = None

    @classmethod
    def start(cls, options: BackfillOptions) -> Tuner:
        """The tuner of a query that has not backfilled yet."""
        return cls(options, options.initial_rows)

    def budget(self, live_milliseconds: float) -> Budget:
        """The budget a partition gets when its live rows took ``live_milliseconds``."""
        return Budget(self.rows, self._time(live_milliseconds))

    def observe(self, chunk: Chunk, live_milliseconds: float, room: float = math.inf) -> Tuner:
        """The tuner for the next batch; a chunk cut short by the source's end teaches nothing.

        ``room`` is what a batch has left for a chunk, in milliseconds, where it is to end in time.
        """
        if chunk.finished or chunk.migrated == 0 or chunk.milliseconds <= 0:
            return self
        newest = chunk.migrated / chunk.milliseconds
        known = self.rows_per_millisecond
        rate = newest if known is None else 0.4 * newest + 0.6 * known
        wanted = int(rate * min(self._time(live_milliseconds), room))
        rows = max(1, min(wanted, 2 * self.rows, self.options.maximum_rows))
        return replace(self, rows=rows, rows_per_millisecond=rate)

    def backed_off(self, rows: int) -> Tuner:
        """The tuner after a chunk of ``rows`` that made a batch late: at most half of it."""
        return replace(self, rows=max(1, min(self.rows, rows // 2)))

    def _time(self, live_milliseconds: float) -> float:
        if live_milliseconds <= 0:
            return self.options.idle_milliseconds
        share = self.options.share
        # A part `share` of the whole is share/(1-share) of the live part.
        return max(self.options.minimum_milliseconds, live_milliseconds * share / (1 - share))


def run_chunk(
    access: DualAccess[Any],
    source: Source[Any],
    ledger: Ledger,
    budget: Budget,
    *,
    on_error: OnError = "raise",
    clock: Callable[[], float] = time.monotonic,
) -> Chunk:
    """Migrate entries of ``source`` from its cursor on, within the budget.

    Raises `TransformError` for a value that does not migrate, unless ``on_error`` is
    "quarantine": the entry then stays where it is, is recorded, and the chunk goes on.
    """
    began = clock()
    deadline = began + budget.milliseconds / 1000
    longest = max(_SECONDS, budget.milliseconds / 1000 * _PART)
    family = source.family.name
    entries = access.left_in(source, _after(ledger.cursor(family)))
    failed = partial(_failed, ledger, family, on_error)
    seen, done, size, now = 0, 0, 1, began
    finished = False
    while not finished and seen < budget.rows and (now < deadline or not seen):
        wanted = min(size, budget.rows - seen)
        block, finished = _block(entries, wanted, source.family)
        done += access.backfill_many(source, block, failed)
        seen += len(block)
        if block:
            ledger.set_cursor(family, block[-1][0])
        now = clock()
        time_left = min(deadline - now, longest)
        size = _next_size(size, seen, now - began, time_left)
    return Chunk(done, seen - done, (now - began) * 1000, finished)


def _block(
    entries: Iterator[tuple[Key, Any]], wanted: int, family: Any
) -> tuple[list[tuple[Key, Any]], bool]:
    """The next entries, fewer where they are full of bytes; and whether there are no more."""
    measured = family if isinstance(family, MeasuredFamily) else None
    full = 0 if measured is None else measured.scanned_bytes + BYTES_IN_BLOCK
    block: list[tuple[Key, Any]] = []
    for entry in entries:
        block.append(entry)
        if len(block) == wanted or (measured is not None and measured.scanned_bytes >= full):
            return block, False
    return block, True


def _next_size(size: int, seen: int, elapsed: float, left: float) -> int:
    """Entries to be taken at once next: no more than there is time for, as fast as so far."""
    in_time = min(seen / elapsed * left, _BLOCK) if elapsed > 0 else _BLOCK
    return max(1, min(2 * size, int(in_time)))


def _after(cursor: bytes | None) -> Span:
    # The least key greater than the cursor is the cursor with a zero byte behind it.
    return Span(lower=None if cursor is None else cursor + b"\x00")


def _failed(
    ledger: Ledger, family: str, on_error: OnError, key: Key, error: TransformError
) -> None:
    if on_error == "raise":
        raise error
    ledger.quarantine(family, key, str(error))
