"""The new rows made again from the old ones, by the same functions, and held against the new state.

So it is seen that a script was edited since, or gives another result each time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.shapes import CheckpointShape, OperatorShape
from statemigrate.errors import StatemigrateError, StorageError
from statemigrate.pages.record import is_large
from statemigrate.rewrite.plan.asking.questions import RewriteAnswers
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.matching import plan_families
from statemigrate.rewrite.plan.paging import paged_families
from statemigrate.rewrite.plan.pairing.fields import match_fields
from statemigrate.rewrite.plan.pairing.places import families_of
from statemigrate.rewrite.plan.scripts import Scripts
from statemigrate.rewrite.rows.changing import Changes
from statemigrate.rewrite.rows.checksum import Checksum
from statemigrate.rewrite.rows.checksums import hashes, summed, sums
from statemigrate.rewrite.rows.columns import partition_of
from statemigrate.rewrite.rows.reading import RowReader
from statemigrate.rewrite.run.report import FamilyReport, RewriteReport
from statemigrate.rewrite.verifying.finding import Found
from statemigrate.rewrite.verifying.functions import rows_by_functions
from statemigrate.rewrite.verifying.loading import LoadedState
from statemigrate.rewrite.verifying.pages import MadePages
from statemigrate.rewrite.verifying.scripts import ScriptsAgain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Pair = tuple[OperatorShape, OperatorShape, list[FamilyReport]]


@dataclass(frozen=True)
class Derivation:
    """Makes the rows again that a ``report`` says were written, from the rows of ``reader``.

    ``state`` is where these rows are read.
    ``pages`` are those that the rewrite made, None where it made none.
    """

    report: RewriteReport
    before: CheckpointShape
    after: CheckpointShape
    reader: RowReader
    scripts: ScriptsAgain
    state: LoadedState
    pages: MadePages | None = None

    def found(self) -> Iterator[Found]:
        """What comes out of each family that has old rows, beside what was written of it."""
        for old, new, families in self._pairs():
            missing = self.scripts.missing
            untried = {
                each.name: missing[name]
                for each in families
                for name in self._scripted(each)
                if name in missing
            }
            for name, why in untried.items():
                yield Found(f"{name} was not made again from the old rows: {why}", "untried")
            open_ = {each.name: each for each in families if each.name not in untried}
            if open_:
                yield from self._of_operator(old, new, open_)

    def _pairs(self) -> Iterator[Pair]:
        """The operators that go on, old and new, with their families that have old rows."""
        old = {name: each for each in self.before.operators for name, _ in families_of(each)}
        for new in self.after.operators:
            names = {name for name, _ in families_of(new)}
            families = [
                each
                for each in self.report.families
                if each.name in names and each.read is not None and {*each.read_of} <= {*old}
            ]
            if families:
                # Whose rows are counted with the pages that they lie beside.
                is_made = self.pages is not None and self.pages.are_of(new)
                beside = [
                    each
                    for each in (self.report.families if is_made else ())
                    if is_large(each.name) and each.name in names
                ]
                yield old[next(iter(families[0].read_of))], new, [*families, *beside]

    def _of_operator(
        self, old: OperatorShape, new: OperatorShape, families: Mapping[str, FamilyReport]
    ) -> Iterator[Found]:
        sources = {name for family in families.values() for name in family.read_of}
        found = self.scripts.scripts
        scripts = Scripts(
            {name: each for name, each in found.old.items() if name in sources},
            {name: each for name, each in found.new.items() if name in families},
        )
        try:
            plans = self._plans(old, new, scripts)
        except StatemigrateError as error:
            yield self._failed(", ".join(families), error)
            return
        batch_time = self.before.offsets[self.before.batch].timestamp
        changes = Changes(self.reader, old, new, plans, self._starts, batch_time)
        for plan in plans:
            if plan.name in families and plan.sources:
                yield self._of_family(changes, plan, families[plan.name])

    def _plans(self, old: OperatorShape, new: OperatorShape, scripts: Scripts) -> list[FamilyPlan]:
        if self.pages is None or not self.pages.are_of(new):
            paired = list(self._by_functions(old, new))
            return paired or list(plan_families(old, new, self.report.states, self._takes, scripts))
        kept = tuple(plan_families(old, old, {}, {}, Scripts()))
        return list(paged_families(kept, new, self.pages.record))

    def _by_functions(self, old: OperatorShape, new: OperatorShape) -> Iterator[FamilyPlan]:
        """The families whose functions the report has: only their keys are matched here."""
        for name, place in families_of(new):
            if name in self.report.functions:
                source = dict(families_of(old))[self._family(name).source]
                take = self._takes.get(name, {})
                key = match_fields(source.family.key, place.family.key, take, name)
                yield FamilyPlan(name, place, source, key)

    def _family(self, name: str) -> FamilyReport:
        return next(each for each in self.report.families if each.name == name)

    def _made(self, changes: Changes, plan: FamilyPlan) -> DataFrame:
        document = self.report.functions.get(plan.name)
        if document is None or plan.old is None:
            return changes.rows(plan)
        rows = self.reader.rows(changes.old, plan.old)
        return rows_by_functions(rows, plan, document, self.report.answers)

    def _sums(self, changes: Changes, plan: FamilyPlan) -> dict[int, Checksum]:
        return _summed(self._made(changes, plan), changes.new, plan)

    def _of_family(self, changes: Changes, plan: FamilyPlan, family: FamilyReport) -> Found:
        try:
            made = self.state.whole(changes.old, partial(self._sums, changes, plan))
        except StorageError:
            raise
        except StatemigrateError as error:
            return self._failed(family.name, error)
        written = {number: each for number, each in family.written.items() if each.count}
        made_again = f"{_named(family, plan)}: {_said(sum(made.values(), Checksum()))}"
        edited = tuple(
            revision
            for name in self._scripted(family)
            for revision in self.scripts.edited.get(name, ())
        )
        if made == written:
            though = f"; revision {', '.join(edited)} was edited since" if edited else ""
            return Found(f"{made_again}{though}", "fine")
        return Found(
            f"{made_again}; written were {_said(family.total)}; {_why(plan, edited)}", "problem"
        )

    def _scripted(self, family: FamilyReport) -> set[str]:
        """The names under which the report has scripts that were run on a family."""
        of_new = {family.name} & {*self.report.scripts_of_new}
        return of_new | {*family.read_of} & {*self.report.scripts}

    def _failed(self, name: str, error: StatemigrateError) -> Found:
        return Found(
            f"{name} cannot be made again from the old rows: {error.summary} expected "
            f"{error.expected}, found {error.found}",
            "problem",
        )

    @property
    def _starts(self) -> dict[str, Any]:
        return {
            each["name"]: json.loads(each["said"])
            for each in self.report.answers
            if each["kind"] in ("start", "expiry")
        }

    @property
    def _takes(self) -> dict[str, dict[str, str | None]]:
        taken = {
            each["name"]: each["said"] for each in self.report.answers if each["kind"] == "take"
        }
        return RewriteAnswers(start=self._starts, take=taken).take_by_store()


def _summed(rows: DataFrame, new: OperatorShape, plan: FamilyPlan) -> dict[int, Checksum]:
    placed = rows.select(partition_of(new, plan.new).alias("partition"), *hashes(rows.schema))
    found = placed.groupBy("partition").agg(*sums()).collect()
    return {row.partition: summed(row) for row in found}


def _named(family: FamilyReport, plan: FamilyPlan) -> str:
    by = "" if plan.script is None else f", by its scripts to revision {plan.script.path.target}"
    return f"{family.name} made again from the old rows{by}"


def _said(total: Checksum) -> str:
    return f"{total.count:,} rows, checksum {total.text}"


def _why(plan: FamilyPlan, edited: tuple[str, ...]) -> str:
    if edited:
        return f"the script of revision {', '.join(edited)} was edited since"
    if plan.script is None:
        return "another release of statemigrate or of Spark makes other rows"
    return "the scripts are as they were, so one of them gives another result each time"
