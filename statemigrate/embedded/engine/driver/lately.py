"""What the batches of a run took of late, of which the next one's backfill is a share."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

_LAST = 9
"""Batches with rows that are looked back at: in four of ten a partition stores a snapshot."""


@dataclass(frozen=True)
class Lately:
    """What a partition's part of each of the last batches with rows was, without backfill.

    While a backfill is under way batches without rows come between the others, and take less:
    ``idle_ms`` is the last one's part, and ``had_rows`` whether the last batch was another.
    """

    last: tuple[float, ...] = ()
    idle_ms: float = 0.0
    had_rows: bool = False

    @property
    def batch_ms(self) -> float:
        """Milliseconds that the part of one with rows takes, mostly; 0 before the first batch."""
        return statistics.median(self.last) if self.last else self.idle_ms

    def after(self, elapsed: float, reports: Sequence[dict[str, Any]], cores: int) -> Lately:
        """The same after a batch that took ``elapsed`` milliseconds."""
        took = without_backfill(elapsed, reports, cores)
        if any(report["rows"] for report in reports):
            return replace(self, last=(*self.last, took)[-_LAST:], had_rows=True)
        return replace(self, idle_ms=took, had_rows=False)


def without_backfill(batch_ms: float, reports: Sequence[dict[str, Any]], cores: int) -> float:
    """What one partition's backfill is a share of; partitions that wait for a core share it.

    All partitions count as the slowest one: a backfill also slows down what runs beside it.
    """
    waves = math.ceil(len(reports) / max(cores, 1))
    slowest: float = max(report["backfill_ms"] for report in reports)
    return max(0.0, batch_ms - waves * slowest) / waves
