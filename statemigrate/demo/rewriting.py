"""The demonstration of a rewrite, from its first event to its verdict."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from statemigrate.checkpoint import describe
from statemigrate.demo import story
from statemigrate.demo.demo_size import DemoOptions
from statemigrate.demo.events import make_events, write_files
from statemigrate.demo.jobs.rewritten_aggregation import partitions_written
from statemigrate.demo.paths import DemoFolder
from statemigrate.demo.stage import (
    FILES,
    FIRST_FILES,
    ActTimes,
    BatchOutcome,
    Crash,
    Deployment,
    run_job,
    until_killed,
)
from statemigrate.demo.story import (
    ActBegun,
    Finished,
    Killed,
    PlainBatchDone,
    Refused,
    Rewritten,
    Step,
)
from statemigrate.demo.verdict import (
    BatchTimes,
    KeyComparison,
    RewriteFigures,
    RewritingFigures,
    compare_rewritten,
)
from statemigrate.errors import CheckpointError
from statemigrate.files import open_files


class RewriteDemo:
    """An aggregation killed, its checkpoint rewritten, and the new code on the new one."""

    def __init__(self, options: DemoOptions, folder: DemoFolder) -> None:
        self._options = options
        self._folder = folder
        self._batches: dict[str, list[BatchOutcome]] = {"before": [], "finish": [], "after": []}
        self._crash: Crash | None = None
        self._refused = False
        self._times = ActTimes()

    def run(self) -> Generator[Step, None, None]:
        """Every step; the last one has the figures."""
        yield ActBegun(*story.events(self._options, FILES))
        with self._times.timed("events"):
            write_files(make_events(self._options), self._folder.generated, FILES)
        yield ActBegun(*story.first_aggregation(FIRST_FILES, FILES))
        with self._times.timed("first deployment"):
            yield from self._first_deployment()
        yield from self._refusal()
        yield from self._deployment("finish", story.finishing())
        yield from self._rewriting()
        self._folder.arrive()
        yield from self._deployment("after", story.new_aggregation())
        yield ActBegun(*story.comparison())
        with self._times.timed("comparison"):
            run_job(self._folder, "expected")
            compared = compare_rewritten(self._folder, FILES - FIRST_FILES)
        yield Finished(self._figures(*compared))

    def _first_deployment(self) -> Iterator[Step]:
        def written(batch: int) -> int:
            return partitions_written(self._folder.checkpoint, self._options.partitions, batch)

        for each in until_killed(self._folder, self._options, written):
            if isinstance(each, Crash):
                self._crash = each
                yield Killed(each)
            else:
                self._batches["before"].append(each)
                yield PlainBatchDone(each)

    def _refusal(self) -> Iterator[Step]:
        try:
            describe(open_files(self._folder.checkpoint))
        except CheckpointError as error:
            self._refused = True
            yield Refused(error)

    def _rewriting(self) -> Iterator[Step]:
        before = self._options.partitions
        yield ActBegun(*story.rewriting(before, before + 1))
        with self._times.timed("rewrite"):
            run_job(self._folder, "rewrite")
        yield Rewritten(RewritingFigures.of(self._folder))

    def _deployment(self, role: str, text: story.Text) -> Iterator[Step]:
        yield ActBegun(*text)
        with self._times.timed(role), Deployment(self._folder, role) as deployment:
            for batch in deployment.until_end():
                self._batches[role].append(batch)
                yield PlainBatchDone(batch)

    def _figures(self, state: KeyComparison, output: KeyComparison) -> RewriteFigures:
        assert self._crash is not None  # noqa: S101 - the first deployment ends in no other way
        finished, after = self._batches["finish"], self._batches["after"]
        return RewriteFigures(
            options=self._options,
            crash=self._crash,
            rerun_batch=finished[0].number,
            last_batch=finished[-1].number,
            first_batch=after[0].number,
            refused=self._refused,
            before=BatchTimes.of(self._batches["before"]),
            after=BatchTimes.of(after),
            rewriting=RewritingFigures.of(self._folder),
            state=state,
            output=output,
            seconds=self._times.to_json(),
        )
