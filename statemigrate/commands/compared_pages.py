"""State in pages as `plan` compares it: by its stores, since Spark knows of the pages alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from statemigrate.checkpoint.logs import Offsets
from statemigrate.checkpoint.operators import CheckpointShape, OperatorShape, kind_of
from statemigrate.commands.new_code import Probed
from statemigrate.commands.pages_change import (
    PagesChange,
    is_only_processor,
    name_on_pages,
    pages_changes,
)
from statemigrate.commands.plan_costs import StateCosts
from statemigrate.commands.rewrite_pages import record_of_variables
from statemigrate.files import Files
from statemigrate.meaning import PlanItem, PlanStep, compare_stores
from statemigrate.migration import Lineage
from statemigrate.native import ChunkFiles, control_sources, has_control_source, session_of
from statemigrate.pages import PagesRecord, records_at
from statemigrate.quoting import argument
from statemigrate.rewrite import NewSources, operator_name, operator_with

if TYPE_CHECKING:
    from statemigrate.native import Spark


@dataclass(frozen=True)
class _PagedPair:
    """An ``old`` operator and the ``new`` one, with what pages have of each, or would have."""

    old: OperatorShape
    new: OperatorShape
    was: PagesRecord
    now: PagesRecord

    @property
    def has_other_clock(self) -> bool:
        """Whether there may be timers, and the code has them in another time mode."""
        was, now = ((each.properties or {}).get("timeMode") for each in (self.old, self.new))
        return was not in (now, "NoTime")

    def items(self, lineages: Mapping[str, Lineage]) -> Iterator[PlanItem]:
        """What becomes of the key, and of the stores."""
        operator = operator_name(self.new)
        one, other = (
            ", ".join(f"{field['name']} {field['type']}" for field in record.key["fields"])
            for record in (self.was, self.now)
        )
        if one != other:
            text = f"it was {one}, and is {other}: the query does not start on pages that were "
            text += "chosen by another key"
            yield PlanItem(f"{operator} key", "cannot", text, operator)
        yield from compare_stores(self.was.stores, self.now.stores, lineages, operator)
        left_out = self.was.with_complements
        for store, text in self.expiring():
            name = f"{store} time to live"
            if left_out:
                yield PlanItem(name, "cannot", text + _left_out(left_out), operator)
            else:
                yield PlanItem(name, "rewrite", text, operator)

    def expiring(self) -> Iterator[tuple[str, str]]:
        """Each store whose values expire in the state alone, or by the code alone, in words."""
        words = {True: "expire", False: "do not expire"}
        for store in self.now.stores:
            one, other = store in self.was.expiring, store in self.now.expiring
            if store in self.was.stores and one != other:
                text = f"its values {words[one]} in the state, and {words[other]} by the code: the "
                yield store, f"{text}query does not start"


@dataclass(frozen=True)
class ComparedPages:
    """The operators that are on pages in a checkpoint, in new code, or in both.

    ``records`` are the checkpoint's, by the operators' names on pages, and ``changes`` say where
    pages differ. ``pairs`` have the operators that the code has on pages, and ``outside`` those
    that leave their pages, with the variables that they get, both by Spark's numbers. ``gone`` are
    the backfill sources that go with pages. ``is_alone`` is as `PagesChange` has it.
    """

    records: Mapping[str, PagesRecord]
    changes: tuple[PagesChange, ...]
    pairs: Mapping[int, _PagedPair]
    outside: Mapping[int, OperatorShape]
    gone: frozenset[str]
    is_alone: bool

    @classmethod
    def of(
        cls,
        files: Files,
        shape: CheckpointShape,
        found: Probed,
        lineages: Mapping[str, Lineage],
        spark: Spark,
    ) -> ComparedPages:
        """Those of a checkpoint, and of what was ``found`` of the code."""
        known = records_at(files, shape.batch)
        changes = pages_changes(shape, found, known)
        after = {each.number: each for each in found.shape.operators}
        pairs = {}
        for each in shape.operators:
            new = after.get(each.number)
            now = None if new is None else found.pages.get(name_on_pages(new) or "")
            if new is None or now is None or name_on_pages(new) is None:
                continue
            was = name_on_pages(each)
            if was is None and kind_of(each.name).has_variables:
                session = session_of(spark, files.location)
                made = record_of_variables(files, each, shape, lineages, session)
                pairs[each.number] = _PagedPair(each, new, made, now)
            elif was in known:
                pairs[each.number] = _PagedPair(each, new, known[was], now)
        leaving = [each for each in changes if each.goes_out and each.was in known]
        outside = {
            each.operator.number: operator_with(
                known[each.was or ""],
                each.operator,
                shape.conf,
                session_of(spark, files.location),
            )
            for each in leaving
        }
        gone = _gone(files, shape.offsets[shape.batch].offsets, leaving)
        return cls(known, changes, pairs, outside, gone, is_only_processor(shape))

    @property
    def through_variables(self) -> tuple[PagesChange, ...]:
        """All changes if one of them takes a rewrite of variables for new code; otherwise none.

        That is so for values that expire in the state alone or by the code alone, for timers that
        are to go by another clock, and for a function's state. An operator whose pages stay as they
        are is a change too, out of them and into them again.
        """
        known = {each.operator.number: each for each in self.changes}
        found = {
            number: known.get(number) or self._unchanged(each.old)
            for number, each in self.pairs.items()
            if each.has_other_clock or any(each.expiring())
        }
        is_needed = found or any(each.is_function for each in self.changes)
        return tuple({**known, **found}.values()) if is_needed else ()

    def _unchanged(self, operator: OperatorShape) -> PagesChange:
        name = name_on_pages(operator)
        held = 0 if name is None else self.records[name].pages
        return PagesChange(operator, name, name, held, None, self.is_alone)

    def offsets(self, offsets: Offsets) -> Offsets:
        """The checkpoint's sources, without those that go."""
        lines = zip(offsets.by_source, offsets.lines, strict=True)
        return replace(offsets, lines=tuple(line for name, line in lines if name not in self.gone))

    def sources(self, sources: NewSources) -> NewSources:
        """The code's sources, without the backfill sources of operators that come into pages."""
        extra = [] if sources.named else [n for n in sources.names if n not in sources.inputs]
        count = sum(each.goes_in for each in self.changes)
        added = extra[len(extra) - min(count, len(extra)) :]
        return replace(sources, names=tuple(n for n in sources.names if n not in added))

    def operators(
        self, old: Sequence[OperatorShape], new: Sequence[OperatorShape]
    ) -> tuple[list[OperatorShape], list[OperatorShape]]:
        """The operators as Spark's types are compared: without what `items` compares."""
        old = [self.outside.get(each.number, each) for each in old]
        one, other = ([self._without_pages(each) for each in side] for side in (old, new))
        return one, other

    def _without_pages(self, operator: OperatorShape) -> OperatorShape:
        return replace(operator, stores=()) if operator.number in self.pairs else operator

    @property
    def is_refused(self) -> bool:
        """Whether `rewrite` refuses one of the changes, as its stores have complements."""
        return any(map(self._complements, (*self.changes, *self.through_variables)))

    def _complements(self, change: PagesChange) -> tuple[str, ...]:
        """The stores of an operator whose pages change, of those that have complements."""
        pair = self.pairs.get(change.operator.number)
        record = self.records.get(change.was or "") if pair is None else pair.was
        return () if record is None else record.with_complements

    def items(self, lineages: Mapping[str, Lineage]) -> Iterator[PlanItem]:
        """What becomes of pages, and of the stores in them."""
        for change in self.changes:
            yield _item(change, self._complements(change))
        changed = {each.operator.number for each in self.changes}
        for change in self.through_variables:
            complements = self._complements(change)
            if complements and change.operator.number not in changed:
                text = "a rewrite takes its state out of its pages and into them again"
                text += _left_out(complements)
                yield PlanItem(change.name, "cannot", text, operator_name(change.operator))
        for pair in self.pairs.values():
            yield from pair.items(lineages)


def _gone(files: Files, offsets: Offsets, leaving: Iterable[PagesChange]) -> frozenset[str]:
    """The backfill sources of operators that leave their pages."""
    gone: set[str] = set()
    for each in leaving:
        chunks = ChunkFiles(files, each.was, reading=True)
        if not offsets.named and has_control_source(chunks, offsets):
            # Those that have taken nothing are like each other.
            left = [name for name in control_sources(chunks, offsets) if name not in gone]
            gone |= {*left[-1:]}
    return frozenset(gone)


def _item(change: PagesChange, complements: Sequence[str]) -> PlanItem:
    # Without its pages, the variables that are there are others: Spark would delete them.
    end = "the query would begin without it" if change.goes_out else "the query does not start"
    text = f"the checkpoint has the state in {change.found}, and the code in {change.wanted}: {end}"
    if not complements:
        return PlanItem(change.name, "rewrite", text, operator_name(change.operator))
    return PlanItem(
        change.name, "cannot", text + _left_out(complements), operator_name(change.operator)
    )


def _left_out(complements: Sequence[str]) -> str:
    return (
        f". The complements of {', '.join(complements)} do not come along in a rewrite: leave the "
        "code as it is, or run the old code once with migrated(..., complement=False)"
    )


# The rewrites that pages need, as steps.


def change_steps(
    changes: Iterable[PagesChange], checkpoint: str, costs: StateCosts | None, again: str = ""
) -> Iterator[PlanStep]:
    """The rewrites of a query that is stopped, each with a check; the code starts on the last.

    ``again`` are the options of `plan` where something else is to be done for that one.
    """
    yield PlanStep("Stop the query")
    last = checkpoint
    for number, each in enumerate(changes, 2):
        old, last = last, f"{checkpoint}-{number}"
        yield from _rewrite(each.step, old, last, each.options, costs)
    if again:
        yield PlanStep("Look at what is left to do", f"statemigrate plan {argument(last)}{again}")
    else:
        yield PlanStep(f"Start the new code on {last}")


def steps_outside(
    changes: Sequence[PagesChange], checkpoint: str, costs: StateCosts | None
) -> Iterator[PlanStep]:
    """The same for what only a rewrite of variables changes: out of pages, and into them again."""
    yield PlanStep("Stop the query")
    leaving = [replace(each, now=None) for each in changes if each.was is not None]
    coming = [
        replace(each, was=None, held=0, asked=each.asked or each.held)
        for each in changes
        if each.now is not None
    ]
    last, number = checkpoint, 1
    for change in (*leaving, None, *coming):
        number += 1
        old, last = last, f"{checkpoint}-{number}"
        if change is not None:
            yield from _rewrite(change.step, old, last, change.options, costs)
        else:
            yield PlanStep(
                "Write the new code without pages for once, as `transformWithState`, and answer "
                "what a rewrite for it asks",
                f"statemigrate rewrite {argument(old)} {argument(last)} --code MODULE:FUNCTION",
            )
            options = "--code MODULE:FUNCTION"
            yield from _rewrite(
                "Make a new checkpoint, with the answers", old, last, options, costs
            )
    yield PlanStep(f"Start the new code on {last}")


def _rewrite(
    text: str, old: str, new: str, options: str, costs: StateCosts | None
) -> Iterator[PlanStep]:
    command = f"statemigrate rewrite {argument(old)} {argument(new)}"
    seconds = (None, None) if costs is None else (costs.rewrite, costs.verify)
    yield PlanStep(text, f"{command} {options} --apply", seconds[0])
    yield PlanStep("Compare it with the old one", f"{command} --verify", seconds[1])
