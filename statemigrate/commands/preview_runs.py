"""The runs of a preview: the old code as control, the new code as candidate, and the square."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.logs import read_entry
from statemigrate.commands.new_code import NewCode, probing_once
from statemigrate.commands.preview_code import CodeReader, own_inputs
from statemigrate.errors import CheckpointError, UnsupportedError
from statemigrate.files import Files, files_to_read, open_files
from statemigrate.formats import Mask, NamedColumn, columns_in
from statemigrate.preview import (
    OUTPUT,
    ROWS,
    Difference,
    Expectations,
    History,
    Noise,
    Preview,
    PreviewedBatch,
    QueryFunction,
    RecordedInput,
    Recorder,
    Replayed,
    RowsReadOnce,
    Same,
    StateComparison,
    compare_output,
    compare_states,
    copy_fork,
    equal,
    point_at_inputs,
    replay,
    start_fork,
)
from statemigrate.preview import Path as MigrationPath
from statemigrate.quoting import argument
from statemigrate.rewrite import RewriteAnswers, RewriteOptions
from statemigrate.state import Project, StateTables, open_state

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Material:
    """What a preview runs on: a query's files, its last batches, and what these have read.

    ``checkpoint`` is where the state of the query itself is read, and ``name`` what a report calls
    it.
    """

    name: str
    checkpoint: str
    files: Files
    history: History
    recorder: Recorder


@dataclass(frozen=True)
class StateOptions:
    """How state is read: with which scripts, targets and names of stores."""

    migrations: str | Path | None
    targets: Mapping[str, str]
    stores: Mapping[str, str]
    spark: SparkSession

    @property
    def project(self) -> Project:
        """The same as commands have it."""
        return Project(self.migrations, dict(self.targets), self.stores, self.spark)

    @property
    def scripted(self) -> frozenset[str]:
        """The stores that have scripts."""
        survey = self.project.survey
        return frozenset() if survey is None else frozenset(survey.lineages)

    def deployed(self, checkpoint: str) -> dict[str, str]:
        """The revision that each store with scripts is deployed with, by a checkpoint's state."""
        from statemigrate.commands.status import status

        scripted, project = self.scripted, self.project
        if not scripted:
            return {}
        try:
            found = status(checkpoint, project).stores
        except CheckpointError as error:
            # A query with several such operators is looked at operator by operator.
            numbers = error.data.get("operators")
            if error.code != "SM-STATE-026" or not numbers:
                raise
            every = [status(checkpoint, replace(project, operator=each)) for each in numbers]
            found = tuple(store for each in every for store in each.stores)
        return {each.store: each.target for each in found if each.store in scripted}

    def open(self, checkpoint: str, batch: int) -> StateTables:
        """The state of a checkpoint after a batch."""
        return open_state(
            checkpoint,
            batch=batch,
            migrations=self.migrations,
            targets=self.targets,
            stores=self.stores,
            on_error="null",
            spark=self.spark,
        )


@dataclass(frozen=True)
class RewriteGiven:
    """What a rewrite is asked for, and the answers to its questions."""

    options: RewriteOptions | None
    answers: RewriteAnswers | None


@dataclass(frozen=True)
class Begun:
    """The old and the new code, and the checkpoints that the runs of each begin with.

    ``rewrites`` are those that come before the new code: with options of their own, or None for
    the one to the new code. ``goes_on`` says that the checkpoints are what the runs on earlier
    batches have left.
    """

    old: QueryFunction | None
    new: QueryFunction
    path: MigrationPath
    rewrites: tuple[RewriteOptions | None, ...]
    controls: tuple[Path, ...]
    candidate: Path
    goes_on: bool = False

    def after(self, controls: Sequence[Replayed], candidate: Replayed) -> Begun:
        """What the batches after those of some runs begin with."""
        places = tuple(Path(files_to_read(each.checkpoint).location) for each in controls)
        own = Path(files_to_read(candidate.checkpoint).location)
        return replace(self, controls=places, candidate=own, goes_on=True)


@dataclass(frozen=True)
class PreviewRuns:
    """Makes the runs of a preview below a ``folder``, and compares them."""

    material: Material
    wanted: NewCode
    state: StateOptions
    session: SparkSession
    folder: Path
    progress: Progress | None
    given: RewriteGiven
    mask: Mask

    @property
    def history(self) -> History:
        """The batches that are run again."""
        return self.material.history

    def begun(self) -> Begun:
        """Read the code, and make the state that old and new code begin with."""
        with probing_once():
            return self._begun()

    def _begun(self) -> Begun:
        wanted = self.wanted
        assert wanted.code is not None, "asked before"  # noqa: S101
        codes = CodeReader(wanted, self.history, self.session, self.material.name)
        old = None if wanted.old_code is None else codes.read(wanted.old_code, None)
        new = codes.read(wanted.code, old)
        base = start_fork(self.material.files, self.history, self.folder / "before")
        if old is not None:
            engine = self.history.engine
            noted = engine.deployed_in(self.material.checkpoint, base.as_uri())
            old = replace(old, deployed=self.state.deployed(noted))
        path, rewrites = self._path(base)
        start = base
        if path == "rewritten":
            start = self._rewritten(base.as_uri(), self.folder / "candidate-state", rewrites)
            point_at_inputs(start, self._lines_of(start))
        if not self.history.engine.compares_meaning:
            # Plan knows the stores; what scripts are missing is known once the query is planned.
            for each in (old, new):
                if each is not None:
                    codes.check_start(each, base)
        return Begun(old, new, path, rewrites, () if old is None else (base, base), start)

    def made(self, begun: Begun, expectations: Expectations) -> tuple[Preview, Begun]:
        """Run and compare; what the next batches begin with comes along."""
        old, new, path = begun.old, begun.new, begun.path
        read = [each for each in (old, new) if each is not None]
        numbers = [each.number for each in self.history.batches]
        own = self.history.engine.state_to_compare(
            self.material.files, self.material.checkpoint, self.folder / "query-state", numbers
        )
        recorded = self.material.recorder.record(read, self.folder / "inputs", self.session)
        runs = len(begun.controls) + 1
        steps = _PreviewSteps(self.progress, runs * len(self.history.batches))
        controls = [
            self._run(old, start, f"control-{number}", recorded, steps, None)
            for number, start in enumerate(begun.controls)
            if old is not None
        ]
        control = controls[0] if controls else None
        rows = RowsReadOnce()
        noise = tuple(self._noise(own, controls, rows))
        settled = replace(expectations, noise=frozenset((each.store, each.field) for each in noise))
        like = self.history.watermarks if control is None else control.watermarks
        candidate = self._run(new, begun.candidate, "candidate", recorded, steps, like)
        self.mask.require_columns(self._columns(own, recorded, [*controls, candidate]))
        found = tuple(self._compared(own, controls, candidate, settled, rows))
        square = None
        if control is not None and path != "as it is" and not begun.goes_on:
            square = self._square(control, candidate, begun)
        preview = Preview(
            self.material.name,
            new.reference,
            None if old is None else old.reference,
            self.history.before.number,
            found,
            path,
            noise,
            square,
            settled,
        )
        return preview, begun.after(controls, candidate)

    def _path(self, base: Path) -> tuple[MigrationPath, tuple[RewriteOptions | None, ...]]:
        """How the state comes to the new code, and the rewrites that this takes."""
        from statemigrate.commands.plan import plan

        wanted = self.wanted
        if not self.history.engine.compares_meaning:
            assert wanted.code is not None, "asked before"  # noqa: S101
            wanted = NewCode(wanted.code, own_inputs(wanted, wanted.code))
        found = plan(
            base.as_uri(),
            target=wanted,
            migrations=self.state.migrations,
            stores=self.state.stores,
            spark=self.session,
        )
        # Its sources are the recorded ones, whichever the code reads.
        verdicts = {each.verdict for each in found.items if each.operator or each.store}
        cannot = [each for each in found.items if each.verdict == "cannot"]
        if cannot and not self.history.engine.compares_meaning:
            raise UnsupportedError(
                "SM-PREVIEW-035",
                f"{wanted.code} does not start on the state of {self.material.name}",
                expected="code that the query can be started with: `statemigrate plan` says which",
                found="; ".join(f"{each.name}: {each.text}" for each in cannot),
                next_action="change the code, or give it a checkpoint of its own",
                path=self.material.name,
            )
        if found.takes_other_code:
            raise UnsupportedError(
                "SM-PREVIEW-038",
                f"the state of {self.material.name} takes a rewrite for code without pages before "
                f"{wanted.code} starts on it",
                expected="state that is rewritten for the new code itself",
                found="; ".join(each.text for each in found.items if each.verdict == "rewrite"),
                next_action=f"`statemigrate plan {argument(self.material.name)} --code "
                f"{argument(str(wanted.code))}` has the steps: try them on a fork, and start the "
                "new code there",
                path=self.material.name,
            )
        # A change of pages that cannot be made is refused by the rewrite itself.
        if "rewrite" not in verdicts and not found.pages:
            return "live" if "live" in verdicts else "as it is", ()
        pages = [each.rewrite_options(self.material.name) for each in found.pages]
        named = {each.name for each in found.pages}
        others = [each for each in found.items if each.verdict == "rewrite" and each.operator]
        is_alone = named and all(each.name in named for each in others)
        return "rewritten", (*pages, *(() if is_alone else (None,)))

    def _run(
        self,
        code: QueryFunction,
        start: Path,
        name: str,
        recorded: Mapping[str, RecordedInput],
        steps: _PreviewSteps,
        like: Mapping[int, int] | None,
    ) -> Replayed:
        return replay(
            code,
            copy_fork(start, self.folder / name),
            self.history,
            recorded=recorded,
            output=self.folder / f"{name}-output",
            session=self.session,
            like=like,
            progress=steps.next,
        )

    def _rewritten(self, old: str, place: Path, rewrites: Sequence[RewriteOptions | None]) -> Path:
        """Rewrite a checkpoint for the new code into a new ``place``, in one step or several."""
        from statemigrate.commands.rewrite import rewrite

        for number, options in enumerate(rewrites, 1):
            is_last = number == len(rewrites)
            new = place if is_last else place.with_name(f"{place.name}-{number}")
            rewrite(
                old,
                new.as_uri(),
                target=self.wanted if options is None else None,
                options=self.given.options if options is None else options,
                answers=self.given.answers,
                migrations=self.state.migrations,
                targets=self.state.targets,
                stores=self.state.stores,
                apply=True,
                spark=self.session,
            )
            old = new.as_uri()
        return place

    def _lines_of(self, place: Path) -> int:
        entry = read_entry(open_files(place.as_uri()), self.history.before.number)
        return len(entry.offsets.lines)

    def _noise(
        self, query_state: str, controls: Sequence[Replayed], rows: RowsReadOnce
    ) -> Iterator[Noise]:
        """What the old code does not compute again as the query has."""
        if not controls:
            return
        first, second = controls
        found: dict[tuple[str, str], str] = {}
        runs, with_query = StateComparison(rows=rows), StateComparison(rows=rows)
        for batch in self.history.batches:
            states = [self._state(each.checkpoint, batch.number) for each in controls]
            own = self._state(query_state, batch.number)
            for each in _fields(runs.differences(states[0], states[1], lambda _: equal)):
                found[each] = "two runs of the old code differ"
            for each in _fields(with_query.differences(own, states[0], lambda _: equal)):
                found.setdefault(each, "the old code does not compute what the query has")
            output = [_output(each, batch.number) for each in (first, second)]
            keys = _keys(states[0])
            for each in _fields([compare_output(output[0], output[1], keys, equal)]):
                found[each] = "two runs of the old code differ"
        for (store, name), cause in found.items():
            yield Noise(store, name, cause)

    def _columns(
        self, query_state: str, recorded: Mapping[str, RecordedInput], runs: Sequence[Replayed]
    ) -> Iterator[NamedColumn]:
        """All columns of the input, of what the runs gave out, and of all state that there is."""
        for source, each in recorded.items():
            yield from columns_in(each.schema, f"source {source}")
        for run in runs:
            for name in run.columns.values():
                yield NamedColumn(name, f"{OUTPUT}.{name}")
        last = self.history.batches[-1].number
        for place in (query_state, *(each.checkpoint for each in runs)):
            yield from self._state(place, last).fields()

    def _state(self, checkpoint: str, batch: int) -> StateTables:
        return self.state.open(checkpoint, batch)

    def _compared(
        self,
        query_state: str,
        controls: Sequence[Replayed],
        candidate: Replayed,
        expectations: Expectations,
        rows: RowsReadOnce,
    ) -> Iterator[PreviewedBatch]:
        """Each batch of the candidate, compared with the control, else with the query's own.

        The time of the old code is that of its last run: Java has compiled by then what both use.
        """
        control = controls[0] if controls else None
        states = StateComparison(rows=rows)
        for place, batch in enumerate(self.history.batches):
            number = batch.number
            old = self._state(query_state if control is None else control.checkpoint, number)
            new = self._state(candidate.checkpoint, number)
            output = None
            if control is not None:
                made = [_output(each, number) for each in (control, candidate)]
                names = (control.columns, candidate.columns)
                same = expectations.same("output")
                output = compare_output(made[0], made[1], _keys(new), same, names)
            run = candidate.batches[place]
            ran = controls[-1].batches[place] if controls else None
            yield PreviewedBatch(
                number,
                states.differences(old, new, expectations.same),
                output,
                run.seconds,
                None if ran is None else ran.seconds,
                run.watermark,
                batch.commit.watermark if ran is None else ran.watermark,
            )

    def _square(
        self, control: Replayed, candidate: Replayed, begun: Begun
    ) -> tuple[Difference, ...]:
        """The state of the old code migrated after the batches, against the new code's."""
        last = self.history.batches[-1].number
        after = control.checkpoint
        if begun.path == "rewritten":
            after = self._rewritten(after, self.folder / "square", begun.rewrites).as_uri()
        scripted = self.state.scripted
        before = self._state(control.checkpoint, last)
        known = {name: before[name].layout.value_names for name in before.stores}

        def same(store: str) -> Same:
            """What only the new code has and no script computes has begun empty, at two times."""

            def compare(name: str, old: Any, new: Any) -> bool:
                is_new = store in known and name not in known[store]
                return (is_new and store not in scripted) or equal(name, old, new)

            return Same(compare)

        states = [self._state(each, last) for each in (after, candidate.checkpoint)]
        return compare_states(states[0], states[1], same)


@dataclass
class _PreviewSteps:
    """Counts the batches that have run."""

    progress: Progress | None
    total: int
    done: int = 0

    def next(self, batch: int) -> None:  # noqa: ARG002 - which batch it was does not count
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total)


def _fields(found: Sequence[Difference]) -> Iterator[tuple[str, str]]:
    for each in found:
        if each.added or each.missing:
            yield each.store, ROWS
        for name in each.fields:
            yield each.store, name


def _keys(state: StateTables) -> set[str]:
    return {column for name in state.stores for column in state[name].key_columns}


def _output(run: Replayed, batch: int) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(run.output / str(batch))
