"""The status of all of a project's checkpoints: one that cannot be read hides no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.commands.following.named import look_at_each
from statemigrate.commands.following.status import Status, status
from statemigrate.configuration import NamedCheckpoint
from statemigrate.errors import StatemigrateError

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark


@dataclass(frozen=True)
class Look:
    """What was found at a checkpoint: its status, or why there is none."""

    checkpoint: NamedCheckpoint
    status: Status | None
    error: StatemigrateError | None = None

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "name": self.checkpoint.name,
            "path": self.checkpoint.path,
            "status": None if self.status is None else self.status.to_json(),
            "error": None if self.error is None else self.error.to_json(),
        }


@dataclass(frozen=True)
class Fleet:
    """What was found at each checkpoint, in the order in which they were named."""

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

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "checkpoints": [each.to_json() for each in self.looks],
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
    return Fleet(tuple(Look(*each) for each in looks))
