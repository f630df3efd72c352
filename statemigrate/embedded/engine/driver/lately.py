"""What the batches of a run took of late, of which the next one's backfill is a share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Lately:
    """A partition's part of a batch with rows, without backfill, and whether the last one had any.

    While a backfill is under way batches without rows come between the others, and take less.
    """

    batch_ms: float = 0.0
    had_rows: bool = False

    def after(self, elapsed: float, reports: Sequence[dict[str, Any]], cores: int) -> Lately:
        """The same after a batch that took ``elapsed`` milliseconds."""
        has_rows = any(report["rows"] for report in reports)
        if self.batch_ms and not has_rows:
            return Lately(self.batch_ms)
        return Lately(without_backfill(elapsed, reports, cores), has_rows)


def without_backfill(batch_ms: float, reports: Sequence[dict[str, Any]], cores: int) -> float:
    """What one partition's backfill is a share of; partitions that wait for a core share it."""
    taken = [report["backfill_ms"] for report in reports]
    at_once = min(max(cores, 1), len(reports))
    # The cores are busy until the last of them is done: with one task each with the longest.
    backfill: float = max(*taken, sum(taken) / at_once)
    return max(0.0, batch_ms - backfill) / math.ceil(len(reports) / at_once)
