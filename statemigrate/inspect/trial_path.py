"""What values of one family go through in a dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from statemigrate.deployment import StoredFamily, StorePlan
from statemigrate.errors import values_hidden
from statemigrate.inspect.laws import Inverses, inverses_of
from statemigrate.inspect.trial import ValueTrial
from statemigrate.migration import MigrationPath
from statemigrate.state import Document, Part


@dataclass(frozen=True)
class TrialPath:
    """From ``family`` by ``path`` to ``target``, and ``back`` where the scripts know the way.

    ``inverses`` are the steps back of the scripts that claim to be undone by them.
    It holds everything it needs, and can travel to workers that have no scripts; whether
    ``examples`` of keys and values are noted is decided where it is made.
    """

    family: StoredFamily
    target: StoredFamily
    path: MigrationPath
    back: MigrationPath | None
    inverses: Inverses = ()
    examples: bool = field(default_factory=lambda: not values_hidden())

    def trial(self, show: Callable[[Any], Any]) -> ValueTrial:
        """A fresh trial; ``show`` turns a key into what a user knows."""
        old, new = self.family.format, self.target.format
        return ValueTrial(
            old, new, self.path, self.back, show, inverses=self.inverses, examples=self.examples
        )


def courses(plan: StorePlan) -> tuple[TrialPath, ...]:
    """A course for every family other than the target that a way leads from."""
    return tuple(
        TrialPath(
            family,
            plan.target,
            path,
            _back(plan, family.revision),
            inverses_of(plan.lineage, path),
        )
        for family, path in zip(plan.sources, plan.paths, strict=True)
        if path is not None
    )


def _back(plan: StorePlan, revision: str) -> MigrationPath | None:
    lineage, target = plan.lineage, plan.target.revision
    if lineage.missing_downgrade(target, revision) is not None:
        return None
    return lineage.path(target, revision)


# The task that a dry run hands in: every value it is shown goes through a trial.


@dataclass(frozen=True)
class Trying:
    """A task of `statemigrate.state.protocol.Values.map`: tries a part's values on their course."""

    courses: Mapping[str, TrialPath]

    @classmethod
    def of(cls, courses: Iterable[TrialPath]) -> Trying:
        """The task for families that take these courses."""
        return cls({each.family.name: each for each in courses})

    def __call__(self, part: Part) -> Document:
        """The findings, as JSON holds them."""
        trial = self.courses[part.family].trial(part.shown)
        for block in part.blocks:
            trial.run_block(block)
        return trial.finished(part.seen).to_json()
