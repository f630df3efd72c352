"""The new rows made again from the old ones, by the same functions, and held against the new state.

So it is seen that a script was edited since, or gives another result each time.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators import (
    INDEX_TO_VALUE,
    NUM_VALUES,
    TS_TO_VALUES,
    TS_WITH_KEY,
    CheckpointShape,
    OperatorShape,
    kind_of,
)
from statemigrate.errors import StatemigrateError, StorageError
from statemigrate.pages import is_large
from statemigrate.rewrite.arrow_types import row_type
from statemigrate.rewrite.checksums import hashes, summed, sums
from statemigrate.rewrite.column_pairing import FamilyAddress, store_families
from statemigrate.rewrite.family_plans import (
    ChangedFamily,
    ContinuedFamily,
    JoinedFamily,
    ScriptedFamily,
    changed_families,
    paged_families,
)
from statemigrate.rewrite.fields import StructChange, match_fields
from statemigrate.rewrite.matching import plan_families
from statemigrate.rewrite.partitioning import partition_of
from statemigrate.rewrite.questions import RewriteAnswers, plain_start
from statemigrate.rewrite.record import FieldSource, field_sources
from statemigrate.rewrite.rewrite_report import Checksum, FamilyReport, RewriteReport
from statemigrate.rewrite.script_ways import RewriteScripts, Scripted
from statemigrate.rewrite.spark_reader import RowReader, StateReader
from statemigrate.rewrite.transform import Changes, unwrapped, wrapped_again
from statemigrate.rewrite.verify_findings import Found, LoadedState, MadePages, ScriptsAgain

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


# The rows of an aggregation made again by Spark's own expressions, function by function.


@dataclass(frozen=True)
class FunctionsAgain(ContinuedFamily):
    """A family whose aggregate functions a report has in a ``document``; its ``key`` is matched."""

    key: StructChange
    document: Mapping[str, Any]


def rows_by_functions(
    rows: DataFrame, plan: FunctionsAgain, answers: Sequence[Mapping[str, str]]
) -> DataFrame:
    """The new rows of a family, of its old ``rows``, by the functions in its document.

    Raises `RewriteError` where the report does not say what a function goes on with.
    """
    from pyspark.sql import functions as F  # noqa: N812

    sources = {each.label: each for each in field_sources(plan.name, plan.document, answers)}
    content, new = row_type(plan.new.family.content), plan.new.family
    values = [
        _column(sources.get(field.name, FieldSource(field.name, field.name)), field, plan.name)
        for field in content
    ]
    keys = [
        F.col("key").getField(change.source).cast(field.dataType).alias(field.name)
        for change, field in zip(plan.key.fields, row_type(new.key), strict=True)
    ]
    made = unwrapped(rows, plan.old.family)
    others = [name for name in made.columns if name not in ("key", "value")]
    return wrapped_again(
        made.select(F.struct(*keys).alias("key"), F.struct(*values).alias("value"), *others), new
    )


def _column(source: FieldSource, field: Any, store: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if source.old is None:
        spark = copy.deepcopy(field.dataType.jsonValue())
        start = plain_start(f"{store}.{source.label}", spark, source.start)
        return F.lit(start).cast(field.dataType).alias(field.name)
    old = F.col("value").getField(source.old)
    match source.computes:
        case "isEmpty":
            made = old.isNull()
        case "sum":
            made = F.coalesce(old.cast(field.dataType), F.lit(0).cast(field.dataType))
        case _:
            made = old.cast(field.dataType)
    return made.alias(field.name)


FamilyAgain = FunctionsAgain | ChangedFamily
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
        """What comes out of each family that has old rows, and what was written of it."""
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
        old = {
            (number, name): each
            for each in self.before.operators
            for name, _ in store_families(each)
            # An older report does not say which operator it was.
            for number in (None, each.number)
        }
        for new in self.after.operators:
            names = {name for name, _ in store_families(new)}
            families = [
                each
                for each in self.report.families
                if each.name in names
                and each.operator in (None, new.number)
                and each.read is not None
                and {(each.old_operator, name) for name in each.read_of} <= {*old}
            ]
            if families:
                # Their rows are counted with the pages that they belong to.
                is_made = self.pages is not None and self.pages.are_of(new)
                large_values = [
                    each
                    for each in (self.report.families if is_made else ())
                    if is_large(each.name) and each.name in names
                ]
                first = families[0]
                begun = old[first.old_operator, next(iter(first.read_of))]
                yield begun, new, [*families, *large_values]

    def _of_operator(
        self, old: OperatorShape, new: OperatorShape, families: Mapping[str, FamilyReport]
    ) -> Iterator[Found]:
        sources = {name for family in families.values() for name in family.read_of}
        found = self.scripts.scripts
        scripts = RewriteScripts(
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
            if plan.name in families:
                yield self._of_family(changes, plan, families[plan.name])

    def _plans(
        self, old: OperatorShape, new: OperatorShape, scripts: RewriteScripts
    ) -> Sequence[FamilyAgain]:
        if self.pages is not None and self.pages.are_of(new):
            kept = list(plan_families(old, old, {}, {}, RewriteScripts()))
            return changed_families(paged_families(kept, new, self.pages.record))
        plans = plan_families(old, new, self.report.states, self._takes, scripts)
        return list(self._by_functions(old, new)) or changed_families(plans)

    def _by_functions(self, old: OperatorShape, new: OperatorShape) -> Iterator[FunctionsAgain]:
        """The families whose functions the report has: only their keys are matched here."""
        for name, place in store_families(new):
            document = self.report.functions.get(name)
            if document is not None:
                source = dict(store_families(old))[self._family(name).source]
                take = self._takes.get(name, {})
                key = match_fields(source.family.key, place.family.key, take, name)
                yield FunctionsAgain(name, place, source, key, document)

    def _family(self, name: str) -> FamilyReport:
        return next(each for each in self.report.families if each.name == name)

    def _made(self, changes: Changes, plan: FamilyAgain) -> DataFrame:
        if not isinstance(plan, FunctionsAgain):
            return changes.rows(plan)
        rows = self.reader.rows(changes.old, plan.old)
        return rows_by_functions(rows, plan, self.report.answers)

    def _sums(self, changes: Changes, plan: FamilyAgain) -> dict[int, Checksum]:
        return _summed(self._made(changes, plan), changes.new, plan)

    def _of_family(self, changes: Changes, plan: FamilyAgain, family: FamilyReport) -> Found:
        try:
            made = self.state.whole(changes.old, partial(self._sums, changes, plan))
        except StorageError:
            raise
        except StatemigrateError as error:
            return self._failed(family.name, error)
        written = {number: each for number, each in family.written.items() if each.count}
        made_again = f"{_named(family, plan)}: {_checksum_text(sum(made.values(), Checksum()))}"
        edited = tuple(
            revision
            for name in self._scripted(family)
            for revision in self.scripts.edited.get(name, ())
        )
        if made == written:
            though = f"; revision {', '.join(edited)} was edited since" if edited else ""
            return Found(f"{made_again}{though}", "fine")
        return Found(
            f"{made_again}; written were {_checksum_text(family.total)}; {_why(plan, edited)}",
            "problem",
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
            each["name"]: json.loads(each["answer"])
            for each in self.report.answers
            if each["kind"] in ("start", "expiry")
        }

    @property
    def _takes(self) -> dict[str, dict[str, str | None]]:
        taken = {
            each["name"]: each["answer"] for each in self.report.answers if each["kind"] == "take"
        }
        return RewriteAnswers(start=self._starts, take=taken).take_by_store()


def _summed(rows: DataFrame, new: OperatorShape, plan: FamilyAgain) -> dict[int, Checksum]:
    placed = rows.select(partition_of(new, plan.new).alias("partition"), *hashes(rows.schema))
    found = placed.groupBy("partition").agg(*sums()).collect()
    return {row.partition: summed(row) for row in found}


def _named(family: FamilyReport, plan: FamilyAgain) -> str:
    script = _script(plan)
    by = "" if script is None else f", by its scripts to revision {script.path.target}"
    return f"{family.name} made again from the old rows{by}"


def _checksum_text(total: Checksum) -> str:
    return f"{total.count:,} rows, checksum {total.text}"


def _why(plan: FamilyAgain, edited: tuple[str, ...]) -> str:
    if edited:
        return f"the script of revision {', '.join(edited)} was edited since"
    if _script(plan) is None:
        return "another release of statemigrate or of Spark makes other rows"
    return "the scripts are as they were, so one of them gives another result each time"


def _script(plan: FamilyAgain) -> Scripted | None:
    return plan.script if isinstance(plan, ScriptedFamily | JoinedFamily) else None


# What a stream-stream join relies on: of each key as many rows as are counted, without a hole.


def join_problems(operator: OperatorShape, reader: StateReader) -> Iterator[tuple[str, bool]]:
    """For each side of a join a sentence, and whether its counts are right."""
    if not kind_of(operator.name).has_sides:
        return
    places = {_part(each): each for each in _family_addresses(operator)}
    for side in ("left", "right"):
        counts = places.get(f"{side}-{NUM_VALUES}")
        rows = places.get(f"{side}-{INDEX_TO_VALUE}")
        if counts is not None and rows is not None:
            wrong = _wrong(reader.rows(operator, counts), reader.rows(operator, rows))
            yield _described_join(operator, side, wrong)
        times, lists = (places.get(f"{side}-{part}") for part in (TS_WITH_KEY, TS_TO_VALUES))
        if times is not None and lists is not None:
            wrong = _wrong_lists(reader.rows(operator, times), reader.rows(operator, lists))
            yield _described_join(operator, side, wrong)


def _described_join(operator: OperatorShape, side: str, wrong: int) -> tuple[str, bool]:
    text = f"join-{operator.number}.{side}: {wrong:,} keys whose rows are not those counted"
    return text, wrong == 0


def _family_addresses(operator: OperatorShape) -> Iterator[FamilyAddress]:
    for store in operator.stores:
        for family in store.families:
            yield FamilyAddress(store, family)


def _part(place: FamilyAddress) -> str:
    return place.family.name if len(place.store.families) > 1 else place.store.name


def _wrong_lists(times: DataFrame, lists: DataFrame) -> int:
    """How many keys, with their times, have as many rows as the index says not."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType

    # What counts is a value for each row, or their number.
    is_list = isinstance(times.schema["value"].dataType, ArrayType)
    size = F.size("value") if is_list else F.col("value").getField("numValues")
    counted = times.select("key", size.alias("counted"))
    found = lists.select("key", F.size("value").alias("n"))
    pairs = found.join(counted, found["key"].eqNullSafe(counted["key"]), "full")
    return pairs.where(~F.coalesce(F.col("n") == F.col("counted"), F.lit(False))).count()


def _wrong(counts: DataFrame, rows: DataFrame) -> int:
    """How many keys have rows other than numbers 0 to n - 1, where n is what is counted."""
    from pyspark.sql import functions as F  # noqa: N812

    *columns, index = rows.select("key.*").columns
    at = F.col("key").getField(index)
    found = rows.groupBy(F.struct(*[F.col("key").getField(each) for each in columns]).alias("key"))
    ranges = found.agg(
        F.count("*").alias("n"), F.count_distinct(at).alias("different"), F.max(at).alias("last")
    )
    counted = counts.select("key", F.col("value").getField("value").alias("counted"))
    pairs = ranges.join(counted, ranges["key"].eqNullSafe(counted["key"]), "full")
    is_right = (
        (F.col("n") == F.col("counted"))
        & (F.col("different") == F.col("n"))
        & (F.col("last") == F.col("n") - 1)
    )
    return pairs.where(~F.coalesce(is_right, F.lit(False))).count()
