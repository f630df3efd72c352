"""The start-up check of pages (rule 10): code, scripts, record and committed pages compared."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from statemigrate.deployment import (
    SETTINGS,
    Declared,
    DeploymentSettings,
    StoredStore,
    StoreFacts,
    StorePlan,
    applied_scripts,
    check_expiry,
    is_family_of,
)
from statemigrate.errors import CorruptFileError, PageError, StartupError, StatemigrateError
from statemigrate.files import RESTORE_COPY, Remembered, open_files
from statemigrate.formats.struct import quoted
from statemigrate.migration import Lineage
from statemigrate.native import (
    MigrationCounts,
    ObservedCheckpoint,
    SparkCheckpoint,
    Which,
    is_pages,
    name_in,
    paged_names,
)
from statemigrate.pages.columns import PageId
from statemigrate.pages.deployed_pages import PagedDeployment, PagedHandle, TimeMode
from statemigrate.pages.packed_rows import BUCKET, PACKED, arrow_schema, pack, under_plain_names
from statemigrate.pages.page import LARGEST, Page
from statemigrate.pages.page_families import fingerprint
from statemigrate.pages.record import (
    VARIABLE,
    LastReading,
    PagesRecord,
    read_pages_record,
    record_name,
    variable_of,
)
from statemigrate.pages.visit import key_fingerprint
from statemigrate.processor import Start, check_names, is_by_table, struct_of
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession


# What the committed pages of a checkpoint hold: every page is read, as none unseen is empty.


_COLUMNS = (
    "family STRING, format BINARY, error STRING, pages BIGINT, largest BIGINT, entries BIGINT"
)


@dataclass(frozen=True)
class PagesSummary:
    """What pages hold.

    ``families`` has, by family with an entry in any page, the fingerprints of the formats of its
    values; ``pages`` are those with an entry, and ``largest`` the bytes of the largest one.
    """

    families: Mapping[str, set[bytes]]
    pages: int = 0
    largest: int = 0
    entries: int = 0


def contents_of_pages(pages: DataFrame, number: int, keys: bytes) -> PagesSummary:
    """What committed pages hold, read where they are. Raises `PageError`.

    ``pages`` are rows of the state reader, ``number`` is how many there are of them at most.
    """
    frame = pages.selectExpr(f"key.{BUCKET} AS number", "value.page AS page")
    rows = frame.mapInArrow(partial(_surveyed, pages=number, keys=keys), _COLUMNS).collect()
    families: dict[str, set[bytes]] = {}
    for row in rows:
        if row.error is not None:
            raise StatemigrateError.from_json(json.loads(row.error))
        if row.family is not None:
            families.setdefault(row.family, set()).add(bytes(row.format))
    summaries = [row for row in rows if row.family is None]
    count, entries = (sum(row[at] for row in summaries) for at in ("pages", "entries"))
    largest = max((row.largest for row in summaries), default=0)
    return PagesSummary(families, count, largest, entries)


def _surveyed(batches: Iterator[Any], *, pages: int, keys: bytes) -> Iterator[Any]:
    import pyarrow as pa

    found: set[tuple[str, bytes]] = set()
    errors: set[str] = set()
    sizes, entries = [], 0
    for batch in batches:
        for number, data in zip(*(each.to_pylist() for each in batch.columns), strict=True):
            try:
                page = Page(PageId(pages, number, keys), data)
            except PageError as error:
                errors.add(json.dumps(error.to_json()))
            else:
                found |= set(page.formats.items())
                sizes.append(page.size)
                entries += sum(page.counts.values())
    rows = [
        {"pages": len(sizes), "largest": max(sizes, default=0), "entries": entries},
        *({"family": name, "format": kind} for name, kind in found),
        *({"error": error} for error in errors),
    ]
    yield pa.RecordBatch.from_pylist(rows, arrow_schema(struct_of(_COLUMNS)))


# How many pages: whether those that a query starts with are too few or too many.


_log = logging.getLogger("statemigrate.pages")
_FEW = 4
"""Entries of an average page below which a page spares little."""
_NEAR = 4
"""How many times as large the largest page may still become where there are too few of them."""
_SOME = 64
"""Pages from which on there are too many of them, however few entries there are yet."""


def warn_of_size(held: PagesSummary, number: int, path: str) -> None:
    """Warn in the log of pages that may soon be too large, or have hardly any entries."""
    if held.largest > LARGEST // _NEAR:
        _log.warning(
            "%s has too few pages: the largest has %d MiB, and none may have more than %d; stop "
            "the query and `statemigrate rewrite %s NEW --pages %s --apply` before that",
            *(path, held.largest >> 20, LARGEST >> 20, argument(path), argument(_NEAR * number)),
        )
    elif held.pages and number >= _SOME and held.entries / held.pages < _FEW:
        _log.warning(
            "%s has many pages for what is in them: %.1f entries on average in %d of %d pages, so "
            "that a page is hardly cheaper than its entries by themselves; take the number of "
            "keys that there will be divided by 250",
            *(path, held.entries / held.pages, held.pages, number),
        )


def number_missing(path: str) -> StartupError:
    """The error for a new checkpoint without a number of pages."""
    return StartupError(
        "SM-PAGES-034",
        f"the checkpoint {path} is new and needs the number of its pages",
        expected="pages=, a whole number",
        found="no number, and no checkpoint that has one",
        next_action="take the number of keys that there will be divided by 250, but not more than "
        "a tenth of the keys of a batch: `statemigrate status CHECKPOINT` counts those of a query "
        "that is there; after the first start the number may be left out",
        path=path,
    )


def checked(  # noqa: PLR0913 - all but one by name
    processor: Any,
    *,
    spark: SparkSession,
    checkpoint: str,
    pages: int | None,
    key: StructType,
    key_columns: tuple[int, ...],
    output: StructType,
    time_mode: TimeMode,
    operator: str = "",
) -> PagedDeployment:
    """The deployment of a processor; without ``pages`` of as many as the checkpoint was begun with.

    ``operator`` is the name of the operator, empty where it has none. Raises `StartupError` where
    code, scripts and state differ.
    """
    settings: DeploymentSettings = getattr(processor, SETTINGS, DeploymentSettings())
    files = Remembered(open_files(checkpoint, spark))
    called = partial(ObservedCheckpoint.at, checkpoint, files)
    observed = called(of="stateful") if settings.call == "stateful" else called(of="paged")
    which = _which(operator, settings, files)
    state = SparkCheckpoint(observed.checkpoint, spark, operator=which, files=files)
    state.check_provider()
    state.check_not_moved()
    by_table = is_by_table(processor)
    handle = partial(PagedHandle, time_mode=time_mode, by_table=by_table)
    start = Start.of(processor, handle, spark)
    if by_table:
        check_names(start.declared, key.fieldNames())
    if observed.is_something:
        _check_operator(state, operator, None if operator else settings.operator)
    left = record_of(state, pages) if observed.is_something else None
    number = _number(pages, left, state, operator)
    if left is not None:
        _check_location(left, number, key, state.path)
    plans, reading = _Checking(state, observed, left, start).plans()
    own = {store: plan.stored() for store, plan in plans.items()}
    expiring = {each.store for each in start.declared if each.ttl}
    record = PagesRecord(
        number,
        key.jsonValue(),
        {**({} if left is None else left.stores), **own},
        observed.deployment,
        (frozenset() if left is None else left.expiring).difference(own) | expiring,
        reading,
    )
    counts = MigrationCounts.of_session()
    note = start.note(plans, operator=operator)
    there = left or read_pages_record(files, record_name(operator))
    before = None if there is None else there.deployment
    parts = key, key_columns, output, plans, settings, observed, record, note, before
    return PagedDeployment(*parts, time_mode, counts, operator)


@dataclass(frozen=True)
class _Checking:
    """What is compared: code, scripts and what pages have, as was read now or is known."""

    state: SparkCheckpoint
    observed: ObservedCheckpoint
    left: PagesRecord | None
    start: Start

    def plans(self) -> tuple[dict[str, StorePlan], LastReading | None]:
        """The plan of each store, and the reading of pages that it goes by."""
        if self.left is None:
            return self.start.plans({}), None
        known = self._known()
        if known is not None:
            return known
        key = StructType.fromJson(dict(self.left.key))
        held = contents_of_pages(pages_in(self.state), self.left.pages, key_fingerprint(key))
        warn_of_size(held, self.left.pages, self.state.path)
        plans = self.start.plans(self._stored(held.families))
        assert self.observed.query is not None, "something is committed"  # noqa: S101
        reading = LastReading(self.observed.query, self.observed.batch, frozenset(held.families))
        return plans, _with_targets(reading, plans)

    def _known(self) -> tuple[dict[str, StorePlan], LastReading] | None:
        """The plans without reading a page, where an earlier start has read them.

        None unless no page can have an older family: then pages are read, as each start sees
        whether one is drained. They are read too before anything is refused.
        """
        assert self.left is not None  # noqa: S101 - the caller asked
        reading = self.left.reading
        if reading is None or not reading.is_good_for(self.observed.query, self.observed.batch):
            return None
        recorded = (each for store in self.left.stores.values() for each in store.every_family)
        known = {each.name: {fingerprint(each.format)} for each in recorded}
        if any(self._is_declared(name) for name in reading.families - known.keys()):
            return None
        held = {name: known[name] for name in reading.families & known.keys()}
        try:
            plans = self.start.plans(self._stored(held))
        except StatemigrateError:
            return None
        if any(plan.sources for plan in plans.values()):
            return None
        return plans, _with_targets(reading, plans)

    def _is_declared(self, name: str) -> bool:
        return any(is_family_of(each.store, name) for each in self.start.declared)

    def _stored(self, held: Mapping[str, set[bytes]]) -> Mapping[str, StoredStore]:
        assert self.left is not None  # noqa: S101 - the callers asked
        stored = stored_in(self.left, held, self.start.lineages, self.state.path)
        _check_expiry(self.start.declared, stored, self.left)
        return stored


def _with_targets(reading: LastReading, plans: Mapping[str, StorePlan]) -> LastReading:
    """The reading, good also once these plans have run."""
    targets = {plan.target.name for plan in plans.values()}
    targets |= {plan.complement.name for plan in plans.values() if plan.complement is not None}
    return replace(reading, families=reading.families | targets)


def _which(operator: str, settings: DeploymentSettings, files: Remembered) -> Which:
    """The operator that code means: where the checkpoint has none on pages yet, any may be it."""
    if operator or settings.operator is None:
        return operator if paged_names(files) else None
    return settings.operator


def _check_operator(state: SparkCheckpoint, operator: str, number: int | None) -> None:
    """Raise `StartupError` where the checkpoint has operators on pages, and none of this name.

    ``number`` is Spark's, where the processor's `migrated` says it.
    """
    numbers = paged_names(state.files)
    names = sorted(numbers.values())
    if not names or (operator in names and number in (None, _number_of(operator, numbers))):
        return
    known = " or ".join(f"operator={name!r}" if name else "no operator=" for name in names)
    raise StartupError(
        "SM-PAGES-036",
        f"the query of {state.path} has no operator on pages "
        + (f"named {operator}" if operator else "without a name"),
        expected=known,
        found=f"operator={operator!r}" if operator else "no operator=",
        next_action=f"give each `paged` the name that it was begun with, {known}: another one "
        f"is a rewrite of the stopped query: `statemigrate rewrite {argument(state.path)} NEW "
        "--pages N --paged-operator OLD=NAME --apply`, where OLD is the number or name of before",
        path=state.path,
        operators=names,
    )


def _number_of(operator: str, names: Mapping[int, str]) -> int | None:
    return next((number for number, name in names.items() if name == operator), None)


def _number(
    pages: int | None, left: PagesRecord | None, state: SparkCheckpoint, operator: str
) -> int:
    if pages is not None:
        return pages
    # There may have been a start, and no batch.
    known = left or read_pages_record(state.files, record_name(operator))
    if known is None:
        raise number_missing(state.path)
    return known.pages


def _asked(pages: int | None) -> str:
    return "N" if pages is None else str(pages)


def record_of(state: SparkCheckpoint, pages: int | None = None) -> PagesRecord:
    """What a checkpoint of paged state says of its pages; code wants so many of them.

    Raises `StartupError` for state of another kind, and `CorruptFileError` where it says nothing.
    """
    variables = state.variables()
    if not any(map(is_pages, variables)):
        state.check_operator([VARIABLE])
        raise StartupError(
            "SM-PAGES-029",
            f"the checkpoint {state.path} is not one of paged state",
            expected=f"the state variable {VARIABLE}",
            found=", ".join(sorted(variables)) or "no state variable",
            next_action=f"stop the query and `statemigrate rewrite {argument(state.path)} NEW "
            f"--pages {argument(_asked(pages))} --apply`, which makes a checkpoint NEW with the "
            "same state in pages; if it is not the checkpointLocation of this query, correct "
            "checkpoint= of paged",
            path=state.path,
        )
    name = record_name(name_in(variables))
    record = read_pages_record(state.files, name)
    if record is None:
        raise CorruptFileError(
            "SM-PAGES-002",
            f"{state.path} has pages of state, and not the record of what is in them",
            expected=name,
            found="no such file",
            next_action=RESTORE_COPY,
            path=state.path,
        )
    return record


def pages_in(state: SparkCheckpoint) -> DataFrame:
    """The pages of the operator that is meant, as Spark's reader has them."""
    return state.frame(variable_of(name_in(state.variables())))


def _check_location(record: PagesRecord, pages: int, key: StructType, path: str) -> None:
    if record.pages != pages:
        raise StartupError(
            "SM-PAGES-030",
            f"the checkpoint {path} has another number of pages",
            expected=f"{record.pages} pages, as it was begun with",
            found=f"pages={pages}",
            next_action=f"pass pages={record.pages}, or leave it out; for another number stop the "
            f"query and `statemigrate rewrite {argument(path)} NEW --pages {argument(pages)} "
            "--apply`",
            path=path,
        )
    columns = [(field["name"], field["type"]) for field in record.key["fields"]]
    given = [(field.name, field.dataType.jsonValue()) for field in key.fields]
    if columns != given:
        raise StartupError(
            "SM-PAGES-031",
            f"the checkpoint {path} has another grouping key",
            expected=", ".join(f"{name} {kind}" for name, kind in columns),
            found=", ".join(f"{name} {kind}" for name, kind in given),
            next_action="group by the same columns, with the same names and types, in by=; for "
            f"other keys stop the query and `statemigrate rewrite {argument(path)} NEW --no-pages "
            "--apply`, whose state another rewrite gives other keys, with a script that has "
            "`rekey`, and a third puts into pages",
            path=path,
        )


def _check_expiry(
    declared: Sequence[Declared], stored: Mapping[str, StoredStore], record: PagesRecord
) -> None:
    for each in declared:
        if each.store in stored:
            expires = each.store in record.expiring
            families = {family.name: expires for family in stored[each.store].families}
            check_expiry(each, StoreFacts(expires=families))


def stored_in(
    record: PagesRecord,
    held: Mapping[str, set[bytes]],
    lineages: Mapping[str, Lineage],
    path: str,
) -> dict[str, StoredStore]:
    """By store, the families that pages have entries of; a store without any is left out.

    The scripts that were applied are those that led to them. Raises as `check_recorded`.
    """
    check_recorded(record, held, path)
    found = {}
    for name, store in record.stores.items():
        families = [each for each in store.families if each.name in held]
        if families:
            marked = tuple(replace(each, occupancy="something") for each in families)
            found[name] = _applied(replace(store, families=marked), lineages.get(name))
    return found


def _applied(store: StoredStore, lineage: Lineage | None) -> StoredStore:
    if lineage is None:
        return store
    return replace(store, applied=applied_scripts(lineage, store.families, store.applied))


def check_recorded(record: PagesRecord, held: Mapping[str, set[bytes]], path: str) -> None:
    """Raise `CorruptFileError` where pages have entries that the record of them does not know."""
    known = {each.name: each for store in record.stores.values() for each in store.every_family}
    for name in sorted(held):
        if name in known:
            if held[name] != {fingerprint(known[name].format)}:
                raise _disagreeing(path, name, "values of another format than recorded")
        elif any(is_family_of(store, name) for store in record.stores):
            raise _disagreeing(path, name, "no such family in the record")


def _disagreeing(path: str, family: str, found: str) -> CorruptFileError:
    return CorruptFileError(
        "SM-PAGES-032",
        f"the pages in {path} and the record of them disagree about {family}",
        expected="every family that a page has, with its format, in the record",
        found=found,
        next_action=RESTORE_COPY,
        path=path,
        family=family,
    )


# The initial state of a paged query: Spark's grouped frame, brought to the pages of its keys.


@dataclass(frozen=True)
class InitialState:
    """Rows of a frame, packed and grouped by page: of columns ``names``, the key's among them."""

    grouped: GroupedData | None
    key_columns: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


def initial_state(grouped: Any, key: StructType, pages: int) -> InitialState:
    """The initial state that ``grouped`` has, a frame grouped as the stream is; None has none.

    Raises `StartupError` for what is no such frame.
    """
    from pyspark.sql import GroupedData

    if grouped is None:
        return InitialState(None)
    if not isinstance(grouped, GroupedData):
        raise _ungrouped(type(grouped).__qualname__, key)
    frame: DataFrame = grouped._df
    # No interface tells what a frame is grouped by; what is made of it begins with that.
    names = grouped.count().columns[:-1]
    types = [frame.schema[name].dataType if name in frame.columns else None for name in names]
    if types != [field.dataType for field in key.fields]:
        raise _ungrouped(f"grouped by {', '.join(names)}, of {frame.schema.simpleString()}", key)
    positions = tuple(frame.columns.index(name) for name in names)
    packed = with_bucket(frame, positions, pages).mapInArrow(pack, PACKED)
    return InitialState(packed.groupBy(BUCKET), positions, tuple(frame.columns))


def with_bucket(frame: DataFrame, key_columns: Sequence[int], pages: int) -> DataFrame:
    """The frame, its columns under names that PySpark can look up, and the page of each row's key.

    The page is in the last column.
    """
    from pyspark.sql import functions

    plain = under_plain_names(frame)
    keys = [functions.col(quoted(plain.columns[at])) for at in key_columns]
    bucket = functions.pmod(functions.hash(*keys), functions.lit(pages))
    return plain.withColumn(BUCKET, bucket)


def _ungrouped(found: str, key: StructType) -> StartupError:
    return StartupError(
        "SM-PAGES-033",
        "the initial state is not grouped as the stream is",
        expected=f"a frame grouped by columns of the types {key.simpleString()}",
        found=found,
        next_action="group it by the same columns: initialState=frame.groupBy(...)",
    )
