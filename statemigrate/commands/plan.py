"""`plan` and `lock`: what happens to a query's state when its code changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.checkpoint.logs.entries import is_avro
from statemigrate.checkpoint.operators.catalogue import VARIABLES, kind_of
from statemigrate.checkpoint.operators.shapes import CheckpointShape, OperatorShape
from statemigrate.checkpoint.shape import describe
from statemigrate.commands.new_code import (
    NewCode,
    Probed,
    check_inputs,
    check_of_checkpoint,
    known_before,
    meaning_of,
    probed,
)
from statemigrate.commands.rewrite import plan_for
from statemigrate.deployment import revision_in, store_of
from statemigrate.errors import CodeError, RewriteError, StatemigrateError, UnsupportedError
from statemigrate.files import Files
from statemigrate.files.documents import replacing
from statemigrate.files.open import open_files
from statemigrate.meaning import (
    CodeMeaning,
    MeaningRecord,
    PlanItem,
    PlanStep,
    compare_code,
    compare_meanings,
    compare_operators,
    compare_sources,
    lock_text,
    read_lock,
)
from statemigrate.meaning.code_meaning import state_ddl
from statemigrate.meaning.rules import with_levels
from statemigrate.migration import BASE, Lineage
from statemigrate.quoting import argument
from statemigrate.rewrite.column_pairing import operator_name, store_families
from statemigrate.rewrite.plan import RewritePlan
from statemigrate.rewrite.sources import RewriteOptions
from statemigrate.rewrite.window_findings import WindowFinding
from statemigrate.state.project import Project

if TYPE_CHECKING:
    from statemigrate.native.session import Spark


_ONLY_DECIDED = frozenset(
    {"source", "filter", "watermark", "join-type", "join-condition", "table", "column", "rows"}
)
"""Rules of changes after which nothing can compute old rows anew."""
_REWRITE_BYTES = 10_000_000
"""Bytes of state a second that two cores rewrite: 1,000,000 rows are 19 MB (docs/costs.md)."""
_START_OF_SPARK = 8.0
"""Seconds until a command's own Spark has read a plan."""
LOCK = "state.lock"
"""Where `lock` writes, unless another file is named."""


@dataclass(frozen=True)
class ChangePlan:
    """The result for a checkpoint's state, and the steps to take.

    ``items`` are its sources and states with a verdict each. ``steps`` are in order. ``undo``
    describes the way back, and is empty if nothing changes. ``begun`` is when the last committed
    ``batch`` began, in milliseconds since 1970, and ``size`` the number of bytes in the state's
    files. ``stops`` says whether the query stops for longer than a restart.
    """

    checkpoint: str
    code: str | None
    query: str
    batch: int
    begun: int
    size: int
    items: tuple[PlanItem, ...]
    steps: tuple[PlanStep, ...]
    undo: str
    stops: bool

    @property
    def asks(self) -> bool:
        """Whether there is anything to do, decide or find out before the code may start."""
        return any(each.asks for each in self.items)

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "checkpoint": self.checkpoint,
            "code": self.code,
            "query": self.query,
            "batch": self.batch,
            "begun": self.begun,
            "size": self.size,
            "asks": self.asks,
            "stops": self.stops,
            "items": [each.to_json() for each in self.items],
            "steps": [each.to_json() for each in self.steps],
            "undo": self.undo,
        }


def plan(
    checkpoint: str | Path,
    *,
    target: NewCode | None = None,
    migrations: str | Path | None = "migrations",
    stores: Mapping[str, str] | None = None,
    rules: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> ChangePlan:
    """Report what happens to the state of ``checkpoint`` when the code in ``target`` starts on it.

    The new code runs once on empty streams. Its ``old_code``, or the ``lock`` file of that code
    from `lock`, shows the meaning of the state. Without new code, only the scripts are compared
    with the state. Nothing is written, and the query may be running.

    Raises `CheckpointError` and `UnsupportedError` for a checkpoint that cannot be read,
    `CodeError` for code that does not run on empty streams and for a file that is not a lock file,
    and `ScriptError` for a folder of scripts that cannot be read.
    """
    wanted, files = target or NewCode(), open_files(checkpoint)
    check_inputs(wanted)
    committed = CheckpointDirectory(files).require_commit()
    shape = describe(files, committed)
    size = sum(each.size for each in files.list("state", recursive=True))
    project = Project(migrations, {}, stores or {}, spark)
    lineages = {} if project.survey is None else dict(project.survey.lineages)
    found = probed(wanted, shape.conf, spark, files.location)
    if found is None:
        items = tuple(with_levels(_without_code(shape, lineages), rules or {}))
        steps, undo, stops = tuple(_steps_without_code(files, items)), "", False
    else:
        old = known_before(wanted, shape, spark, files)
        rewrite = _rewrite_plan(files, shape, found, old, project)
        verdicts = _with_code(shape, found, old, rewrite, lineages)
        items = tuple(with_levels(verdicts, rules or {}))
        has_scripts = project.survey is not None
        made = _Steps(
            str(checkpoint), shape, found, items, rewrite, wanted, lineages, has_scripts, size
        )
        steps, undo, stops = made.steps(), made.undo, made.stops
    return ChangePlan(
        str(checkpoint),
        wanted.code,
        shape.query_id,
        shape.batch,
        shape.offsets[shape.batch].timestamp,
        size,
        items,
        steps,
        undo,
        stops,
    )


@dataclass(frozen=True)
class Locked:
    """The ``meaning`` of code, and the ``changes`` since its lock file, if requested."""

    meaning: CodeMeaning
    changes: tuple[PlanItem, ...] = ()

    @property
    def asks(self) -> bool:
        """Whether a change requires an action or a decision."""
        return any(each.asks for each in self.changes)

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "operators": [each.name for each in self.meaning.operators],
            "changes": [each.to_json() for each in self.changes],
        }


def lock(
    code: str,
    *,
    file: str | Path = LOCK,
    inputs: Mapping[str, Any] | None = None,
    mode: str | None = None,
    check: bool = False,
    checkpoint: str | Path | None = None,
    rules: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Locked:
    """Record the meaning of the state of ``code``, ``MODULE:FUNCTION``, in a ``file``.

    The function runs once on empty streams; ``inputs`` and ``mode`` are as in `NewCode`. The same
    code gives the same text. With ``check`` this writes nothing, and compares the code with the
    file. With a ``checkpoint`` the record is written there instead, for state that no guarded start
    has run on: name the code that wrote the state. Raises `CodeError` for code that does not run or
    is not the checkpoint's, and for a file that is not a lock file; `CheckpointError` for a
    checkpoint that cannot be read.
    """
    check_inputs(NewCode(code, inputs or {}, mode))
    known = read_lock(file) if check else None
    shape = None if checkpoint is None else _shape_of(checkpoint, check=check)
    conf = None if shape is None else shape.conf
    found = probed(NewCode(code, inputs or {}, mode), conf, spark, str(checkpoint or code))
    assert found is not None, "code was given"  # noqa: S101
    if found.plan is None:
        raise CodeError(
            "SM-LOCK-005",
            f"what {code} means cannot be seen in this session",
            expected="a session of classic Spark, which shows the plan that it has run",
            found="a session without plans, as one of Spark Connect",
            next_action="run the command where PySpark starts Spark itself, as in local[2]",
            reference=code,
        )
    meaning = meaning_of(found, code)
    if known is not None:
        return Locked(meaning, tuple(with_levels(compare_code(known, meaning), rules or {})))
    if checkpoint is not None and shape is not None:
        check_of_checkpoint(meaning, shape, code, str(checkpoint))
        _check_types(shape, found.shape, code, str(checkpoint))
        MeaningRecord(shape.batch, meaning).write(open_files(checkpoint))
        return Locked(meaning)
    with replacing(Path(file)) as stream:
        stream.write(lock_text(meaning).encode())
    return Locked(meaning)


def _shape_of(checkpoint: str | Path, *, check: bool) -> CheckpointShape:
    if check:
        raise CodeError(
            "SM-LOCK-006",
            "a checkpoint and --check are given",
            expected="a checkpoint, to write a record, or --check, which writes nothing",
            found="both",
            next_action="leave one of them out; `statemigrate plan` compares code and checkpoint",
            reference=str(checkpoint),
        )
    files = open_files(checkpoint)
    return describe(files, CheckpointDirectory(files).require_commit())


def _check_types(old: CheckpointShape, new: CheckpointShape, code: str, location: str) -> None:
    """Raise `CodeError` for code whose state has other types than the checkpoint's."""
    states = compare_operators(old.operators, new.operators, {}, evolves=is_avro(old.conf))
    others = [f"{each.name}: {each.text}" for each in states if each.asks]
    if others:
        raise CodeError(
            "SM-LOCK-004",
            f"{code} is not the code that {location} was written by",
            expected="the state that the checkpoint has",
            found="; ".join(others),
            next_action="name the code that is deployed, from the commit that it was deployed from",
            reference=code,
        )


def _rewrite_plan(
    files: Files,
    shape: CheckpointShape,
    found: Probed,
    old: CodeMeaning | None,
    project: Project,
) -> RewritePlan | StatemigrateError:
    """The plan of a rewrite to the new code, or why there is none."""
    try:
        return plan_for(files, shape, found, old, RewriteOptions(), None, project)
    except (RewriteError, UnsupportedError) as error:
        return error


# The items.


def _with_code(
    shape: CheckpointShape,
    found: Probed,
    old: CodeMeaning | None,
    rewrite: RewritePlan | StatemigrateError,
    lineages: Mapping[str, Lineage],
) -> Iterator[PlanItem]:
    offsets = shape.offsets[shape.batch].offsets
    yield from compare_sources(offsets, found.sources, None if old is None else old.sources)
    evolves = is_avro(shape.conf)
    states = list(
        compare_operators(shape.operators, found.shape.operators, lineages, evolves=evolves)
    )
    before = {} if old is None else {each.number: each for each in old.operators}
    numbers = {operator_name(each): each.number for each in found.shape.operators}
    after = {each.number: each for each in meaning_of(found, "").operators}
    windows = () if isinstance(rewrite, StatemigrateError) else rewrite.windows
    for name in dict.fromkeys(each.operator for each in states):
        own = [each for each in states if each.operator == name]
        number = numbers.get(name)
        # Of code that no plan was seen of, nothing was found to be the same.
        if found.plan is not None and number in before and number in after:
            known = list(compare_meanings(before[number], after[number]))
            yield from _settled(own, known)
            yield from known
        else:
            yield from own
            if number is not None and not _is_other(own):
                of_windows = [each for each in windows if each.store.startswith(name)]
                yield from map(partial(_window, operator=name), of_windows)
                yield _unknown(name)


def _is_other(items: Sequence[PlanItem]) -> bool:
    """Whether Spark does not start on the operator, so that what its state means is asked later."""
    return any(each.verdict == "rewrite" for each in items)


def _settled(states: Sequence[PlanItem], known: Sequence[PlanItem]) -> Iterator[PlanItem]:
    """States whose fields have other names alone, where the meaning is known to be the same."""
    is_same = not any(each.verdict == "unnoticed" for each in known)
    for each in states:
        if each.verdict == "unnoticed" and is_same and not each.store:
            text = f"only names differ, and what they are computed from is the same ({each.text})"
            yield replace(each, verdict="goes on", text=text)
        else:
            yield each


def _unknown(operator: str) -> PlanItem:
    return PlanItem(
        f"{operator} meaning",
        "unknown",
        "the checkpoint does not say what its keys, functions and filters are computed from: give "
        "the code that it was written by (--old-code), or its lock file (--lock)",
        operator,
        rule="meaning",
    )


def _window(finding: WindowFinding, operator: str) -> PlanItem:
    name = f"{finding.store}.{finding.column}"
    text = f"the state has {finding.old_text}, and the new code makes {finding.new_text}"
    match finding.verdict:
        case "same":
            return PlanItem(name, "same", text, operator)
        case "unknown" | "unseen":
            return PlanItem(name, "unknown", text, operator, rule="window")
    return PlanItem(name, "unnoticed", text, operator, rule="window")


def _without_code(shape: CheckpointShape, lineages: Mapping[str, Lineage]) -> Iterator[PlanItem]:
    """What scripts alone say: whether they lead further than the state."""
    for name in shape.offsets[shape.batch].offsets.by_source:
        yield PlanItem(f"source {name}", "goes on", "it continues at its offset")
    for operator in shape.operators:
        yield from _scripted(operator, lineages)


def _scripted(operator: OperatorShape, lineages: Mapping[str, Lineage]) -> Iterator[PlanItem]:
    name, is_live = operator_name(operator), kind_of(operator.name) is VARIABLES
    families: dict[str, list[str]] = {}
    for label, place in store_families(operator):
        variable = place.family.name
        if is_live and variable.startswith("$"):
            continue
        families.setdefault(store_of(variable) if is_live else label, []).append(variable)
    for store, found in families.items():
        lineage = lineages.get(store)
        if lineage is None:
            yield PlanItem(store, "goes on", "no script changes it", name, store)
            continue
        revisions = {revision_in(each) or lineage.oldest for each in found} if is_live else {BASE}
        if revisions == {lineage.head}:
            yield PlanItem(store, "same", "it is at the head of its scripts", name, store)
        elif is_live and lineage.head in revisions:
            text = f"values are migrating to revision {lineage.head}"
            yield PlanItem(store, "goes on", text, name, store)
        else:
            text = f"its scripts lead to revision {lineage.head}, which no code has written yet"
            verdict = "live" if is_live else "rewrite"
            yield PlanItem(store, verdict, text, name, store)  # type: ignore[arg-type]


# The steps.


def _steps_without_code(files: Files, items: Sequence[PlanItem]) -> Iterator[PlanStep]:
    for each in items:
        if each.verdict == "live":
            yield PlanStep(
                f"Try the scripts of {each.store} on the state",
                f"statemigrate dry-run {argument(each.store)} {argument(files.location)}",
            )
    if any(each.asks for each in items):
        yield PlanStep(
            "Name the code, which says whether Spark takes it",
            f"statemigrate plan {argument(files.location)} --code MODULE:FUNCTION",
        )


@dataclass(frozen=True)
class _Steps:
    """Makes the steps of a plan."""

    checkpoint: str
    shape: CheckpointShape
    found: Probed
    items: tuple[PlanItem, ...]
    rewrite: RewritePlan | StatemigrateError
    wanted: NewCode
    lineages: Mapping[str, Lineage]
    has_scripts: bool
    size: int

    @property
    def verdicts(self) -> set[str]:
        return {each.verdict for each in self.asking}

    @property
    def asking(self) -> list[PlanItem]:
        return [each for each in self.items if each.asks]

    @property
    def stops(self) -> bool:
        """Whether the query stands still until its state is rewritten."""
        return bool(self._to_rewrite)

    @property
    def undo(self) -> str:
        """How to go back once the code runs."""
        if self._to_rewrite:
            return "start the old code on the old checkpoint, which stays as it is"
        if "live" in self.verdicts:
            return f"statemigrate rollback {argument(self.checkpoint)} --to REVISION"
        return ""

    @property
    def _to_rewrite(self) -> list[PlanItem]:
        return [
            each
            for each in self.asking
            if each.verdict == "rewrite" or (each.verdict == "unnoticed" and _can_rewrite(each))
        ]

    def steps(self) -> tuple[PlanStep, ...]:
        """All steps in their order."""
        return tuple(self._all())

    def _all(self) -> Iterator[PlanStep]:
        for each in self.asking:
            if each.verdict == "cannot":
                yield PlanStep(f"Decide about {each.name}: {each.text}")
        for each in self.asking:
            if each.verdict == "unnoticed" and not _can_rewrite(each):
                yield PlanStep(
                    f"Take the change of {each.name} back, or decide that old rows may stay so: "
                    "nothing can compute them anew. `statemigrate.guarded` records the decision "
                    "with its reason"
                )
        for each in self.asking:
            if each.verdict in ("same", "goes on"):
                yield PlanStep(f"Decide about {each.name}, which the project forbids: {each.text}")
        if "unknown" in self.verdicts:
            yield PlanStep(
                "Say what the state means, and look again",
                f"{self._again} --old-code MODULE:FUNCTION",
            )
        if self._to_rewrite:
            yield from self._rewriting()
        elif "live" in self.verdicts:
            yield from self._migrating()
        elif not any(each.asks for each in self.items):
            yield PlanStep("Restart the query with the new code on the same checkpoint")

    @property
    def _again(self) -> str:
        return f"statemigrate plan {argument(self.checkpoint)}{self._code}"

    @property
    def _code(self) -> str:
        given = "" if self.wanted.code is None else f" --code {argument(self.wanted.code)}"
        if self.wanted.like is not None:
            given += f" --like {argument(str(self.wanted.like))}"
        for name, ddl in self.wanted.inputs.items():
            given += f" --input {argument(f'{name}={ddl}')}"
        return given + (f" --output-mode {self.wanted.mode}" if self.wanted.mode else "")

    def _rewriting(self) -> Iterator[PlanStep]:
        if isinstance(self.rewrite, StatemigrateError):
            error = self.rewrite
            yield PlanStep(f"{error.headline}: {error.next_action or error.found}")
            return
        old, new = self.checkpoint, f"{self.checkpoint}-2"
        known = f" --old-code {argument(self.wanted.old_code)}" if self.wanted.old_code else ""
        if self.wanted.lock is not None:
            known = f" --lock {argument(str(self.wanted.lock))}"
        command = f"statemigrate rewrite {argument(old)} {argument(new)}{self._code}{known}"
        questions, seconds = self.rewrite.questions, _START_OF_SPARK + self.size / _REWRITE_BYTES
        if questions:
            yield PlanStep(f"Answer what a rewrite asks ({len(questions)})", command)
        yield PlanStep("Stop the query")
        yield PlanStep(
            "Make a new checkpoint" + (", with the answers" if questions else ""),
            f"{command} --apply",
            seconds,
        )
        yield PlanStep(
            "Compare it with the old one",
            f"statemigrate rewrite {argument(old)} {argument(new)} --verify",
            seconds,
        )
        yield PlanStep(f"Start the new code on {self.checkpoint}-2")

    def _migrating(self) -> Iterator[PlanStep]:
        for each in self.items:
            if each.verdict != "live":
                continue
            if not each.store:
                yield PlanStep(
                    "Stop the query, and make room for the backfill's source; `stateful` does it "
                    "by itself when the code starts",
                    f"statemigrate backfill {argument(self.checkpoint)} --prepare --apply",
                )
                continue
            if not self._is_scripted(each.store):
                yield from self._new_script(each.store)
            yield PlanStep(
                f"Try the scripts of {each.store} on the state",
                f"statemigrate dry-run {argument(each.store)} {argument(self.checkpoint)}",
            )
        yield PlanStep("Restart the query with the new code on the same checkpoint")
        yield PlanStep(
            "Watch the old values go", f"statemigrate status {argument(self.checkpoint)}"
        )

    def _is_scripted(self, store: str) -> bool:
        """Whether the code is for scripts, and they lead to what it writes."""
        places = [
            place
            for operator in self.found.shape.operators
            for _, place in store_families(operator)
            if store_of(place.family.name) == store
        ]
        return store in self.lineages and any(revision_in(p.family.name) for p in places)

    def _new_script(self, store: str) -> Iterator[PlanStep]:
        content = next(
            place.family.content
            for operator in self.found.shape.operators
            for _, place in store_families(operator)
            if place.family.name == store
        )
        lineage = self.lineages.get(store)
        if lineage is None:
            if not self.has_scripts:
                yield PlanStep("Make the folder of scripts", "statemigrate init")
            yield PlanStep(
                f"Record the format that {store} has today",
                f"statemigrate new {argument(store)} -m 'as it is' "
                f"--from-checkpoint {argument(self.checkpoint)}",
            )
        if lineage is None or not _leads_to(lineage, content):
            yield PlanStep(
                f"Write the script that changes {store}, and fill in its `upgrade`",
                f"statemigrate new {argument(store)} -m 'what changes' "
                f"--to {argument(state_ddl(content))}",
            )
        yield PlanStep(
            "Declare the operator with `statemigrate.stateful(stream, by=..., processor=..., "
            "output=..., checkpoint=...)` in place of groupBy and transformWithState: it reads old "
            "values through the script"
        )


def _leads_to(lineage: Lineage, content: Mapping[str, Any]) -> bool:
    """Whether the scripts lead to the format that the code writes."""
    head = lineage.format_of(lineage.head)
    return state_ddl(head.struct_type().jsonValue()) == state_ddl(content)


def _can_rewrite(item: PlanItem) -> bool:
    """Whether a rewrite can make of old rows what the new code means."""
    return item.rule not in _ONLY_DECIDED
