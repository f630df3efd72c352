"""The result of `plan`: the verdicts on a checkpoint's state, and the steps to take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statemigrate.configuration import NamedCheckpoint
from statemigrate.errors import StatemigrateError
from statemigrate.meaning import PlanItem, PlanStep

if TYPE_CHECKING:
    from statemigrate.commands.pages_change import PagesChange


@dataclass(frozen=True)
class ChangePlan:
    """The result for a checkpoint's state, and the steps to take.

    ``items`` are its sources and states with a verdict each. ``steps`` are in order. ``undo``
    describes the way back, and is empty if nothing changes. ``begun`` is when the last committed
    ``batch`` began, in milliseconds since 1970, and ``size`` the number of bytes in the state's
    files. ``stops`` says whether the query stops for longer than a restart, and ``basis`` what the
    times of the steps are from, empty where none is known. ``open_batch`` is begun and not
    committed, as while the query runs: the next start runs it again. It is None without one.
    ``pages`` are the operators whose pages are to change, and ``takes_other_code`` says that the
    steps have a rewrite for code that is written for it alone.
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
    basis: str = ""
    open_batch: int | None = None
    pages: tuple[PagesChange, ...] = ()
    takes_other_code: bool = False

    @property
    def asks(self) -> bool:
        """Whether there is anything to do, decide or find out before the code may start."""
        return any(each.asks for each in self.items)

    @property
    def seconds_stopped(self) -> float | None:
        """About how long the query stops; None where it does not, or where no time is known."""
        times = [each.seconds for each in self.steps if each.seconds is not None]
        return sum(times) if self.stops and times else None

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "checkpoint": self.checkpoint,
            "code": self.code,
            "query": self.query,
            "batch": self.batch,
            "open_batch": self.open_batch,
            "begun": self.begun,
            "size": self.size,
            "asks": self.asks,
            "stops": self.stops,
            "items": [each.to_json() for each in self.items],
            "steps": [each.to_json() for each in self.steps],
            "undo": self.undo,
            "seconds_stopped": self.seconds_stopped,
            "basis": self.basis,
        }


@dataclass(frozen=True)
class NamedPlan:
    """The plan of a checkpoint that has a name in the project, or the error in its place."""

    checkpoint: NamedCheckpoint
    plan: ChangePlan | None
    error: StatemigrateError | None = None

    @property
    def asks(self) -> bool:
        """Whether there is anything to do, also to find out why there is no plan."""
        return self.plan is None or self.plan.asks

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "name": self.checkpoint.name,
            "path": self.checkpoint.path,
            "plan": None if self.plan is None else self.plan.to_json(),
            "error": None if self.error is None else self.error.to_json(),
        }


@dataclass(frozen=True)
class Plans:
    """The plans of several checkpoints, those first in which there is something to do."""

    found: tuple[NamedPlan, ...]

    @property
    def asks(self) -> bool:
        """Whether there is anything to do for any of them."""
        return any(each.asks for each in self.found)

    @property
    def by_need(self) -> tuple[NamedPlan, ...]:
        """Unreadable checkpoints first, then those with something to do, in their order."""
        return tuple(sorted(self.found, key=lambda each: (each.plan is not None, not each.asks)))

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {"asks": self.asks, "checkpoints": [each.to_json() for each in self.by_need]}
