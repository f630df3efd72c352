"""Families that Spark has forgotten, brought back in a new checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statemigrate.checkpoint import describe
from statemigrate.commands.rewrite import require_answers
from statemigrate.errors import RewriteError
from statemigrate.event_log import STEP
from statemigrate.files import Files, Remembered, open_files
from statemigrate.migration import Lineage
from statemigrate.native import (
    REWRITING,
    ForgottenFamily,
    Listing,
    OffsetLog,
    Operator,
    SparkCheckpoint,
    Which,
    check_spark_version,
    forgotten_families,
    is_pages,
    name_in,
    read_listing,
    read_record,
    require_stopped,
    session_of,
)
from statemigrate.quoting import argument
from statemigrate.rewrite import (
    ForgottenFamilyRows,
    ForgottenRows,
    Progress,
    Question,
    RestoredCheckpoint,
    RewriteAnswers,
    RewritePlan,
    RewriteReport,
    Target,
    check_stopped,
    doubts,
    find_sources,
    make_plan,
    run_plan,
    with_forgotten,
)
from statemigrate.state import Project


@dataclass(frozen=True)
class Restoring:
    """What comes back of forgotten families in the checkpoint ``new``.

    ``families`` has what was found of each, ``lost`` why others are nowhere any more, by name.
    ``plan`` has the questions that are open; it is None where nothing comes back. ``report`` is
    that of the new checkpoint, None where none was made. Where pages of state were forgotten,
    ``pages_batch`` is the last one that had them.
    """

    old: str
    new: str
    batch: int
    families: tuple[ForgottenFamilyRows, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    plan: RewritePlan | None = None
    report: RewriteReport | None = None
    pages_batch: int | None = None

    @property
    def questions(self) -> tuple[Question, ...]:
        """What only the query's owner knows, and has not answered."""
        return () if self.plan is None else self.plan.questions

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be made sure of before it is done; nothing once it is."""
        if self.plan is None or self.report is not None:
            return ()
        return doubts(self.plan.old.offsets[self.plan.old.batch].timestamp)

    def to_json(self) -> dict[str, Any]:
        """Everything, for machines."""
        return {
            "old": self.old,
            "new": self.new,
            "batch": self.batch,
            "families": [each.noted.to_json() for each in self.families],
            "lost": dict(self.lost),
            "questions": [
                {"name": each.name, "text": each.text, "answer": each.answer}
                for each in self.questions
            ],
            "warnings": list(self.warnings),
            "report": None if self.report is None else self.report.to_json(),
        }


def restore_forgotten(
    checkpoint: str | Path,
    new: str | Path,
    project: Project,
    *,
    accept: Iterable[str] = (),
    wait: float = 0,
    apply: bool = False,
    progress: Progress | None = None,
) -> Restoring:
    """Bring back what code without statemigrate made Spark forget, in a ``new`` checkpoint.

    The old checkpoint is only read. A key that a live family of the store has keeps its live value,
    and one that was deleted since stays away; all other entries come back, and all else goes on as
    it is. Without ``apply`` they are counted, and nothing is written. ``accept`` has answers to
    questions, as `Question.acceptance` says them; the project's ``accept_edited`` names families
    that are given up. Before it is done the checkpoint is watched for ``wait`` seconds.

    Raises `CheckpointError` and `UnsupportedError` for what is not understood of the old
    checkpoint, `RewriteError` for open questions and for what is lost with ``apply``, also where
    this Spark itself runs a query on it, and `CheckpointInUseError` where another command makes a
    checkpoint in the new place.
    """
    old_files, new_files = open_files(checkpoint), open_files(new)
    session, operator = session_of(project.spark, str(checkpoint)), project.operator
    state = SparkCheckpoint(
        str(checkpoint),
        session,
        operator=operator,
        paged=False,
        files=Remembered(open_files(checkpoint, session)),
    )
    lineages = _lineages(project, old_files)
    batch = state.committed_batch()
    listing = read_listing(state.files, batch)
    lost = _forgotten_pages(listing, operator)
    if lost:
        of_pages, last = dict.fromkeys(lost, _OF_PAGES), min(lost.values())
        return Restoring(str(checkpoint), str(new), batch, lost=of_pages, pages_batch=last)
    if _is_of_pages(state.operators(), operator):
        # Pages have every revision of their entries in themselves.
        return Restoring(str(checkpoint), str(new), batch)
    forgotten = forgotten_families(state, lineages, read_record(old_files), project.accept_edited)
    if not forgotten:
        return Restoring(str(checkpoint), str(new), batch)
    check_spark_version(REWRITING, "rewrite a checkpoint")
    shape = describe(old_files)
    sources = find_sources(old_files, shape, state.processor().id, forgotten, lineages)
    rows = ForgottenRows(old_files, shape, sources, session)
    found = rows.surveyed()
    answers = RewriteAnswers(accept=frozenset(accept))
    whole = with_forgotten(shape, rows)
    plan = make_plan(whole, None, None, answers, further=list(_questions(found, shape.batch)))
    origins = (("the old checkpoint", old_files),)
    place = Target(new_files, _fingerprint(plan, found), old_files.location, origins, "repair")
    place.check()
    restoring = Restoring(str(checkpoint), str(new), batch, found, sources.lost, plan)
    if not apply:
        return restoring
    if sources.lost:
        raise _lost(sources.lost, str(checkpoint), forgotten)
    require_answers(plan)
    check_stopped(old_files, session)
    require_stopped(OffsetLog(old_files), confirmed=True, watched=wait)
    origin = RestoredCheckpoint(
        old_files, shape.query_id, details={STEP: "repair"}, forgotten=rows, found=found
    )
    report = run_plan(plan, origin, place, session, progress)
    return Restoring(str(checkpoint), str(new), batch, found, sources.lost, plan, report)


_OF_PAGES = "what later code keeps by its own keys would have to be put into the pages one by one"


def _forgotten_pages(listing: Listing, operator: Which) -> dict[str, int]:
    """The variables of pages that are not there any more, each with the last batch that had it.

    Of an operator that is named by its number none: by now it is another one's.
    """
    dropped = {name: at for name, at in listing.dropped_since(-1).items() if is_pages(name)}
    if isinstance(operator, int):
        return {}
    return {name: at for name, at in dropped.items() if operator in (None, name_in([name]))}


def _is_of_pages(operators: Sequence[Operator], operator: Which) -> bool:
    """Whether only pages are meant."""
    processors = [each for each in operators if each.is_processor and each.is_meant(operator)]
    return bool(processors) and all(each.is_paged for each in processors)


def _lineages(project: Project, files: Files) -> dict[str, Lineage]:
    if project.survey is None:
        return {}
    for store in read_record(files):
        project.survey.require(store)
    return dict(project.survey.lineages)


def _fingerprint(plan: RewritePlan, found: Sequence[ForgottenFamilyRows]) -> str:
    """64 hex characters over the plan, and what comes back."""
    text = json.dumps([plan.fingerprint, [each.noted.to_json() for each in found]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _questions(found: Sequence[ForgottenFamilyRows], newest: int) -> Iterator[Question]:
    """Where files do not tell of every deletion."""
    for each in found:
        family, since = each.source.name, each.source.forgotten.batch + 1
        if not each.restored.count:
            continue
        batches = f"batches {since} to {newest}" if since < newest else f"batch {newest}"
        if not each.source.forgotten.is_known:
            why = f"since when it is forgotten is not known, and so not every deletion in {batches}"
            why += " and before"
        elif each.untold:
            why = f"not every key is known that code without it has deleted in {batches}"
        elif each.is_map:
            why = (
                f"whether code without it has cleared maps in {batches}, in which it saw no entry, "
                "is not known"
            )
        else:
            continue
        yield Question(
            family,
            "forgotten",
            f"{family}: {why}. Do all entries come back that have no newer value and no known "
            "deletion?",
            "they come back",
            (f"give all of them up, with --accept-edited {argument(family)}",),
            f"{each.restored.count:,} entries",
        )


def _lost(lost: Mapping[str, str], path: str, forgotten: Sequence[ForgottenFamily]) -> RewriteError:
    names = sorted(lost)
    return RewriteError(
        "SM-REPAIR-001",
        f"{', '.join(names)} cannot be brought back",
        expected="its values in the state of an earlier batch, or in the newest",
        found="; ".join(f"{name}: {why}" for name, why in lost.items()),
        next_action="restore the checkpoint from a copy of before; or name what is given up, as "
        f"in --accept-edited {argument(names[0])}",
        path=path,
        families=names,
        batch=min(each.batch for each in forgotten if each.name in lost),
    )
