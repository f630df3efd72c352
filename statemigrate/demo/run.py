"""The demonstration from its first event to its verdict."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from statemigrate.demo import story
from statemigrate.demo.jobs import native as native_job
from statemigrate.demo.jobs.embedded import changelogs_written
from statemigrate.demo.stage.batch import Batch
from statemigrate.demo.stage.crash import Crash, MidBatchKill
from statemigrate.demo.stage.deployment import Deployment
from statemigrate.demo.stage.events import make_events, write_files
from statemigrate.demo.stage.options import DemoOptions
from statemigrate.demo.stage.places import DemoFolder
from statemigrate.demo.steps import ActBegun, BatchDone, Finished, Killed, Step
from statemigrate.demo.verdict.comparison import Comparison, compare_summaries
from statemigrate.demo.verdict.figures import BatchTimes, Figures, MigrationFigures
from statemigrate.demo.verdict.outcome import in_events, in_output, in_state
from statemigrate.errors import CheckpointInUseError, StatemigrateError
from statemigrate.native.adoption import adopt

FILES = 12
FIRST_FILES = 9  # what the first deployment sees
KILL_FROM = 6  # the first batch worth interrupting: by then there is state to lose
_POLL = 0.01  # seconds
_PATIENCE = 60.0  # seconds
_LOOK = 1.0  # second


def run_demo(options: DemoOptions, folder: DemoFolder) -> Generator[Step, None, None]:
    """Run everything in ``folder``; the last step has the figures.

    Closing the iterator ends every process. Raises `StatemigrateError` when a part of it fails; a
    wrong outcome is no error but shows in the figures.
    """
    return _Demo(options, folder).run()


class _Demo:
    def __init__(self, options: DemoOptions, folder: DemoFolder) -> None:
        self._options = options
        self._folder = folder
        self._before: list[Batch] = []
        self._after: list[Batch] = []
        self._crash: Crash | None = None
        self._seconds: dict[str, float] = {}

    def run(self) -> Generator[Step, None, None]:
        yield ActBegun(*story.events(self._options, FILES))
        with self._timed("events"):
            write_files(make_events(self._options), self._folder.generated, FILES)
        yield ActBegun(*story.first_deployment(FIRST_FILES, FILES))
        with self._timed("first deployment"):
            yield from self._first_deployment()
        yield from self._migration()
        yield ActBegun(*story.comparison())
        with self._timed("comparison"):
            state, output = self._compared()
        yield Finished(self._figures(state, output))

    def _first_deployment(self) -> Iterator[Step]:
        self._folder.arrive(FIRST_FILES)
        with Deployment(self._folder, "before") as deployment:
            kill = MidBatchKill(
                deployment.session,
                self._folder.checkpoint,
                self._options.partitions,
                KILL_FROM,
                self._written,
            )
            while self._crash is None:
                if deployment.has_ended():
                    raise _never_half_done(self._options)
                self._crash = kill.strike()
                for batch in deployment.new_batches():
                    self._before.append(batch)
                    yield BatchDone(batch, migrating=False)
                time.sleep(_POLL)
        yield Killed(self._crash)

    def _migration(self) -> Iterator[Step]:
        if self._options.engine == "embedded":
            yield from self._deployment("second deployment", "after", story.second_deployment())
            return
        yield ActBegun(*story.adoption())
        with self._timed("adoption"):
            _adopted(str(self._folder.checkpoint))
        last = self._deployment("restart", "retire", story.retirement())
        second = story.second_deployment()
        yield from self._deployment("second deployment", "after", second, FILES - FIRST_FILES - 1)
        yield from last

    def _deployment(
        self, name: str, role: str, text: story.Text, files: int | None = None
    ) -> Iterator[Step]:
        yield ActBegun(*text)
        with self._timed(name):
            self._folder.arrive(files)
            with Deployment(self._folder, role) as deployment:
                for batch in deployment.until_end():
                    self._after.append(batch)
                    yield BatchDone(batch, migrating=True)

    def _written(self, batch: int) -> int:
        count = self._options.partitions
        if self._options.engine == "native":
            return native_job.partitions_written(self._folder.checkpoint, count, batch)
        return changelogs_written(self._folder.checkpoint, count, batch)

    def _compared(self) -> tuple[Comparison, Comparison]:
        with Deployment(self._folder, "expected") as computation:
            for _ in computation.until_end():
                pass
        return compare_outcomes(self._folder)

    def _figures(self, state: Comparison, output: Comparison) -> Figures:
        assert self._crash is not None  # noqa: S101 - the first deployment ends in no other way
        return Figures(
            options=self._options,
            crash=self._crash,
            rerun_batch=self._after[0].number,
            before=BatchTimes.of(self._before),
            after=BatchTimes.of(self._after),
            migration=MigrationFigures.of(self._after),
            state=state,
            output=output,
            seconds={**self._seconds, "all": round(sum(self._seconds.values()), 1)},
        )

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._seconds[name] = round(time.monotonic() - began, 1)


def compare_outcomes(folder: DemoFolder) -> tuple[Comparison, Comparison]:
    """Compare state and sink with what the batch computation expects."""
    expected = in_events(folder)
    state = compare_summaries(expected, in_state(folder))
    return state, compare_summaries(expected, in_output(folder))


def _adopted(checkpoint: str) -> None:
    """Adopt the killed query, once a cluster's executors have noticed that it is gone."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            adopt(checkpoint, apply=True, stopped=True, wait=_LOOK)
        except CheckpointInUseError:
            if time.monotonic() > deadline:
                raise
        else:
            return


def _never_half_done(options: DemoOptions) -> StatemigrateError:
    return StatemigrateError(
        "the first deployment was done before a batch of it could be interrupted",
        expected="a batch long enough to be caught in the middle",
        found=f"{FIRST_FILES} batches of {options.events // FILES} events",
        next_action=f"run it again, or with larger batches: --events {2 * options.events}",
    )
