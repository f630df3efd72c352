"""How long a backfill will take, estimated from a dry run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from statemigrate.budget import BackfillOptions
from statemigrate.inspect.dry_run_report import BackfillEstimate
from statemigrate.inspect.trial import Findings
from statemigrate.inspect.trial_path import TrialPath
from statemigrate.state import State

_WRITING = 0.6
"""The part of its own rate that a dry run keeps once it also writes (see benchmarks/README.md)."""
NATIVE_RATE = 3_500.0
"""Keys a second that Spark's own state migrates on two cores (see benchmarks/README.md)."""


@dataclass(frozen=True)
class Pace:
    """The part of a batch that a backfill may take.

    ``milliseconds`` on the embedded engine, ``keys`` on Spark's own state, or so many pages.
    """

    milliseconds: float = BackfillOptions.idle_milliseconds
    keys: int = 10_000


def estimated(
    state: State,
    to_try: Sequence[TrialPath],
    counts: Mapping[str, Mapping[int, int]],
    found: Mapping[str, Findings],
    pace: Pace,
) -> BackfillEstimate | None:
    """The estimate; None where nothing is left to migrate, or nothing was tried."""
    left: dict[int, int] = {}
    for trial_path in to_try:
        for number, count in counts.get(trial_path.family.name, {}).items():
            left[number] = left.get(number, 0) + count
    values, tried = sum(left.values()), sum(each.tried for each in found.values())
    if not values or not tried:
        return None
    if state.engine == "native":
        return _native(values, pace)
    rate = tried / max(sum(each.seconds for each in found.values()), 1e-9)
    pages = state.pages_with([trial_path.family.name for trial_path in to_try])
    if pages is not None:
        return _paged(values, max(left.values()), pages, rate, pace)
    return _embedded(values, max(left.values()), rate, pace)


def _embedded(values: int, largest: int, rate: float, pace: Pace) -> BackfillEstimate:
    seconds = largest / (rate * _WRITING)
    return BackfillEstimate(
        values,
        seconds,
        max(1, math.ceil(seconds * 1000 / pace.milliseconds)),
        f"{rate:,.0f} values a second and core in this dry run, {_WRITING:g} of it when writing; "
        f"the largest partition has {largest:,} values; {pace.milliseconds:,.0f} ms of backfill "
        "a batch",
    )


def _native(values: int, pace: Pace) -> BackfillEstimate:
    return BackfillEstimate(
        values,
        values / NATIVE_RATE,
        math.ceil(values / pace.keys),
        f"{NATIVE_RATE:,.0f} keys a second, as benchmarked on two cores; {pace.keys:,} keys "
        "a batch",
    )


def _paged(values: int, largest: int, pages: int, rate: float, pace: Pace) -> BackfillEstimate:
    # A backfill writes as well, but does without the way back and the examples: in Python a value
    # of four fields took 8 to 14 microseconds, and 30 in a dry run. The rest is for Spark's part.
    return BackfillEstimate(
        values,
        largest / rate,
        math.ceil(pages / pace.keys),
        f"{rate:,.0f} values a second and core, as in this dry run; the largest partition has "
        f"{largest:,} values; {pages:,} pages, {pace.keys:,} a batch",
    )
