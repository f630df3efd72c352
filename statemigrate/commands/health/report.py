"""What an examination says: a verdict on each thing that was looked at, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from statemigrate.errors import StatemigrateError

Verdict = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Examined:
    """One thing that was looked at: ``subject`` is its name, ``found`` what it is, in a line.

    A ``problem`` keeps a query or a command from working, a ``warning`` may, or could not be looked
    at. Either says what to do in ``next_action``. ``data`` has the figures, times in seconds.
    """

    subject: str
    verdict: Verdict
    found: str
    next_action: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def failed(
        cls, subject: str, error: StatemigrateError, *, verdict: Verdict = "problem", **data: Any
    ) -> Examined:
        """What an error says of a subject."""
        found = "" if error.found is None else f": {error.found}"
        return cls(
            subject,
            verdict,
            f"{error.headline}{found}",
            error.next_action,
            {"code": error.code, **data},
        )

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "subject": self.subject,
            "verdict": self.verdict,
            "found": self.found,
            "next_action": self.next_action,
            "data": dict(self.data),
        }


@dataclass(frozen=True)
class Diagnosis:
    """All that was looked at, in order; ``checkpoint`` is None where none was named."""

    checkpoint: str | None
    examined: tuple[Examined, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst there is."""
        found = {each.verdict for each in self.examined}
        return "problem" if "problem" in found else "warning" if "warning" in found else "ok"

    def of(self, subject: str) -> Examined | None:
        """What was found of one thing; None where it was not looked at."""
        return next((each for each in self.examined if each.subject == subject), None)

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "checkpoint": self.checkpoint,
            "verdict": self.verdict,
            "examined": [each.to_json() for each in self.examined],
        }
