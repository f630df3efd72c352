"""The demonstration of a preview, from its first event to its verdict."""

from __future__ import annotations

from collections.abc import Generator

from statemigrate.demo import story
from statemigrate.demo.demo_size import DemoOptions
from statemigrate.demo.events import make_events, write_files
from statemigrate.demo.paths import DemoFolder
from statemigrate.demo.stage import FILES, ActTimes, Deployment, run_job
from statemigrate.demo.story import ActBegun, Finished, PlainBatchDone, Previewed, Step
from statemigrate.demo.verdict import PreviewedChange, PreviewFigures


class PreviewDemo:
    """A query in production, and a change that is previewed with a fault and without it."""

    def __init__(self, options: DemoOptions, folder: DemoFolder) -> None:
        self._options = options
        self._folder = folder
        self._times = ActTimes()

    def run(self) -> Generator[Step, None, None]:
        """Every step; the last one has the figures."""
        yield ActBegun(*story.events(self._options, FILES))
        with self._times.timed("events"):
            write_files(make_events(self._options), self._folder.generated, FILES)
        yield ActBegun(*story.production(FILES))
        self._folder.arrive()
        with self._times.timed("production"), Deployment(self._folder, "before") as deployment:
            for batch in deployment.until_end():
                yield PlainBatchDone(batch)
        yield ActBegun(*story.first_try())
        first = self._previewed("first try")
        yield Previewed(first)
        yield ActBegun(*story.second_try())
        second = self._previewed("second try")
        yield Previewed(second)
        yield Finished(PreviewFigures(self._options, first, second, self._times.to_json()))

    def _previewed(self, role: str) -> PreviewedChange:
        with self._times.timed(role):
            run_job(self._folder, role)
        return PreviewedChange.of(self._folder, role)
