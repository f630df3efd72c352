"""What the workers have migrated, from one event of a query to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter

    from statemigrate.metrics.instruments import NativeInstruments
    from statemigrate.native.live.counts import MigrationCounts


@dataclass
class _Growth:
    read: Callable[[], int]
    seen: int
    counter: Counter
    attributes: Mapping[str, str]

    def record(self) -> None:
        now = self.read()
        self.counter.add(now - self.seen, self.attributes)
        # Only now: what could not be recorded is part of the next growth.
        self.seen = now


class CountsRecorder:
    """Records by how much the counts have grown since it was made, or last asked."""

    def __init__(
        self, counts: MigrationCounts, instruments: NativeInstruments, query: Mapping[str, str]
    ) -> None:
        by_touch, by_backfill = {**query, "by": "touch"}, {**query, "by": "backfill"}
        self._growths = [
            _Growth(lambda: counts.touched, counts.touched, instruments.migrated, by_touch),
            _Growth(
                lambda: counts.backfilled, counts.backfilled, instruments.migrated, by_backfill
            ),
            _Growth(lambda: counts.quarantined, counts.quarantined, instruments.failed, query),
        ]

    def record(self) -> None:
        """Record what was migrated and what failed since."""
        for growth in self._growths:
            growth.record()

    def skip(self) -> None:
        """Leave out what was counted since: the batch that did it was not committed."""
        for growth in self._growths:
            growth.seen = growth.read()
