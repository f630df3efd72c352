"""`preview`: new code run on the last committed batches of a query, before it counts."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from statemigrate.commands.new_code import NewCode, check_inputs
from statemigrate.commands.preview_code import CodeReader
from statemigrate.commands.preview_runs import (
    Material,
    PreviewRuns,
    Progress,
    RewriteGiven,
    StateOptions,
)
from statemigrate.deployment import named_object
from statemigrate.errors import CheckpointError, CodeError
from statemigrate.files import Files, open_files
from statemigrate.formats import Mask
from statemigrate.meaning import settings_at
from statemigrate.native import session_of
from statemigrate.preview import (
    MAX_BYTES,
    Bundle,
    BundledRecorder,
    BundleRows,
    Expectations,
    History,
    KeySample,
    Opener,
    Preview,
    RecordedInput,
    SourceRecorder,
    StateEngine,
    batches_after,
    compare_checksums,
    engine_of,
    find_files,
    is_bundle,
    last_batches,
    open_bundle,
    save_bundle,
    workspace,
)
from statemigrate.rewrite import RewriteAnswers, RewriteOptions

if TYPE_CHECKING:
    from statemigrate.native import Spark

BATCHES = 20
_LOOK = 1.0  # seconds
Watch = Callable[[Preview], bool]
"""Gets a preview, and says whether the next batches are to be previewed too."""


@overload
def preview(
    checkpoint: str | Path,
    *,
    target: NewCode,
    batches: int | None = ...,
    sources: Mapping[str, str] | None = ...,
    expected: Mapping[str, Any] | None = ...,
    options: RewriteOptions | None = ...,
    answers: RewriteAnswers | None = ...,
    migrations: str | Path | None = ...,
    targets: Mapping[str, str] | None = ...,
    stores: Mapping[str, str] | None = ...,
    mask: Sequence[str] = ...,
    watch: Watch | None = ...,
    spark: Spark = ...,
    progress: Progress | None = ...,
) -> Preview: ...


@overload
def preview(
    checkpoint: str | Path,
    *,
    target: NewCode,
    save: str | Path,
    batches: int | None = ...,
    sources: Mapping[str, str] | None = ...,
    max_bytes: int = ...,
    migrations: str | Path | None = ...,
    targets: Mapping[str, str] | None = ...,
    stores: Mapping[str, str] | None = ...,
    mask: Sequence[str] = ...,
    sample: float | None = ...,
    sample_by: Sequence[str] = ...,
    spark: Spark = ...,
    progress: Progress | None = ...,
) -> Bundle: ...


def preview(  # noqa: PLR0913 - all but the first by name
    checkpoint: str | Path,
    *,
    target: NewCode,
    batches: int | None = None,
    save: str | Path | None = None,
    sources: Mapping[str, str] | None = None,
    max_bytes: int = MAX_BYTES,
    expected: Mapping[str, Any] | None = None,
    options: RewriteOptions | None = None,
    answers: RewriteAnswers | None = None,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    stores: Mapping[str, str] | None = None,
    mask: Sequence[str] = (),
    sample: float | None = None,
    sample_by: Sequence[str] = (),
    watch: Watch | None = None,
    spark: Spark = None,
    progress: Progress | None = None,
) -> Preview | Bundle:
    """Run the new code in ``target`` on the last committed ``batches`` of a query and compare.

    Spark's log says what each batch has read. The state before the first of them is copied to a
    temporary folder, and the code runs there on the same rows, with the same watermark and the same
    time. The result is compared with the query's own state after each batch, and with a run of
    ``target.old_code`` if that is given: what the old code does not compute again as the query has
    is noise, which is reported and not compared. The query may be running, and its checkpoint is
    only read. The sink of the code is never run. For state of the embedded engine the code returns
    its `EmbeddedQuery`, which it does not start.

    With ``save`` nothing is run. The state and the input of the batches are written to a bundle, a
    folder of that name, for the streams that ``target.code`` reads; it has at most ``max_bytes``.
    A bundle in place of ``checkpoint`` is previewed in the same way, on any machine. It has all its
    batches: ``batches``, which is 20 by default, is for a checkpoint. With ``mask`` the values of
    columns with these names, in the state and in the input, have pseudonyms in the bundle; it is
    not written if another column still has one of the values. With ``sample`` the bundle has all
    rows of this fraction of the keys, by the columns ``sample_by``, which each source has, and by
    which all state is grouped.

    Files are read again by their names. Any other source is opened by a function of yours from the
    Spark session to the stream: ``sources`` names it as ``MODULE:FUNCTION``, by the parameter of
    the code that the stream is for.

    Where `plan` says that the state must be rewritten, it is rewritten first, with ``options`` and
    ``answers`` as for `rewrite`. Then, and where scripts migrate the state live, the state after
    the batches must also be the same whether it was migrated before them or after them.
    ``expected`` says by store and field what may differ, and is ``[tool.statemigrate.preview]`` on
    the command line. Without ``save``, ``mask`` names columns, at any depth, that have a hash in
    place of each value in examples.

    ``watch`` follows a running query. It gets each preview, and if it returns True the next batches
    are previewed once they are committed. Old and new code go on with the state that they have
    reached. The result is the last preview.

    Raises `CheckpointError` if too little is left to run a batch again, or if no column has a name
    in ``mask``, `UnsupportedError` for
    sources that cannot be read back and for state that cannot be masked, `CodeError` for code that
    does not run, `StartupError` for code of the embedded engine that does not start on the state,
    `CorruptFileError` for state that is damaged and for a bundle that was cut or edited, and
    `RewriteError` for a question that a rewrite leaves open.
    """
    if not target.code:
        raise CodeError(
            "SM-PREVIEW-011",
            "there is no code to preview",
            expected="the new code, as MODULE:FUNCTION",
            found="none",
            next_action="name it with --code",
        )
    from_bundle = is_bundle(checkpoint)
    if not from_bundle:
        _check_code(engine_of(open_files(str(checkpoint))), target)
    expectations = Expectations.of(expected or {})
    openers = openers_of(sources)
    bundle = None
    if from_bundle:
        bundle = _bundle(str(checkpoint), batches, save, watch)
        material = _of_bundle(bundle)
        _check_code(material.history.engine, target)
    else:
        material = material_of(str(checkpoint), batches or BATCHES, openers)
    session = session_of(spark, str(checkpoint))
    if bundle is not None:
        compare_checksums(bundle)
    state = StateOptions(migrations, targets or {}, stores or {}, session)
    if save is not None:
        rows = BundleRows(session, Mask.of(mask, stores), _sample(sample, sample_by))
        return _saved(Path(save), material, target, state, max_bytes, rows)
    with workspace("statemigrate-preview-") as folder:
        given = RewriteGiven(options, answers)
        hidden = Mask.of(mask, stores)
        runs = PreviewRuns(material, target, state, session, folder, progress, given, hidden)
        found, begun = runs.made(runs.begun(), expectations)
        shown = found.masked(hidden, stores)
        while watch is not None and watch(shown):
            _clear(runs.folder, {*begun.controls, begun.candidate})
            last = runs.history.batches[-1].number
            further = _material_after(material, last, openers)
            runs = replace(runs, material=further, folder=folder / f"after-{last}")
            earlier, (found, begun) = begun, runs.made(begun, expectations)
            shown = found.masked(hidden, stores)
            for each in {*earlier.controls, earlier.candidate}:
                shutil.rmtree(each)
    return shown


def _clear(folder: Path, kept: Collection[Path]) -> None:
    """Remove what runs have left in a folder, but for the checkpoints that the next begin with."""
    for each in folder.iterdir():
        if each.is_dir() and each not in kept:
            shutil.rmtree(each)


def _check_code(engine: StateEngine, target: NewCode) -> None:
    """Raise `CodeError` for code that an engine cannot run, before its checkpoint is read."""
    engine.check_code([each for each in (target.code, target.old_code) if each])
    check_inputs(target)


def openers_of(sources: Mapping[str, str] | None) -> dict[str, Opener]:
    """The functions that open streams, by the parameter of the code that each stream is for."""
    named = (sources or {}).items()
    return {name: Opener(reference, named_object(reference)) for name, reference in named}


def material_of(checkpoint: str, batches: int, openers: Mapping[str, Opener]) -> Material:
    """The last ``batches`` of a query, and where their input is. Raises as `preview`."""
    files = open_files(checkpoint)
    return _material(checkpoint, files, last_batches(files, batches), openers)


def _material(
    checkpoint: str, files: Files, history: History, openers: Mapping[str, Opener]
) -> Material:
    read = find_files(files, history, others=bool(openers))
    recorder = SourceRecorder(files, history, read, openers)
    return Material(checkpoint, checkpoint, files, _with_settings(history, files), recorder)


def _with_settings(history: History, files: Files) -> History:
    # A query may have been guarded since: its first record is then one of a later start.
    batches = (history.before.number, history.batches[-1].number)
    found = next(filter(None, (settings_at(files, each) for each in batches)), {})
    return replace(history, settings=found)


def _material_after(material: Material, batch: int, openers: Mapping[str, Opener]) -> Material:
    """The next batches of a running query, once there are any."""
    while (history := batches_after(material.files, batch)) is None:
        time.sleep(_LOOK)
    return _material(material.checkpoint, material.files, history, openers)


def _bundle(path: str, batches: int | None, save: str | Path | None, watch: Watch | None) -> Bundle:
    if batches is not None or save is not None or watch is not None:
        raise CheckpointError(
            "SM-PREVIEW-023",
            f"{path} is a bundle, which has its batches already",
            expected="a checkpoint, for batches=, save= and watch=",
            found="a bundle",
            next_action="leave --batches, --save and --watch out",
            path=path,
        )
    return open_bundle(path)


def _of_bundle(bundle: Bundle) -> Material:
    files = bundle.files
    history = _with_settings(last_batches(files, len(bundle.batches), bundle.folders), files)
    return Material(bundle.path, files.location, files, history, BundledRecorder(bundle))


def _sample(fraction: float | None, columns: Sequence[str]) -> KeySample | None:
    if fraction is None and not columns:
        return None
    if fraction is None or not columns or not 0 < fraction < 1:
        raise CheckpointError(
            "SM-PREVIEW-031",
            "the sample of keys is not one",
            expected="a fraction between 0 and 1, and the columns that keys consist of",
            found=f"sample={fraction}, sample_by={list(columns)}",
            next_action="give both --sample and --sample-by, or none",
        )
    return KeySample(fraction, tuple(columns))


def _saved(
    path: Path,
    material: Material,
    target: NewCode,
    state: StateOptions,
    max_bytes: int,
    rows: BundleRows,
) -> Bundle:
    assert target.code is not None, "asked before"  # noqa: S101
    codes = CodeReader(target, material.history, state.spark, material.name)
    code = codes.read(target.code, None)

    def record(folder: Path) -> Mapping[str, RecordedInput]:
        return material.recorder.record([code], folder, state.spark)

    return save_bundle(
        path,
        material.name,
        target.code,
        material.files,
        material.history,
        record,
        max_bytes,
        rows,
    )
