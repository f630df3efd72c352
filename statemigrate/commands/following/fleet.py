"""The status of all of a project's checkpoints: one that cannot be read hides no other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.commands.following.named import look_at_each
from statemigrate.commands.following.status import status
from statemigrate.commands.following.summary import (
    Look,
    Need,
    NextStep,
    by_name,
    next_steps,
    sorted_by_need,
    totals,
)
from statemigrate.configuration import NamedCheckpoint

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark

__all__ = ["Fleet", "Look", "status_of_all"]


@dataclass(frozen=True)
class Fleet:
    """What was found at each checkpoint, in the order in which they were named.

    Everything that shows it has those first that need a person.
    """

    looks: tuple[Look, ...]

    @property
    def left(self) -> int:
        """Values in older families, of those checkpoints that could be read."""
        return sum(each.status.left for each in self.looks if each.status is not None)

    @property
    def is_whole(self) -> bool:
        """Whether every checkpoint could be read."""
        return all(each.error is None for each in self.looks)

    @property
    def behind(self) -> tuple[str, ...]:
        """The checkpoints with a store for which newer scripts exist than what is deployed."""
        statuses = [(each.checkpoint.name, each.status) for each in self.looks]
        return tuple(name for name, found in statuses if found is not None and found.behind)

    @property
    def is_current(self) -> bool:
        """Whether every checkpoint could be read, and `Status.is_current` holds for each."""
        return all(each.status is not None and each.status.is_current for each in self.looks)

    @property
    def is_done(self) -> bool:
        """Whether every checkpoint could be read, and nothing is left to deploy or to migrate."""
        return all(each.status is not None and each.status.is_done for each in self.looks)

    @property
    def by_need(self) -> tuple[Look, ...]:
        """What was found, with those first that need a person."""
        return tuple(sorted_by_need(self.looks))

    @property
    def totals(self) -> Mapping[Need, int]:
        """How many checkpoints need what; what none needs is left out."""
        return totals(self.looks)

    @property
    def next_steps(self) -> tuple[NextStep, ...]:
        """What is to be done, each once, with what it is for."""
        return next_steps(self.by_need)

    def only(self, needs: Collection[Need]) -> Fleet:
        """Those checkpoints alone that need one of these.

        "unreadable"; "stuck" where values are quarantined, scripts are broken, or the script of
        what is deployed is missing; "behind" its scripts, or what was asked for; "migrating" while
        values are left; and "in order".
        """
        return Fleet(tuple(each for each in self.looks if each.need in needs))

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "totals": dict(self.totals),
            "checkpoints": [each.to_json() for each in self.by_need],
            "next": [each.to_json() for each in self.next_steps],
            "left": self.left,
            "behind": list(self.behind),
            "is_current": self.is_current,
            "is_whole": self.is_whole,
        }


def status_of_all(
    checkpoints: Iterable[NamedCheckpoint],
    *,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Fleet:
    """Look at every checkpoint as `status` does; what is wrong with one is told in its place.

    ``targets`` hold for all of them, unless a checkpoint has its own.
    """
    shared: dict[str, Any] = {"migrations": migrations, "stores": stores, "spark": spark}
    looks = look_at_each(checkpoints, status, targets, **shared)
    return Fleet(
        tuple(
            Look(named, None if found is None else by_name(found, named.name), error)
            for named, found, error in looks
        )
    )
