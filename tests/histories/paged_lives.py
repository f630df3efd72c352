"""A history's lives with their state in pages, on the same rows and scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from expectations import Ledger
from history import Life
from native_lives import OUTPUT, NativeLives

from statemigrate import paged

_PAGES = 3
"""Fewer than there are keys, so that some pages have several and are migrated by a neighbour."""


@dataclass
class PagedLives(NativeLives):
    """As `NativeLives`; the backfill source is there from the first day."""

    def forgets(self, life: Life, ledger: Ledger) -> bool:
        """Never: a page has all that its keys hold."""
        return False

    def prepare(self, life: Life, number: int, action: list[Any]) -> bool:
        """See `NativeLives.prepare`; what makes room for a backfill source is left out."""
        if action[0] not in ("adopt", "undo"):
            super().prepare(life, number, action)
        return False

    def processor(self, life: Life, number: int) -> Any:
        """The life's code; what it is checked against comes with the query."""
        return self.marked(life, number)

    def run(self, life: Life, processor: Any) -> None:
        """See `NativeLives.run`."""
        self.begin(life)
        self.write(
            paged(
                self.inputs(),
                by=self.by,
                processor=processor,
                output=OUTPUT,
                checkpoint=self.checkpoint,
                pages=_PAGES,
            )
        )
