"""What a task tells the driver: the partition's figures and new state, or the error it met.

Reports travel in a column beside the output, in rows of their own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from statemigrate.errors import without_credentials

_log = logging.getLogger("statemigrate.embedded")
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
    damages: list[dict[str, Any]] = field(default_factory=list)

    def charge(self, milliseconds: float) -> None:
        """Count this much of the commit as the backfill's, by what each of the two has written."""
        self.commit_ms -= milliseconds
        self.backfill_ms += milliseconds
        if self.chunk is not None:
            self.chunk["milliseconds"] += milliseconds

    def to_json(self) -> str:
        """The form the report column carries."""
        return json.dumps(asdict(self), default=str)


def tell_damages(
    damages: Iterable[Mapping[str, Any]], place_of: Callable[[str], str] = lambda path: path
) -> None:
    """Warn of durable files that were missing or altered, and say what stood in for each.

    ``place_of`` says where in the checkpoint a file is that a task has named.
    """
    for each in damages:
        _log.warning(
            "%s is %s; %s, and a snapshot that needs it no more is stored with the batch",
            without_credentials(place_of(each["path"])),
            each["found"],
            each["instead"],
        )
