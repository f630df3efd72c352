"""The task that a dry run hands in: every value it is shown goes through a trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from statemigrate.inspect.trial.course import Course
from statemigrate.state.values import Document, Part


@dataclass(frozen=True)
class Trying:
    """A task of `statemigrate.state.values.Values.map`: tries a part's values on their course."""

    courses: Mapping[str, Course]

    @classmethod
    def of(cls, courses: Iterable[Course]) -> Trying:
        """The task for families that take these courses."""
        return cls({each.family.name: each for each in courses})

    def __call__(self, part: Part) -> Document:
        """The findings, as JSON holds them."""
        trial = self.courses[part.family].trial(part.shown)
        for key, data, value in part.values:
            trial.run(key, data, value)
        return trial.finished(part.seen).to_json()
