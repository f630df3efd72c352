"""The tally as functions for ``applyInPandasWithState``, and what they must store."""

from __future__ import annotations

from typing import Any

import pandas as pd
from tally import (
    AMOUNTS,
    AMOUNTS_DDL,
    CENTS,
    CENTS_DDL,
    NESTED,
    NESTED_DDL,
    REVISIONS,
    AmountsTally,
    CentsTally,
    Expected,
    NestedTally,
)

from statemigrate import Struct

FORMATS = {CENTS: Struct(CENTS_DDL), AMOUNTS: Struct(AMOUNTS_DDL), NESTED: Struct(NESTED_DDL)}
STYLES = {CENTS: CentsTally, AMOUNTS: AmountsTally, NESTED: NestedTally}
WAIT, LOOK = "wait", "look"
"""Names of rows that ask for more: set a timeout; or read the state and leave it alone."""
SECONDS = 1000


class Tally:
    """Counts rows and adds up cents, in the format of ``revision``; drops what has timed out."""

    def __init__(self, revision: str, timeout: int = 0) -> None:
        self.style = STYLES[revision]()
        self.timeout = timeout

    def __call__(self, key: Any, pdfs: Any, state: Any) -> Any:
        n, cents, last, moved = self.style.read(state.get) if state.exists else (0, 0, None, 0)
        if state.hasTimedOut:
            state.remove()
            yield _row(key[0], n, cents, "timed out", moved)
            return
        for name, amount in _rows(pdfs):
            if name == LOOK:
                yield _row(key[0], n, cents, last, moved)
                return
            n, cents, last = n + 1, cents + amount, name
        state.update(self.style.made(n, cents, last, moved))
        if last == WAIT:
            self.wait(state)
        yield _row(key[0], n, cents, last, moved)

    def wait(self, state: Any) -> None:
        state.setTimeoutDuration(self.timeout)


class EventTally(Tally):
    """Waits for the watermark instead of the clock."""

    def wait(self, state: Any) -> None:
        state.setTimeoutTimestamp(self.timeout)


def _rows(pdfs: Any) -> list[tuple[str, int]]:
    return [(row["name"], int(row["cents"])) for pdf in pdfs for _, row in pdf.iterrows()]


def _row(*parts: Any) -> pd.DataFrame:
    return pd.DataFrame([parts], columns=["key", "n", "cents", "last", "moved"])


def envelopes(expected: Expected) -> dict[str, tuple[str, dict[str, Any]]]:
    """By key the revision and the value that must be stored."""
    stored = expected.stored(*REVISIONS)
    by_revision = zip(REVISIONS, stored.values(), strict=True)
    return {key: (rev, value) for rev, values in by_revision for key, value in values.items()}
