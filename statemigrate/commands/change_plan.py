"""The result of `plan`: the verdicts on a checkpoint's state, and the steps to take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from statemigrate.meaning import PlanItem, PlanStep


@dataclass(frozen=True)
class ChangePlan:
    """The result for a checkpoint's state, and the steps to take.

    ``items`` are its sources and states with a verdict each. ``steps`` are in order. ``undo``
    describes the way back, and is empty if nothing changes. ``begun`` is when the last committed
    ``batch`` began, in milliseconds since 1970, and ``size`` the number of bytes in the state's
    files. ``stops`` says whether the query stops for longer than a restart.
    """

    checkpoint: str
    code: str | None
    query: str
    batch: int
    begun: int
    size: int
    items: tuple[PlanItem, ...] = ()
    steps: tuple[PlanStep, ...] = ()
    undo: str = ""
    stops: bool = False

    @property
    def asks(self) -> bool:
        """Whether there is anything to do, decide or find out before the code may start."""
        return any(each.asks for each in self.items)

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "checkpoint": self.checkpoint,
            "code": self.code,
            "query": self.query,
            "batch": self.batch,
            "begun": self.begun,
            "size": self.size,
            "asks": self.asks,
            "stops": self.stops,
            "items": [each.to_json() for each in self.items],
            "steps": [each.to_json() for each in self.steps],
            "undo": self.undo,
        }
