"""`rewrite`: a new checkpoint from an old one, for code that keeps other state."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.shapes import CheckpointShape, OperatorShape
from statemigrate.checkpoint.shape import describe
from statemigrate.deployment.references import named_object
from statemigrate.errors import RewriteError
from statemigrate.files import Files
from statemigrate.files.opening import open_files
from statemigrate.native.seen.record import read_record
from statemigrate.native.spark_state.session import session_of
from statemigrate.rewrite.plan.asking.questions import RewriteAnswers
from statemigrate.rewrite.plan.document import plan_document
from statemigrate.rewrite.plan.lineages import scripted_stores
from statemigrate.rewrite.plan.options import RewriteOptions
from statemigrate.rewrite.plan.plan import RewritePlan, make_plan
from statemigrate.rewrite.probe.run import run_probe
from statemigrate.rewrite.run.report import RewriteReport
from statemigrate.rewrite.run.run import Progress, run_plan
from statemigrate.rewrite.run.target import Target
from statemigrate.scripts.folder import survey_of

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark


@dataclass(frozen=True)
class NewCode:
    """What the new code keeps, said in one of two ways; neither where it keeps what the old did.

    ``code`` is ``MODULE:FUNCTION``, a function from the input streams to the result, which is run
    on empty streams: ``inputs`` has their schemas by name where the function does not say them, and
    ``mode`` the output mode. ``like`` is a checkpoint that the new code has made on a little input.
    """

    code: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    mode: str | None = None
    like: str | Path | None = None


@dataclass(frozen=True)
class Rewriting:
    """A plan as a ``document``, and the ``report`` of what was done, None where nothing was."""

    old: str
    new: str
    plan: RewritePlan
    report: RewriteReport | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The plan as JSON holds it."""
        return plan_document(self.plan)

    @property
    def next_action(self) -> str:
        """What to do next."""
        if self.report is not None:
            return f"`statemigrate verify {self.old} {self.new}`, then start the new code on it"
        if self.plan.questions:
            return f"answer {_counted(self.plan)}, as shown, in the same command"
        return "the same command with --apply, while the query is stopped"

    def to_json(self) -> dict[str, Any]:
        """Everything, for machines."""
        report = None if self.report is None else self.report.to_json()
        paths = {"old": self.old, "new": self.new}
        return {**paths, "plan": self.document, "report": report, "next": self.next_action}


def rewrite_checkpoint(  # noqa: PLR0913 - all but two by name
    old: str | Path,
    new: str | Path,
    *,
    target: NewCode | None = None,
    options: RewriteOptions | None = None,
    answers: RewriteAnswers | None = None,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    stores: Mapping[str, str] | None = None,
    apply: bool = False,
    spark: Spark = None,
    progress: Progress | None = None,
) -> Rewriting:
    """Plan the way from the checkpoint ``old`` to a ``new`` one, and go it with ``apply``.

    The old checkpoint is only read. The new one becomes a checkpoint by its last file: whatever
    happens before, no query takes it for one, and the same call goes on where it was interrupted.
    ``options`` are what changes beside the code, ``answers`` what the plan asks; scripts of the
    folder ``migrations`` say what becomes of a store's values and keys, up to its head or the
    revision in ``targets``. ``stores`` has names of the project's own for operators' stores. Raises
    `CheckpointError` and `UnsupportedError` for what is not understood of the old checkpoint,
    `CodeError` for the new code, `RewriteError` for what cannot be done, and for open questions
    with ``apply``.
    """
    old_files, new_files = open_files(old), open_files(new)
    options, wanted = options or RewriteOptions(), target or NewCode()
    shape = describe(old_files)
    found = _target(shape, wanted, options, spark, str(old))
    lineages = dict(survey.lineages) if (survey := survey_of(migrations)) else {}
    scripts = scripted_stores(shape, lineages, read_record(old_files), targets or {}, stores or {})
    plan = make_plan(shape, found, options, answers, scripts)
    place = Target(new_files, plan.fingerprint, old_files.location)
    place.check()
    rewriting = Rewriting(str(old), str(new), plan)
    if not apply:
        return rewriting
    _require_answers(rewriting)
    report = run_plan(plan, old_files, place, session_of(spark, str(old)), progress)
    return Rewriting(str(old), str(new), plan, report)


def _target(
    old: CheckpointShape, wanted: NewCode, options: RewriteOptions, spark: Spark, checkpoint: str
) -> Sequence[OperatorShape] | None:
    if wanted.code and wanted.like:
        raise RewriteError(
            "the new code is said in two ways",
            expected="--code or --like",
            found="both",
            next_action="leave one of them out",
        )
    if wanted.like:
        return _described(open_files(wanted.like), options.pinned(old))
    if wanted.code is None:
        return None
    function = named_object(wanted.code)
    session = session_of(spark, checkpoint)
    with tempfile.TemporaryDirectory(prefix="statemigrate-probe-") as folder:
        made = run_probe(
            function,
            Path(folder),
            session,
            inputs=wanted.inputs,
            mode=wanted.mode,
            conf=options.pinned(old),
            reference=wanted.code,
        )
        return describe(open_files(made.as_uri())).operators


def _described(like: Files, pinned: Mapping[str, str]) -> Sequence[OperatorShape]:
    """The operators of a checkpoint that was made elsewhere, with formats of its own."""
    shape = describe(like)
    differing = sorted(
        name
        for name in shape.conf
        if name.endswith(("stateFormatVersion", "encodingFormat", "providerClass"))
        and shape.conf[name] != pinned.get(name)
    )
    if differing:
        name = differing[0]
        raise RewriteError(
            f"{like.location} was made with other settings than the new checkpoint will have",
            expected=f"{name}={pinned.get(name)}",
            found=f"{name}={shape.conf[name]}",
            next_action="make it with the setting of the old checkpoint, or ask for the new one, "
            f"as in --conf {name}={shape.conf[name]}",
        )
    return shape.operators


def _require_answers(rewriting: Rewriting) -> None:
    questions = rewriting.plan.questions
    if questions:
        raise RewriteError(
            f"{_counted(rewriting.plan)} {'is' if len(questions) == 1 else 'are'} open",
            expected="an answer to each, since only the author knows it",
            found="; ".join(each.text for each in questions),
            next_action="; ".join(each.answer for each in questions),
            questions=[each.name for each in questions],
        )


def _counted(plan: RewritePlan) -> str:
    count = len(plan.questions)
    return "1 question" if count == 1 else f"{count} questions"
