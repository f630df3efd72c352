"""Comparing the windows in state with those that the new code makes.

Windows that are in state, held against those that the new code makes.

A window's content depends on its start and its end alone: a row of state whose window the new code
makes too is right as it is. What else may be wrong is what is not there. Under the new code every
event has a row in each window that it is in, until the watermark has passed the window's end. So a
state in which a window stands without those that it could not be without was left by other code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from statemigrate.rewrite.windows import SessionWindow, TimeWindow, Verdict

Micros = npt.NDArray[np.int64]


def _none() -> Micros:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class ObservedWindows:
    """The different windows of all rows: when each starts and ends, in microseconds since 1970.

    ``rows`` says of each how many rows are in it.
    """

    starts: Micros = field(default_factory=_none)
    ends: Micros = field(default_factory=_none)
    rows: Micros = field(default_factory=_none)

    @classmethod
    def of(cls, rows: Mapping[tuple[int, int], int]) -> ObservedWindows:
        """From the number of rows by start and end."""
        pairs = np.array([*rows], np.int64).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1], np.array([*rows.values()], np.int64))

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.rows.sum())

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths that windows have, the shortest first."""
        return tuple(np.unique(self.ends - self.starts).tolist())

    @property
    def step(self) -> int | None:
        """The shortest time between two different starts; None where there is only one."""
        starts = np.unique(self.starts)
        return int(np.diff(starts).min()) if len(starts) > 1 else None

    @property
    def last(self) -> int | None:
        """When the last window ends."""
        return int(self.ends.max()) if len(self.ends) else None

    def made_by(self, window: TimeWindow) -> npt.NDArray[np.bool_]:
        """Of which of them ``window`` has one."""
        is_long = self.ends - self.starts == window.length
        found: npt.NDArray[np.bool_] = is_long & ((self.starts - window.offset) % window.slide == 0)
        return found


@dataclass(frozen=True)
class WindowComparison:
    """What state says of the windows of the new code.

    ``others`` counts the windows that the new code does not make, ``other_rows`` the rows in them.
    Windows, and sessions, that begin at ``right_from`` or later, in microseconds since 1970, hold
    what they would hold had the new code run from the beginning: no event before the rewrite was in
    one. None where this is unknown.
    """

    verdict: Verdict
    others: int = 0
    other_rows: int = 0
    right_from: int | None = None


def compare_windows(found: ObservedWindows, window: TimeWindow, watermark: int) -> WindowComparison:
    """Hold all windows of a state against the new code's.

    ``watermark`` is in microseconds: rows of windows that end by then may be gone, and it is 0
    where no event has come.
    """
    right_from = _next_start(window, max(watermark, found.last or 0))
    if not found.count:
        return WindowComparison("unseen" if watermark > 0 else "same", right_from=right_from)
    made = found.made_by(window)
    others, rows = int((~made).sum()), int(found.rows[~made].sum())
    if others:
        return WindowComparison("other", others, rows, right_from)
    is_whole = _has_all(found.starts, window, watermark)
    return WindowComparison("same" if is_whole else "missing", right_from=right_from)


def compare_sessions(
    found: ObservedWindows, session: SessionWindow, watermark: int
) -> WindowComparison:
    """Hold all sessions of a state against the new code's gap.

    A session is as long as the gap where it has one event, and else longer. So one that is shorter
    than the new gap was made with a shorter one; as long as it, nothing speaks against the new gap;
    where all are longer, the old gap may have been any up to the shortest.
    """
    last = max(watermark, found.last or 0)
    right_from = None if session.gap is None else last + session.gap
    if not found.count:
        verdict: Verdict = "unseen" if watermark > 0 else "same"
        return WindowComparison(verdict, right_from=right_from)
    if session.gap is None:
        return WindowComparison("unknown")
    is_short = found.ends - found.starts < session.gap
    if is_short.any():
        rows = int(found.rows[is_short].sum())
        return WindowComparison("other", int(is_short.sum()), rows, right_from)
    is_same = found.lengths[0] == session.gap
    return WindowComparison("same" if is_same else "unknown", right_from=right_from)


def compare_observed(
    old: ObservedWindows, new: ObservedWindows, watermark: int
) -> WindowComparison:
    """Hold the windows of one state against those of another one.

    They are alike where they have the same lengths, and begin at the same places of these.
    """
    if not old.count:
        return WindowComparison("unseen" if watermark > 0 else "same")
    if not new.count:
        return WindowComparison("unknown")
    if old.lengths != new.lengths:
        is_other = ~np.isin(old.ends - old.starts, new.lengths)
        return WindowComparison("other", int(is_other.sum()), int(old.rows[is_other].sum()))
    return WindowComparison(
        "same" if _lengths_and_offsets(old) == _lengths_and_offsets(new) else "unknown"
    )


def lost_parts(found: ObservedWindows, window: TimeWindow, watermark: int) -> int | None:
    """The start of the first window of the new code that lacks no part which is gone by now.

    Windows of the state become parts of longer ones. Those that end by the ``watermark`` may be
    given out and gone, and with them what they had of a window that goes on. None where no such
    window is still open. Of an empty state any part may be gone.
    """
    if watermark <= 0:
        return None
    shortest = found.lengths[0] if found.count else 1
    starts = [each for each in window.starts_of(watermark) if each + shortest <= watermark]
    return max(starts) + window.slide if starts else None


def _lengths_and_offsets(found: ObservedWindows) -> set[tuple[int, int]]:
    lengths = found.ends - found.starts
    return set(zip(lengths.tolist(), (found.starts % lengths).tolist(), strict=True))


def _next_start(window: TimeWindow, timestamp: int) -> int:
    """The start of the first window that begins at a time or later."""
    return timestamp + (window.offset - timestamp) % window.slide


def _has_all(starts: Micros, window: TimeWindow, watermark: int) -> bool:
    """Whether there are events from which the new code would have left just these windows.

    An event is in windows that begin one slide after the other, at least as many as whole slides go
    into the length. Only the earliest of them may be gone. So of windows that stand in a row, none
    before them, there are as many; or the row begins with the first window that is not gone.
    """
    least = window.length // window.slide
    numbers = np.unique((starts - window.offset) // window.slide)
    # The first window that ends after the watermark.
    first_open = (watermark - window.length - window.offset) // window.slide + 1
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    runs = np.split(numbers, breaks)
    return all(len(run) >= least or run[0] <= first_open for run in runs)
