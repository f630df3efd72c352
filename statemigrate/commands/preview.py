"""`preview`: new code run on the last committed batches of a query, before it counts."""

from __future__ import annotations

import inspect
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.commands.new_code import NewCode, Probed, check_inputs, probed
from statemigrate.deployment import SETTINGS, Settings
from statemigrate.deployment.code import named_object, noting_checkpoints
from statemigrate.errors import CodeError, UnsupportedError
from statemigrate.files import Files
from statemigrate.files.open import open_files
from statemigrate.formats.masking import Mask
from statemigrate.native.session import session_of
from statemigrate.preview.comparison import (
    ROWS,
    Difference,
    Same,
    compare_output,
    compare_states,
    equal,
)
from statemigrate.preview.expectations import Expectations
from statemigrate.preview.history import History, last_batches
from statemigrate.preview.inputs import RecordedInput, find_files, merged_schema, record_files
from statemigrate.preview.replay import Code, Replayed, point_at_inputs, replay, start_fork
from statemigrate.preview.report import Noise, Preview, PreviewedBatch
from statemigrate.preview.report import Path as MigrationPath
from statemigrate.rewrite.probe import input_names, input_schemas, session_parameters
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.sources import RewriteOptions
from statemigrate.state.project import Project
from statemigrate.state.tables import StateTables, open_state

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from statemigrate.native.session import Spark

BATCHES = 20
Progress = Callable[[int, int | None], None]


def preview(  # noqa: PLR0913 - all but the first by name
    checkpoint: str | Path,
    *,
    target: NewCode,
    batches: int = BATCHES,
    expected: Mapping[str, Any] | None = None,
    options: RewriteOptions | None = None,
    answers: RewriteAnswers | None = None,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    stores: Mapping[str, str] | None = None,
    mask: Sequence[str] = (),
    spark: Spark = None,
    progress: Progress | None = None,
) -> Preview:
    """Run the new code in ``target`` on the last committed ``batches`` of a query and compare.

    Spark's log says what each batch has read. The state before the first of them is copied to a
    temporary folder, and the code runs there on the same rows, with the same watermark and the same
    time. The result is compared with the query's own state after each batch, and with a run of
    ``target.old_code`` if that is given: what the old code does not compute again as the query has
    is noise, which is reported and not compared. The query may be running, and its checkpoint is
    only read. The sink of the code is never run.

    Where `plan` says that the state must be rewritten, it is rewritten first, with ``options`` and
    ``answers`` as for `rewrite`. Then, and where scripts migrate the state live, the state after
    the batches must also be the same whether it was migrated before them or after them.
    ``expected`` says by store and field what may differ, and is ``[tool.statemigrate.preview]`` on
    the command line. ``mask`` names columns that have a hash in place of each value in examples.

    Raises `CheckpointError` if too little is left to run a batch again, `UnsupportedError` for
    sources that cannot be read back, `CodeError` for code that does not run, and `RewriteError` for
    a question that a rewrite leaves open.
    """
    wanted = target
    if not wanted.code:
        raise CodeError(
            "SM-PREVIEW-011",
            "there is no code to preview",
            expected="the new code, as MODULE:FUNCTION",
            found="none",
            next_action="name it with --code",
        )
    check_inputs(wanted)
    expectations = Expectations.of(expected or {})
    files = open_files(checkpoint)
    history = last_batches(files, batches)
    read = find_files(files, history)
    session = session_of(spark, str(checkpoint))
    state = _StateOptions(migrations, targets or {}, stores or {}, session)
    with tempfile.TemporaryDirectory(prefix="statemigrate-preview-") as folder:
        run = _Preview(
            str(checkpoint), files, history, read, wanted, state, session, Path(folder), progress
        )
        found = run.made(options, answers, expectations)
    return found.masked(Mask.of(mask))


@dataclass(frozen=True)
class _StateOptions:
    migrations: str | Path | None
    targets: Mapping[str, str]
    stores: Mapping[str, str]
    spark: SparkSession

    @property
    def scripted(self) -> frozenset[str]:
        """The stores that have scripts."""
        project = Project(self.migrations, dict(self.targets), self.stores, self.spark)
        return frozenset() if project.survey is None else frozenset(project.survey.lineages)

    def open(self, checkpoint: str, batch: int) -> StateTables:
        return open_state(
            checkpoint,
            batch=batch,
            migrations=self.migrations,
            targets=self.targets,
            stores=self.stores,
            spark=self.spark,
        )


@dataclass(frozen=True)
class _Preview:
    """Makes the runs of a preview, and compares them."""

    checkpoint: str
    files: Files
    history: History
    read: Mapping[str, Mapping[int, tuple[str, ...]]]
    wanted: NewCode
    state: _StateOptions
    session: SparkSession
    folder: Path
    progress: Progress | None

    def made(
        self,
        options: RewriteOptions | None,
        answers: RewriteAnswers | None,
        expectations: Expectations,
    ) -> Preview:
        wanted = self.wanted
        assert wanted.code is not None, "asked before"  # noqa: S101
        old = None if wanted.old_code is None else self._code(wanted.old_code, None)
        new = self._code(wanted.code, old)
        recorded = self._recorded([each for each in (old, new) if each is not None])
        sources = tuple((old or new).inputs.values())
        base = start_fork(self.files, self.history, sources, self.folder / "before")
        path = self._path(base)
        runs = 1 if old is None else 3
        steps = _Steps(self.progress, runs * len(self.history.batches))
        controls = [
            self._run(old, base, f"control-{number}", recorded, steps, None)
            for number in range(0 if old is None else 2)
            if old is not None
        ]
        control = controls[0] if controls else None
        noise = tuple(self._noise(controls))
        settled = replace(expectations, noise=frozenset((each.store, each.field) for each in noise))
        start = base
        if path == "rewritten":
            start = self._rewritten(base, "candidate-state", options, answers)
        like = {each.number: each.commit.watermark for each in self.history.batches}
        if control is not None:
            like = control.watermarks
        candidate = self._run(new, start, "candidate", recorded, steps, like)
        found = tuple(self._compared(control, candidate, settled))
        square = None
        if control is not None and path != "as it is":
            square = self._square(control, candidate, path, options, answers)
        return Preview(
            self.checkpoint,
            wanted.code,
            wanted.old_code,
            self.history.before.number,
            found,
            path,
            noise,
            square,
            settled,
        )

    def _code(self, reference: str, old: Code | None) -> Code:
        """The code, and which source each of its parameters stands for."""
        function = named_object(reference)
        known = self.wanted.inputs
        inputs = {name: ddl for name, ddl in known.items() if name in input_names(function)}
        schemas = input_schemas(function, inputs, reference)
        with noting_checkpoints() as named:
            mode, names = self._probed(reference, inputs)
        _check_no_checkpoint(reference, function, named)
        if old is not None and set(schemas) <= set(old.inputs):
            by_name: Mapping[str, str] = {name: old.inputs[name] for name in schemas}
        elif len(names) == len(self.history.sources):
            by_name = dict(zip(names, self.history.sources, strict=True))
        else:
            raise CodeError(
                "SM-PREVIEW-012",
                f"the sources that {reference} reads cannot be determined",
                expected=f"an input stream for each of the {len(self.history.sources)} sources of "
                "the query, or the names that the old code has for them",
                found=", ".join(schemas),
                next_action="name the old code with --old-code, and let both call their streams "
                "the same",
                reference=reference,
            )
        return Code(reference, function, by_name, schemas, mode, session_parameters(function))

    def _probed(self, reference: str, inputs: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        """The output mode that Spark takes for the code, and its parameters in Spark's order."""
        alone = NewCode(reference, inputs, self.wanted.mode)
        found: Probed | None = probed(
            alone, self.history.before.entry.conf, self.session, self.checkpoint
        )
        assert found is not None, "code was given"  # noqa: S101
        names = tuple(found.sources.inputs.get(name, "") for name in found.sources.names)
        if "" in names or len(set(names)) < len(names):
            raise UnsupportedError(
                "SM-PREVIEW-003",
                f"{reference} reads one stream in several places",
                expected="code that reads each of its input streams once",
                found=f"{len(names)} sources for {len(set(names) - {''})} inputs",
                next_action="code that joins a stream with itself cannot be previewed yet",
                reference=reference,
            )
        return found.mode or self.wanted.mode or "append", names

    def _recorded(self, codes: Sequence[Code]) -> Mapping[str, RecordedInput]:
        found: dict[str, RecordedInput] = {}
        for source in self.history.sources:
            schemas = {
                code.reference: code.schemas[name]
                for code in codes
                for name, each in code.inputs.items()
                if each == source
            }
            if schemas:
                schema = merged_schema(source, schemas, self.session)
                place = self.folder / "inputs" / source
                found[source] = record_files(self.read[source], schema, place, self.session)
        return found

    def _path(self, base: Path) -> MigrationPath:
        from statemigrate.commands.plan import plan

        found = plan(
            base.as_uri(),
            target=self.wanted,
            migrations=self.state.migrations,
            stores=self.state.stores,
            spark=self.session,
        )
        verdicts = {each.verdict for each in found.items}
        if "rewrite" in verdicts:
            return "rewritten"
        return "live" if "live" in verdicts else "as it is"

    def _run(
        self,
        code: Code,
        start: Path,
        name: str,
        recorded: Mapping[str, RecordedInput],
        steps: _Steps,
        like: Mapping[int, int] | None,
    ) -> Replayed:
        place = self.folder / name
        shutil.copytree(start, place)
        return replay(
            code,
            place,
            self.history,
            recorded=recorded,
            output=self.folder / f"{name}-output",
            session=self.session,
            like=like,
            progress=steps.next,
        )

    def _rewritten(
        self,
        old: Path,
        name: str,
        options: RewriteOptions | None,
        answers: RewriteAnswers | None,
    ) -> Path:
        from statemigrate.commands.rewrite import rewrite

        new = self.folder / name
        rewrite(
            old.as_uri(),
            new.as_uri(),
            target=self.wanted,
            options=options,
            answers=answers,
            migrations=self.state.migrations,
            targets=self.state.targets,
            stores=self.state.stores,
            apply=True,
            spark=self.session,
        )
        inputs = self._code_lines(new)
        point_at_inputs(new, inputs)
        return new

    def _code_lines(self, new: Path) -> tuple[str, ...]:
        from statemigrate.checkpoint.logs.entries import read_entry

        entry = read_entry(open_files(new.as_uri()), self.history.before.number)
        return tuple(entry.offsets.by_source)

    def _noise(self, controls: Sequence[Replayed]) -> Iterator[Noise]:
        """What the old code does not compute again as the query has."""
        if not controls:
            return
        first, second = controls
        found: dict[tuple[str, str], str] = {}
        for batch in self.history.batches:
            states = [self._state(each.checkpoint, batch.number) for each in controls]
            own = self._state(self.checkpoint, batch.number)
            for each in _fields(compare_states(states[0], states[1], lambda _: equal)):
                found[each] = "two runs of the old code differ"
            for each in _fields(compare_states(own, states[0], lambda _: equal)):
                found.setdefault(each, "the old code does not compute what the query has")
            rows = [_output(each, batch.number) for each in (first, second)]
            keys = _keys(states[0])
            for each in _fields([compare_output(rows[0], rows[1], keys, equal)]):
                found[each] = "two runs of the old code differ"
        for (store, name), cause in found.items():
            yield Noise(store, name, cause)

    def _state(self, checkpoint: str, batch: int) -> StateTables:
        return self.state.open(checkpoint, batch)

    def _compared(
        self, control: Replayed | None, candidate: Replayed, expectations: Expectations
    ) -> Iterator[PreviewedBatch]:
        """Each batch of the candidate, compared with the control, else with the query's own."""
        for place, batch in enumerate(self.history.batches):
            number = batch.number
            old = self._state(self.checkpoint if control is None else control.checkpoint, number)
            new = self._state(candidate.checkpoint, number)
            output = None
            if control is not None:
                rows = [_output(each, number) for each in (control, candidate)]
                output = compare_output(rows[0], rows[1], _keys(new), expectations.same("output"))
            run = candidate.batches[place]
            ran = None if control is None else control.batches[place]
            yield PreviewedBatch(
                number,
                compare_states(old, new, expectations.same),
                output,
                run.seconds,
                None if ran is None else ran.seconds,
                run.watermark,
                batch.commit.watermark if ran is None else ran.watermark,
            )

    def _square(
        self,
        control: Replayed,
        candidate: Replayed,
        path: MigrationPath,
        options: RewriteOptions | None,
        answers: RewriteAnswers | None,
    ) -> tuple[Difference, ...]:
        """The state of the old code migrated after the batches, against the new code's."""
        last = self.history.batches[-1].number
        after = control.checkpoint
        if path == "rewritten":
            from statemigrate.commands.rewrite import rewrite

            place = (self.folder / "square").as_uri()
            rewrite(
                after,
                place,
                target=self.wanted,
                options=options,
                answers=answers,
                migrations=self.state.migrations,
                targets=self.state.targets,
                stores=self.state.stores,
                apply=True,
                spark=self.session,
            )
            after = place
        scripted = self.state.scripted
        before = self._state(control.checkpoint, last)
        known = {name: before[name].layout.value_names for name in before.stores}

        def same(store: str) -> Same:
            """What only the new code has and no script computes has begun empty, at two times."""

            def compare(name: str, old: Any, new: Any) -> bool:
                is_new = store in known and name not in known[store]
                return (is_new and store not in scripted) or equal(name, old, new)

            return compare

        states = [self._state(each, last) for each in (after, candidate.checkpoint)]
        return compare_states(states[0], states[1], same)


def _check_no_checkpoint(reference: str, function: Any, named: set[str]) -> None:
    """Raise `UnsupportedError` for code that would write into the checkpoint it is written for."""
    marks = (
        getattr(each, SETTINGS, None) for each in inspect.unwrap(function).__globals__.values()
    )
    found = {*named, *(each.checkpoint for each in marks if isinstance(each, Settings))} - {None}
    if found:
        raise UnsupportedError(
            "SM-PREVIEW-013",
            f"{reference} names a checkpoint, in which it would write",
            expected="a function that works on the checkpoint of the query that it is run in, with "
            "migrated alone, and without checkpoint=",
            found=", ".join(sorted(map(str, found))),
            next_action="queries with stateful, with_backfill or paged cannot be previewed yet",
            reference=reference,
        )


@dataclass
class _Steps:
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
