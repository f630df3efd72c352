"""`rewrite`: a new checkpoint from an old one, for code that keeps other state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from statemigrate.checkpoint import CheckpointDirectory, describe
from statemigrate.checkpoint.operators import CheckpointShape, OperatorShape, user_stores
from statemigrate.commands.new_code import (
    NewCode,
    Probed,
    check_inputs,
    known_before,
    meaning_files,
    meaning_of,
    probed,
)
from statemigrate.commands.pages_change import check_same_pages, pages_changes
from statemigrate.errors import RewriteError
from statemigrate.files import Files, open_files
from statemigrate.meaning import CodeMeaning, compare_facts, recorded_settings
from statemigrate.migration import Lineage
from statemigrate.native import (
    REWRITING,
    check_all_listed,
    check_spark_version,
    read_record,
    session_of,
    whole,
)
from statemigrate.pages import records_at
from statemigrate.quoting import argument
from statemigrate.rewrite import (
    AggregateFunction,
    FamilyAddress,
    Fork,
    KnownFunctions,
    Meanings,
    NewWindows,
    ObservedWindows,
    OldCheckpoint,
    Progress,
    RewriteAnswers,
    RewriteOptions,
    RewritePlan,
    RewriteReport,
    RewriteScripts,
    StateReader,
    StoreScripts,
    Target,
    Verified,
    WindowFinding,
    changed_keys,
    check_offsets,
    check_stopped,
    doubts,
    find_windows,
    fork,
    key_questions,
    make_plan,
    observe_windows,
    plan_document,
    read_report,
    rewriting_session,
    run_plan,
    verify_files,
    window_questions,
)
from statemigrate.scripts import survey_of
from statemigrate.state import Project

if TYPE_CHECKING:
    from statemigrate.native import Spark


@dataclass(frozen=True)
class Rewriting:
    """A plan as a ``document``, and the ``report`` of the rewrite, None if it was not made.

    ``uncommitted`` is a batch that has begun after the one of the plan, if there is one.
    ``unasked`` is what else the state may mean to the new code than it meant to the old.
    """

    old: str
    new: str
    plan: RewritePlan
    report: RewriteReport | None = None
    uncommitted: int | None = None
    unasked: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """The plan as JSON holds it."""
        return plan_document(self.plan)

    @property
    def begun(self) -> int:
        """When the batch of the plan began, in milliseconds since 1970."""
        return self.plan.old.offsets[self.plan.old.batch].timestamp

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to check before the rewrite; nothing after it."""
        if self.report is not None:
            return ()
        unfinished = _unfinished(self.uncommitted, self.plan.old.batch)
        return (*unfinished, *doubts(self.begun), *self.unasked, *_left_out(self.plan, self.old))

    @property
    def next_action(self) -> str:
        """What to do next."""
        if self.report is not None:
            return (
                f"`statemigrate rewrite {argument(self.old)} {argument(self.new)} --verify`, then "
                "start the new code on it"
            )
        if self.plan.questions:
            return f"answer {counted(self.plan)}, as shown, in the same command"
        return "the same command with --apply, while the query is stopped"

    def to_json(self) -> dict[str, Any]:
        """Everything, for machines."""
        report = None if self.report is None else self.report.to_json()
        paths = {"old": self.old, "new": self.new}
        seen = {"begun": self.begun, "warnings": self.warnings}
        return {**paths, **seen, "plan": self.document, "report": report, "next": self.next_action}


def rewrite(  # noqa: PLR0913 - all but two by name
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
    """Plan the rewrite of the checkpoint ``old`` to a ``new`` one, and make it with ``apply``.

    The old checkpoint is only read. The last file completes the new one: before that no query can
    start on it, and the same call continues after an interruption. ``options`` are the changes
    next to the code, ``answers`` the answers to the plan's questions. Scripts of the folder
    ``migrations`` change a store's values and keys, up to its head or the revision in ``targets``.
    ``stores`` has the project's names for the stores of operators. Raises `CheckpointError` and
    `UnsupportedError` if the old checkpoint is not understood, `CodeError` for the new code, and
    `RewriteError` for an impossible change, for open questions with ``apply``, and if this Spark
    itself runs a query on the old checkpoint. Raises `CheckpointInUseError` if another command
    makes a checkpoint in the new place.
    """
    project = Project(migrations, targets or {}, stores or {}, spark)
    old_files, new_files = open_files(old), open_files(new)
    options, wanted = options or RewriteOptions(), target or NewCode()
    if options.pages is not None:
        from statemigrate.commands.rewrite_pages import check_no_code

        check_no_code(wanted)
    check_inputs(wanted)
    directory = CheckpointDirectory(old_files)
    committed, begun = directory.last_commit(), directory.last_begun()
    # A plan is a look: it is of what is committed. What is begun would be missing in a rewrite.
    is_unfinished = not apply and 0 <= committed < begun
    shape = describe(old_files, committed if is_unfinished else None)
    check_all_listed(old_files, shape)
    found: Probed | None = None
    unasked: tuple[str, ...] = ()
    if options.pages is None:
        before = known_before(wanted, shape, spark, old_files)
        pinned = options.pinned(shape.conf)
        if before is not None and wanted.code and not wanted.old_code:
            # The new record is of what the query had, and not of the machine that rewrites.
            set_here = session_of(spark, str(old)).conf.getAll
            known = recorded_settings(before)
            pinned |= {name: each for name, each in known.items() if name not in set_here}
        found = probed(wanted, pinned, spark, old_files.location)
        if found is not None:
            changes = pages_changes(shape, found, records_at(old_files, shape.batch))
            check_same_pages(changes, old_files.location)
        unasked = () if found is None else tuple(_unasked(before, found))
        plan = plan_for(old_files, shape, found, before, options, answers, project)
    else:
        from statemigrate.commands.rewrite_pages import paging_plan

        session = session_of(spark, str(old))
        lineages = _lineages(project, shape, {})
        plan = paging_plan(old_files, shape, options, answers, lineages, session)
    check_offsets(plan, old_files)
    origins = (("the old checkpoint", old_files),)
    place = Target(new_files, plan.fingerprint, old_files.location, origins)
    place.check()
    uncommitted = begun if is_unfinished else None
    rewriting = Rewriting(str(old), str(new), plan, uncommitted=uncommitted, unasked=unasked)
    if not apply:
        return rewriting
    require_answers(plan)
    check_spark_version(REWRITING, "rewrite a checkpoint")
    session = session_of(spark, str(old))
    check_stopped(old_files, session)
    origin = OldCheckpoint(old_files, shape.query_id, meaning=_new_meaning(wanted, found, plan))
    report = run_plan(plan, origin, place, session, progress)
    return Rewriting(str(old), str(new), plan, report)


rewrite_checkpoint = rewrite
"""The name before every verb had its own; the same function."""


_UNKNOWN = (
    "Nothing says what the keys of the old state are computed from, nor which rows a filter or a "
    "join left out before it: a change of these is not noticed here. --old-code or --lock names "
    "the code that wrote the state"
)


def _unasked(before: CodeMeaning | None, found: Probed) -> Iterator[str]:
    """What no question is about: keys and functions are asked about, and nothing else is."""
    if before is None or found.plan is None:
        yield _UNKNOWN
        return
    after = {each.number: each for each in meaning_of(found, "").operators}
    for old in before.operators:
        new = after.get(old.number)
        if new is not None and new.kind == old.kind:
            changed = compare_facts(old, new)
            yield from (f"{e.name}: {e.text}" for e in changed if e.verdict == "unnoticed")


def _left_out(plan: RewritePlan, old: str) -> Iterator[str]:
    """What only the old checkpoint has then: a rewrite keeps no complements of its scripts."""
    for (store, revision), names in plan.left_out.items():
        yield (
            f"revision {revision} leaves {', '.join(names)} of {store} out: only {old} has that "
            "then, so keep it for as long as you may need it"
        )


def _unfinished(begun: int | None, committed: int) -> tuple[str, ...]:
    if begun is None:
        return ()
    return (
        f"batch {begun} is begun and not committed, and the plan is of batch {committed}: start "
        "the query with the code that it had, let it finish the batch, and stop it",
    )


class KnownCode(Protocol):
    """What is known of the code that a checkpoint was written by."""

    @property
    def functions(self) -> Mapping[int, tuple[AggregateFunction, ...]]:
        """The aggregate functions of operators, by their numbers."""

    @property
    def keys(self) -> Meanings:
        """What the key columns of operators are computed from."""


def _new_meaning(
    wanted: NewCode, found: Probed | None, plan: RewritePlan
) -> Mapping[str, bytes] | None:
    """The record of what the new code means by the state; None where it is the old code."""
    if not (wanted.code or wanted.like):
        return None
    return {} if found is None else meaning_files(found, str(wanted.code), plan.new.batch)


def plan_for(
    old: Files,
    shape: CheckpointShape,
    found: Probed | None,
    before: KnownCode | None,
    options: RewriteOptions,
    answers: RewriteAnswers | None,
    project: Project,
) -> RewritePlan:
    """The plan of a rewrite to what was ``found`` of the new code, None where it is the old one.

    ``before`` is what is known of the old code. Raises as `rewrite` does.
    """
    take = answers.take if answers else {}
    lineages = _lineages(project, shape, take)
    store_scripts = StoreScripts(shape, lineages, read_record(old), project.targets, project.stores)
    of_old = store_scripts.of_old()
    scripts = RewriteScripts(of_old, store_scripts.of_new(take))
    if found is None:
        store_scripts.check_undeployed(of_old)
        return make_plan(shape, None, options, answers, scripts)
    plan = partial(
        make_plan,
        shape,
        found.shape.operators,
        options,
        scripts=scripts,
        sources=found.sources,
        functions=KnownFunctions(before.functions if before else {}, found.functions),
    )
    # Which columns are windows a plan says; what is accepted of it is asked once these are known.
    first = plan(answers=replace(answers, accept=frozenset()) if answers else None)
    new = new_windows(found, before, project.spark)
    windows = _windows(first, new, old, project.spark)
    further = [*window_questions(windows), *key_questions(changed_keys(first, new))]
    return replace(plan(answers=answers, further=further), windows=windows)


def new_windows(found: Probed, before: KnownCode | None, spark: Spark) -> NewWindows:
    """What is known of the windows of the new code, and of the old one where it was given."""
    like = found.like
    keys = {} if before is None else before.keys
    if like is None:
        return NewWindows(found.keys, before=keys)

    def in_like(
        operator: OperatorShape, place: FamilyAddress, column: tuple[str, str]
    ) -> ObservedWindows:
        return _observed(like, found.shape, operator, place, column, spark)

    return NewWindows(found.keys, in_like, keys)


def _windows(
    plan: RewritePlan, new: NewWindows, old: Files, spark: Spark
) -> tuple[WindowFinding, ...]:
    """What the old state has in window columns, held against what the new code makes."""

    def in_old(
        operator: OperatorShape, place: FamilyAddress, column: tuple[str, str]
    ) -> ObservedWindows:
        return _observed(old, plan.old, operator, place, column, spark)

    return tuple(find_windows(plan, new, in_old))


def _observed(
    files: Files,
    shape: CheckpointShape,
    operator: OperatorShape,
    place: FamilyAddress,
    column: tuple[str, str],
    spark: Spark,
) -> ObservedWindows:
    check_spark_version(REWRITING, "rewrite a checkpoint")
    session = rewriting_session(session_of(spark, files.location), shape)
    rows = StateReader(files, shape.batch, session).rows(operator, place)
    return whole(partial(observe_windows, rows, column), files.location)


def _lineages(
    project: Project, shape: CheckpointShape, take: Mapping[str, str]
) -> dict[str, Lineage]:
    """The project's lineages. Raises what is wrong with those of stores that may need them."""
    survey = project.survey
    if survey is None:
        return {}
    own = {known: name for name, known in project.stores.items()}
    for known in {*take, *(name for each in shape.operators for name in user_stores(each))}:
        survey.require(own.get(known, known))
    return dict(survey.lineages)


def require_answers(plan: RewritePlan) -> None:
    """Raise `RewriteError` for questions that are open."""
    questions = plan.questions
    if questions:
        raise RewriteError(
            "SM-REWRITE-006",
            f"{counted(plan)} {'is' if len(questions) == 1 else 'are'} open",
            expected="an answer to each, since only the author knows it",
            found="; ".join(each.text for each in questions),
            next_action="; ".join(each.answer for each in questions),
            questions=[each.name for each in questions],
        )


def counted(plan: RewritePlan) -> str:
    """How many questions are open, in words."""
    count = len(plan.questions)
    return "1 question" if count == 1 else f"{count} questions"


# `verify`: whether every row of an old checkpoint is accounted for in the new one.


def verify(
    old: str | Path | None,
    new: str | Path,
    *,
    migrations: str | Path | None = "migrations",
    spark: Spark = None,
) -> Verified:
    """Read both checkpoints again through Spark, as of the batch of the rewrite, and compare them.

    The rows of ``old`` are compared with the record of the rows that the rewrite read, and those of
    the new one with the record of the rows that it wrote. The partition of every key is compared
    with Spark's hash of it, and the counts of joins with their rows. Then the new rows are made
    again from the old ones, with the scripts of the folder ``migrations`` if the rewrite ran some,
    and must be the same. This detects a script that was edited since, or that gives another result
    each time. Spark's logs, the logs of sources and ``metadata`` must be as the rewrite wrote them,
    and follow from the old logs. The new query may have continued, as long as Spark keeps the state
    of that batch. The default for ``old`` is the checkpoint in the record; a checkpoint from `seed`
    has none, and is checked alone. Raises `CheckpointError` if one of them cannot be read, or was
    not made by a rewrite, `RewriteError` for another ``old``, and `ScriptError` if ``migrations``
    is not a folder of scripts.
    """
    files = open_files(new)
    if old is None:
        report = read_report(files)
        old = None if report.tables else report.old
    survey = survey_of(migrations)
    lineages = None if survey is None else dict(survey.lineages)
    old_files = None if old is None else open_files(old)
    return verify_files(old_files, files, lambda: session_of(spark, str(new)), lineages)


# `fork`: a query's checkpoint as it was after a batch, in a new place.


__all__ = ["Fork", "fork"]
