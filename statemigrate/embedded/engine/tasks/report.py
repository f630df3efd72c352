"""What a task tells the driver: the partition's figures and new state, or the error it met.

Reports travel in a column beside the output, in rows of their own.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

REPORT = "__statemigrate_report"
"""The column that carries a partition's report, null in the rows of the output."""


@dataclass
class PartitionReport:
    """What one partition did in one batch. Times are in milliseconds."""

    partition: int
    state: dict[str, Any] = field(default_factory=dict)
    rows: int = 0
    keys: int = 0
    touched: int = 0
    backfilled: int = 0
    quarantined: int = 0
    changelog_bytes: int = 0
    restore_ms: float = 0.0
    live_ms: float = 0.0
    backfill_ms: float = 0.0
    commit_ms: float = 0.0
    chunk: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    def charge(self, milliseconds: float) -> None:
        """Count this much of the commit as the backfill's, by what each of the two has written."""
        self.commit_ms -= milliseconds
        self.backfill_ms += milliseconds
        if self.chunk is not None:
            self.chunk["milliseconds"] += milliseconds

    def to_json(self) -> str:
        """The form the report column carries."""
        return json.dumps(asdict(self), default=str)
