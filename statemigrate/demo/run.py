"""The demonstrations, of live migration, a rewrite and a preview: from first event to verdict."""

from __future__ import annotations

import shutil
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.compute as pc
import pyarrow.parquet as pq

from statemigrate.checkpoint import describe
from statemigrate.demo import jobs, story
from statemigrate.demo.demo_size import DemoOptions, Engine
from statemigrate.demo.events import make_events, write_files
from statemigrate.demo.jobs import native as native_job
from statemigrate.demo.jobs.embedded import changelogs_written
from statemigrate.demo.jobs.rewritten_aggregation import partitions_written
from statemigrate.demo.paths import DemoFolder, example_migrations
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
    BatchDone,
    Finished,
    Killed,
    PlainBatchDone,
    Previewed,
    Refused,
    Rewritten,
    Step,
)
from statemigrate.demo.verdict import (
    BatchTimes,
    Figures,
    KeyComparison,
    MigrationFigures,
    PreviewedChange,
    PreviewFigures,
    RewriteFigures,
    RewritingFigures,
    compare_rewritten,
    compare_summaries,
    in_events,
    in_output,
    in_state,
)
from statemigrate.errors import CheckpointError, CheckpointInUseError
from statemigrate.files import open_files, require_java
from statemigrate.native import adopt


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


_PATIENCE = 60.0  # seconds
_LOOK = 1.0  # second


def demo(
    folder: str | Path | None = None,
    *,
    events: int | None = None,
    keys: int | None = None,
    partitions: int | None = None,
    seed: int = 7,
    engine: Engine = "native",
    master: str = "local[*]",
) -> Figures | RewriteFigures | PreviewFigures:
    """Migrate the state of a stream through a crash, compare every key, and return the figures.

    ``folder`` is a new or empty folder that keeps everything; without it, nothing is kept. Default
    sizes are those of the command line. Raises `StatemigrateError` for sizes that leave nothing to
    show, for a folder in use, and if a part fails. A wrong result is no error, but the figures show
    it.
    """
    require_java()
    options = DemoOptions.sized(engine, events, keys, partitions, seed=seed, master=master)
    with ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(TemporaryDirectory(prefix="statemigrate-demo-"))
        *_, last = run_demo(options, DemoFolder.create(Path(folder), options))
    assert isinstance(last, Finished), "the last step has them"  # noqa: S101
    return last.figures


def run_demo(options: DemoOptions, folder: DemoFolder) -> Generator[Step, None, None]:
    """Run everything in ``folder``; the last step has the figures.

    Closing the iterator ends every process. Raises `StatemigrateError` when a part of it fails; a
    wrong outcome is no error but shows in the figures.
    """
    if options.engine == "rewrite":
        return RewriteDemo(options, folder).run()
    if options.engine == "preview":
        return PreviewDemo(options, folder).run()
    return _Demo(options, folder).run()


class _Demo:
    def __init__(self, options: DemoOptions, folder: DemoFolder) -> None:
        self._options = options
        self._folder = folder
        self._before: list[BatchOutcome] = []
        self._after: list[BatchOutcome] = []
        self._crash: Crash | None = None
        self._times = ActTimes()

    def run(self) -> Generator[Step, None, None]:
        yield ActBegun(*story.events(self._options, FILES))
        with self._times.timed("events"):
            write_files(make_events(self._options), self._folder.generated, FILES)
        yield ActBegun(*story.first_deployment(FIRST_FILES, FILES))
        with self._times.timed("first deployment"):
            yield from self._first_deployment()
        yield from self._migration()
        yield ActBegun(*story.comparison())
        with self._times.timed("comparison"):
            state, output = self._compared()
        yield Finished(self._figures(state, output))

    def _first_deployment(self) -> Iterator[Step]:
        for each in until_killed(self._folder, self._options, self._written):
            if isinstance(each, Crash):
                self._crash = each
                yield Killed(each)
            else:
                self._before.append(each)
                yield BatchDone(each, migrating=False)

    def _migration(self) -> Iterator[Step]:
        if self._options.engine == "embedded":
            yield from self._deployment("second deployment", "after", story.second_deployment())
            return
        if self._options.engine == "native":
            yield ActBegun(*story.adoption())
            with self._times.timed("preparation"):
                _adopted(str(self._folder.checkpoint))
        last = self._deployment("restart", "retire", story.retirement())
        paged = self._options.engine == "paged"
        second = story.second_deployment_on_pages() if paged else story.second_deployment()
        yield from self._deployment("second deployment", "after", second, FILES - FIRST_FILES - 1)
        yield from last

    def _deployment(
        self, name: str, role: str, text: story.Text, files: int | None = None
    ) -> Iterator[Step]:
        yield ActBegun(*text)
        with self._times.timed(name):
            self._folder.arrive(files)
            with Deployment(self._folder, role) as deployment:
                for batch in deployment.until_end():
                    self._after.append(batch)
                    yield BatchDone(batch, migrating=True)

    def _written(self, batch: int) -> int:
        count = self._options.partitions
        if self._options.engine != "embedded":
            return native_job.partitions_written(self._folder.checkpoint, count, batch)
        return changelogs_written(self._folder.checkpoint, count, batch)

    def _compared(self) -> tuple[KeyComparison, KeyComparison]:
        run_job(self._folder, "expected")
        return compare_outcomes(self._folder)

    def _figures(self, state: KeyComparison, output: KeyComparison) -> Figures:
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
            seconds=self._times.to_json(),
        )


def compare_outcomes(folder: DemoFolder) -> tuple[KeyComparison, KeyComparison]:
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


# What a kept demonstration leaves to look at, and what to type in its folder.
#
# The folder is a project like a user's own: scripts, a checkpoint that the project's file names,
# and the code of its deployments.


_LIVE = ("before.py", "after.py")
_JOBS: dict[Engine, tuple[str, ...]] = {
    "embedded": (*_LIVE, "embedded.py"),
    "native": (*_LIVE, "native.py"),
    "paged": (*_LIVE, "paged.py"),
    "rewrite": ("rewritten_aggregation.py",),
    "preview": ("previewed_aggregation.py",),
}
_CHECKPOINT = '[tool.statemigrate]\ncheckpoint = "checkpoint"\n'
_CHECKPOINTS = """[tool.statemigrate]
checkpoint = "new"

[tool.statemigrate.checkpoints]
old = "checkpoint"
new = "checkpoint-2"
"""


def keep(folder: DemoFolder) -> None:
    """Put scripts, code and a project's file next to the demonstration's output."""
    is_rewrite = folder.options.engine == "rewrite"
    if folder.options.engine not in ("rewrite", "preview"):
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(example_migrations(), folder.migrations, ignore=unwanted)
    folder.project.write_text(_CHECKPOINTS if is_rewrite else _CHECKPOINT)
    folder.jobs.mkdir()
    for name in _JOBS[folder.options.engine]:
        shutil.copy(Path(jobs.__file__).with_name(name), folder.jobs)
    for passing in (folder.working, folder.temporary, folder.generated):
        shutil.rmtree(passing, ignore_errors=True)
    if not any(folder.new_output.iterdir()):
        folder.new_output.rmdir()


def next_commands(folder: DemoFolder) -> tuple[str, ...]:
    """What is worth typing in the folder, each a whole command."""
    if folder.options.engine == "preview":
        code = "jobs.previewed_aggregation"
        old = f"--old-code {code}:in_production --output-mode update"
        return (
            f"statemigrate preview --code {code}:with_a_fault {old} --batches 4",
            f"statemigrate plan --code {code}:corrected {old}",
            "statemigrate sql 'SELECT * FROM \"aggregation-0\" LIMIT 5'",
        )
    key = _some_auction(folder)
    if folder.options.engine == "rewrite":
        return (
            "statemigrate history",
            f"statemigrate get aggregation-0 {key}",
            "statemigrate rewrite old new --verify",
        )
    return (
        "statemigrate status",
        f"statemigrate get auctions {key}",
        "statemigrate history auctions",
    )


def _some_auction(folder: DemoFolder) -> str:
    entities = pq.read_table(folder.expected, columns=["entity"])["entity"]
    auctions = pc.filter(entities, pc.starts_with(entities, "auction"))
    return str(pc.min(auctions).as_py())
