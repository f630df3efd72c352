"""The steps from a checkpoint to new code, as commands to copy, and the way back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from statemigrate.checkpoint.operators import CheckpointShape, is_timers
from statemigrate.commands.change_plan import ChangePlan
from statemigrate.commands.code_verdicts import rewrite_plan, verdicts_on
from statemigrate.commands.compared_envelopes import ComparedEnvelopes
from statemigrate.commands.compared_pages import ComparedPages, change_steps, steps_outside
from statemigrate.commands.new_code import NewCode, Probed, known_before, meaning_of, probed
from statemigrate.commands.plan_costs import StateCosts, costs_of
from statemigrate.commands.script_for_code import changes_of_stores
from statemigrate.deployment import StoredStore, revision_in, revision_of, store_of
from statemigrate.errors import StatemigrateError
from statemigrate.files import Files
from statemigrate.meaning import (
    SETTING,
    CodeMeaning,
    PlanItem,
    PlanStep,
    format_ddl,
    is_scripted,
    setting_of,
    unset_as_warnings,
    with_levels,
)
from statemigrate.migration import BASE, Lineage
from statemigrate.native import StoreRecord, read_record
from statemigrate.quoting import argument
from statemigrate.rewrite import Question, RewritePlan, ScriptedFamily, state_ddl, store_families
from statemigrate.state import Project

_WITH_COSTS = ("live", "rewrite", "unnoticed")
"""Verdicts after which values are migrated, or rows rewritten."""
_ONLY_DECIDED = frozenset(
    {
        *("source", "filter", "watermark", "output-mode", "join-type", "join-condition", "table"),
        *("column", "rows", SETTING),
    }
)
"""Rules of changes after which nothing can compute old rows again."""


def planned_for(
    wanted: NewCode,
    unplanned: ChangePlan,
    files: Files,
    shape: CheckpointShape,
    project: Project,
    rules: Mapping[str, str],
) -> ChangePlan:
    """The plan with verdicts and steps, once the new code has run on empty streams."""
    found = probed(wanted, shape.conf, project.spark, files.location)
    assert found is not None, "code was given"  # noqa: S101
    old = known_before(wanted, shape, project.spark, files)
    pages = ComparedPages.of(files, shape, found, project.lineages, project.spark)
    rewrite = rewrite_plan(files, shape, found, old, project, pages)
    envelopes = ComparedEnvelopes.of(files, shape, found)
    record = read_record(files)
    verdicts = verdicts_on(shape, found, old, rewrite, project.lineages, pages, envelopes, record)
    verdicts = unset_as_warnings(verdicts, old, meaning_of(found, ""))
    items = tuple(with_levels(verdicts, rules))
    has_scripts = project.survey is not None
    asks = any(each.verdict in _WITH_COSTS for each in items if each.asks)
    steps = _Steps(
        unplanned.checkpoint,
        shape,
        found,
        items,
        rewrite,
        wanted,
        project.lineages,
        has_scripts,
        costs_of(files, shape, has_pages=bool(pages.records)) if asks else None,
        pages,
        envelopes,
        _rekeyed(shape, found, old, rewrite, project.stores),
        record,
    )
    made = steps.all()
    return replace(
        unplanned,
        items=items,
        steps=made,
        undo=steps.undo,
        stops=steps.stops,
        pages=pages.changes,
        takes_other_code=bool(pages.through_variables),
        basis=steps.costs.basis
        if steps.costs is not None and any(each.seconds is not None for each in made)
        else "",
    )


def options_of(wanted: NewCode) -> str:
    """The options of the command line that name the new code, each after a blank."""
    given = "" if wanted.code is None else f" --code {argument(wanted.code)}"
    if wanted.like is not None:
        given += f" --like {argument(str(wanted.like))}"
    for name, ddl in wanted.inputs.items():
        given += f" --input {argument(f'{name}={ddl}')}"
    return given + (f" --output-mode {wanted.mode}" if wanted.mode else "")


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
    costs: StateCosts | None
    pages: ComparedPages
    envelopes: ComparedEnvelopes
    rekeyed: tuple[str, ...]
    record: Mapping[str, StoreRecord]

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
        stores = {each.store for each in self.asking if each.verdict == "live"}
        deployed = {store: self._deployed(store) for store in sorted(stores) if store}
        if deployed:
            words = " ".join(f"--to {argument(f'{store}={at}')}" for store, at in deployed.items())
            return f"statemigrate rollback {argument(self.checkpoint)} {words}"
        if stores:
            return f"statemigrate backfill {argument(self.checkpoint)} --prepare --undo --apply"
        return ""

    def _deployed(self, store: str) -> str:
        """The revision that a store was written at, else the newest that the scripts have."""
        lineage = self.lineages.get(store)
        written = self.record.get(store, StoreRecord()).target
        if written is not None and lineage is not None:
            return revision_of(lineage, written)
        found = [
            each.revision
            for record in self.pages.records.values()
            if store in record.stores
            for each in record.stores[store].families
            if lineage is not None and each.revision in lineage
        ]
        in_envelopes = self.envelopes.revisions.get(store, frozenset())
        found += [each for each in in_envelopes if lineage is not None and each in lineage]
        found += [
            revision
            for operator in self.shape.operators
            for _, place in store_families(operator)
            if store_of(place.family.name) == store
            for revision in (revision_in(place.family.name),)
            if revision is not None and lineage is not None and revision in lineage
        ]
        return max(found, key=lineage.position, default=BASE) if lineage is not None else BASE

    @property
    def _to_rewrite(self) -> list[PlanItem]:
        return [
            each
            for each in self.asking
            if each.verdict == "rewrite" or (each.verdict == "unnoticed" and _can_rewrite(each))
        ]

    def all(self) -> tuple[PlanStep, ...]:
        """All steps in their order."""
        return tuple(self._steps())

    def _steps(self) -> Iterator[PlanStep]:
        for each in self.asking:
            if each.verdict == "cannot":
                yield PlanStep(f"Decide about {each.name}: {each.text}")
        for each in self.asking:
            if each.verdict == "unnoticed" and not _can_rewrite(each):
                yield taken_back(each, "rows", "statemigrate.guarded")
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
        return options_of(self.wanted)

    def _rewriting(self) -> Iterator[PlanStep]:
        if self.pages.is_refused:
            return
        if outside := self.pages.through_variables:
            yield from steps_outside(outside, self.checkpoint, self.costs)
            return
        if self.pages.changes:
            others = [each for each in self.asking if each.verdict != "unknown"]
            is_alone = len(others) == len(self.pages.changes)
            again = "" if is_alone else f"{self._code}{self._known}"
            yield from change_steps(self.pages.changes, self.checkpoint, self.costs, again)
            return
        for store in self.rekeyed:
            yield PlanStep(
                f"Write the script that gives rows of {store} their new keys, and answer each "
                "QUESTION in it",
                f"statemigrate new {argument(store)} -m 'other keys' "
                f"--from-checkpoint {argument(self.checkpoint)}{self._code}{self._known}",
            )
        if isinstance(self.rewrite, StatemigrateError) and not self.rekeyed:
            error = self.rewrite
            yield PlanStep(f"{error.headline}: {error.next_action or error.found}")
            return
        old, new = self.checkpoint, f"{self.checkpoint}-2"
        command = f"statemigrate rewrite {argument(old)} {argument(new)}{self._code}{self._known}"
        for store in self._scripted:
            yield PlanStep(
                f"Try the script of {store} on the state",
                f"statemigrate dry-run {argument(store)} {argument(self.checkpoint)}",
            )
        questions = self._questions
        asks = bool(questions) or self._may_ask
        if asks:
            text = f"Answer what a rewrite asks ({len(questions)})"
            later = "See what a rewrite asks once the script is there, and answer it"
            yield PlanStep(text if questions else later, command)
        yield PlanStep("Stop the query")
        yield PlanStep(
            "Make a new checkpoint" + (", with the answers" if asks else ""),
            f"{command} --apply",
            None if self.costs is None else self.costs.rewrite,
        )
        yield PlanStep(
            "Compare it with the old one",
            f"statemigrate rewrite {argument(old)} {argument(new)} --verify",
            None if self.costs is None else self.costs.verify,
        )
        yield PlanStep(f"Start the new code on {self.checkpoint}-2")

    @property
    def _known(self) -> str:
        """The options that name the old code, as they were given."""
        if self.wanted.lock is not None:
            return f" --lock {argument(str(self.wanted.lock))}"
        return f" --old-code {argument(self.wanted.old_code)}" if self.wanted.old_code else ""

    @property
    def _scripted(self) -> tuple[str, ...]:
        """The stores whose keys a script changes, also one that is still to be written."""
        if isinstance(self.rewrite, StatemigrateError):
            return self.rekeyed
        return tuple(dict.fromkeys((*self.rekeyed, *_scripted_keys(self.rewrite))))

    @property
    def _questions(self) -> tuple[Question, ...]:
        """What a rewrite asks, without what a script is to answer that is still to be written."""
        if isinstance(self.rewrite, StatemigrateError):
            return ()
        return tuple(
            each
            for each in self.rewrite.questions
            if each.kind != "window" or not any(_is_about(each, name) for name in self.rekeyed)
        )

    @property
    def _may_ask(self) -> bool:
        """Whether a rewrite may ask once a script is there that is still to be written.

        It asks about windows that are open, and about timers, which keep their keys.
        """
        makes_windows = any(each.rule == "window" for each in self._to_rewrite)
        return bool(self.rekeyed) and (makes_windows or _has_timers(self.shape))

    def _migrating(self) -> Iterator[PlanStep]:
        for each in self.items:
            if each.verdict != "live":
                continue
            if not each.store:
                if self._is_declared:
                    continue
                yield PlanStep(
                    "Stop the query, and make room for the backfill source; `stateful` does it "
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
            "Watch the old values go, where a backfill migrates those that no row touches",
            f"statemigrate status {argument(self.checkpoint)}",
            None if self.costs is None else self.costs.backfill,
        )

    def _is_scripted(self, store: str) -> bool:
        """Whether the code is for scripts, and they lead to what it writes."""
        places = [
            place
            for operator in self.found.shape.operators
            for _, place in store_families(operator)
            if store_of(place.family.name) == store
        ]
        if store in self.found.in_envelopes:
            return True
        on_pages = self._on_pages(store)
        return store in self.lineages and (
            any(revision_in(p.family.name) for p in places)
            or (on_pages is not None and is_scripted(on_pages, self.lineages[store]))
        )

    def _on_pages(self, store: str) -> StoredStore | None:
        """A store that the code has on pages, as its first start would record it."""
        found = (each.stores[store] for each in self.found.pages.values() if store in each.stores)
        return next(found, None)

    def _new_script(self, store: str) -> Iterator[PlanStep]:
        on_pages = self._on_pages(store)
        ddl = (
            next(
                state_ddl(place.family.content)
                for operator in self.found.shape.operators
                for _, place in store_families(operator)
                if place.family.name == store
            )
            if on_pages is None
            else format_ddl(on_pages)
        )
        lineage = self.lineages.get(store)
        yield from script_to_write(
            self.checkpoint, store, ddl, lineage, has_folder=self.has_scripts
        )
        if not self._is_declared:
            yield PlanStep(
                "Declare the operator with `statemigrate.stateful(stream, by=..., processor=..., "
                "output=..., checkpoint=...)` in place of groupBy and transformWithState: it reads "
                "old values through the script"
            )

    @property
    def _is_declared(self) -> bool:
        """Whether the code calls `stateful`, which also makes room for the backfill's source.

        A query on pages has that source from its first start.
        """
        return "stateful" in self.found.calls or bool(self.found.pages)


_NEEDS_KEYS = ("SM-REWRITE-014", "SM-REWRITE-015")
"""Codes of errors of a rewrite that a script with other keys cures."""


def _rekeyed(
    shape: CheckpointShape,
    found: Probed,
    old: CodeMeaning | None,
    rewrite: RewritePlan | StatemigrateError,
    names: Mapping[str, str],
) -> tuple[str, ...]:
    """The stores of Spark's operators whose keys need a script that is still to be written.

    ``names`` has the project's own names of stores. None where a rewrite fails for another reason.
    """
    changed = [n for n, each in changes_of_stores(shape, found, old, names).items() if each.rekeys]
    if isinstance(rewrite, StatemigrateError):
        return tuple(changed) if rewrite.code in _NEEDS_KEYS else ()
    asked = [each for each in rewrite.questions if each.kind == "window"]
    written = set(_scripted_keys(rewrite))
    return tuple(
        name
        for name in changed
        if name not in written and any(_is_about(each, names.get(name, name)) for each in asked)
    )


def _has_timers(shape: CheckpointShape) -> bool:
    families = (
        each for every in shape.operators for store in every.stores for each in store.families
    )
    return any(is_timers(each.name) for each in families)


def _is_about(question: Question, store: str) -> bool:
    return question.name.startswith(f"{store}.")


def _scripted_keys(rewrite: RewritePlan) -> Iterator[str]:
    """The stores whose keys scripts change that are there."""
    for operator in rewrite.operators:
        for family in operator.families:
            if isinstance(family, ScriptedFamily) and family.script.changes_keys:
                yield family.script.store


def taken_back(item: PlanItem, what: str, accepting: str) -> PlanStep:
    """The step where nothing can compute again ``what`` the state has, rows or values.

    ``accepting`` is the function of ours that records a decision.
    """
    first = f"Take the change of {item.name} back"
    if item.rule == SETTING:
        first = (
            f"Give {setting_of(item)} the value that it had, in the code or in `spark` of "
            "[tool.statemigrate] (this plan has it from its own session)"
        )
    return PlanStep(
        f"{first}, or decide that old {what} may stay so: nothing can compute them again. "
        f"`{accepting}` records the decision with its reason"
    )


def script_to_write(
    checkpoint: str, store: str, ddl: str, lineage: Lineage | None, *, has_folder: bool
) -> Iterator[PlanStep]:
    """The command that writes a store's script to the format ``ddl``; none where one leads there.

    ``has_folder`` says whether there are scripts of any store.
    """
    if lineage is None:
        first = "records the format of today first"
        yield PlanStep(
            f"Write the script that changes {store}, and fill in what it leaves open; the command "
            + (first if has_folder else f"makes the folder of scripts, and {first}"),
            f"statemigrate new {argument(store)} -m 'what changes' "
            f"--from-checkpoint {argument(checkpoint)} --to {argument(ddl)}",
        )
    elif not _leads_to(lineage, ddl):
        yield PlanStep(
            f"Write the script that changes {store}, and fill in what it leaves open",
            f"statemigrate new {argument(store)} -m 'what changes' --to {argument(ddl)}",
        )


def _leads_to(lineage: Lineage, ddl: str) -> bool:
    """Whether the scripts lead to the format that the code writes."""
    head = lineage.format_of(lineage.head)
    return state_ddl(head.struct_type().jsonValue()) == ddl


def _can_rewrite(item: PlanItem) -> bool:
    """Whether a rewrite can make of old rows what the new code means."""
    return item.rule not in _ONLY_DECIDED
