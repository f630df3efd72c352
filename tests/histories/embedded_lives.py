"""A history's lives as whole queries of the embedded engine, on the same rows and scripts."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Any

from expectations import Ledger
from history import Life
from native_lives import OUTPUT, NativeLives

from statemigrate import BackfillOptions, EmbeddedOptions, EmbeddedQuery

_PARTITIONS = 2


@dataclass
class EmbeddedLives(NativeLives):
    """As `NativeLives`; the backfill is within the engine, and there is a working directory."""

    def forgets(self, life: Life, ledger: Ledger) -> bool:
        """Never: the engine knows all of its families."""
        return False

    def prepare(self, life: Life, number: int, action: list[Any]) -> bool:
        """See `NativeLives.prepare`; what makes room for a backfill source is left out."""
        if action == ["lose", "working"]:
            shutil.rmtree(self.root / "working", ignore_errors=True)
        elif action[0] not in ("plan", "pause", "adopt", "undo"):
            super().prepare(life, number, action)
        return False

    def processor(self, life: Life, number: int) -> Any:
        """The life's code; what it is checked against comes with the query."""
        return self.marked(life, number)

    def run(self, life: Life, processor: Any) -> None:
        """See `NativeLives.run`."""
        self.begin(life)
        query = EmbeddedQuery(
            self.inputs(),
            by=self.by,
            processor=processor,
            outputStructType=OUTPUT,
            checkpoint=self.checkpoint,
            sink=self.sink,
            options=EmbeddedOptions(
                partitions=_PARTITIONS,
                snapshot_every=3,
                backfill=BackfillOptions(enabled=life.backfill),
                retire_drained=life.retire,
                working_directory=str(self.root / "working"),
            ),
        )
        running = query.start()
        try:
            running.processAllAvailable()
        finally:
            running.stop()
