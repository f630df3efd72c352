"""What was written of a family in a partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from statemigrate.rewrite.rows.checksum import Checksum


@dataclass(frozen=True)
class Tally:
    """The ``checksum`` of the rows; of how many old rows they come, and how many were merged."""

    checksum: Checksum = field(default_factory=Checksum)
    origins: int = 0
    merged: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.checksum + other.checksum,
            self.origins + other.origins,
            self.merged + other.merged,
        )

    def to_json(self) -> dict[str, Any]:
        """As a task tells it to the driver."""
        count, text = self.checksum.count, self.checksum.text
        return {"rows": count, "checksum": text, "origins": self.origins, "merged": self.merged}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Tally:
        """What `to_json` gave."""
        checksum = Checksum.from_text(document["rows"], document["checksum"])
        return cls(checksum, document["origins"], document["merged"])
