"""The plan of a rewrite that takes state into pages, out of them, or into another number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.catalogue import VARIABLES, kind_of, user_stores
from statemigrate.checkpoint.operators.shapes import (
    CheckpointShape,
    FamilyShape,
    OperatorShape,
    StoreShape,
)
from statemigrate.commands.rewriting.new_code import NewCode
from statemigrate.deployment import StoredStore
from statemigrate.errors import RewriteError, UnsupportedError
from statemigrate.files import Files
from statemigrate.files.documents.sealed import sealed
from statemigrate.migration import Lineage
from statemigrate.native.backfill.chunk_files import CHUNKS, MADE, ChunkFiles
from statemigrate.native.backfill.presence import has_control_source
from statemigrate.native.seen.record import RECORD as DEPLOYED
from statemigrate.native.seen.record import StoreRecord, record_document
from statemigrate.pages.record import RECORD, VARIABLE, PagesRecord, read_record
from statemigrate.processor.keys.grouping import check_grouping
from statemigrate.rewrite.plan.asking.questions import RewriteAnswers
from statemigrate.rewrite.plan.laying_out import laid_out
from statemigrate.rewrite.plan.options import RewriteOptions
from statemigrate.rewrite.plan.paging import WRITTEN, Layout, Paging
from statemigrate.rewrite.plan.plan import RewritePlan, make_plan
from statemigrate.rewrite.plan.sources import NewSources
from statemigrate.rewrite.probe.variables import operator_with, operator_with_pages
from statemigrate.state.opening import open_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_LEFT = (RECORD, DEPLOYED, "statemigrate/control/")
"""What tells of the old state alone: a backfill goes by keys, or by pages, that are not there."""


def paging_plan(
    old: Files,
    shape: CheckpointShape,
    options: RewriteOptions,
    answers: RewriteAnswers | None,
    target: NewCode,
    lineages: Mapping[str, Lineage],
    spark: SparkSession,
) -> RewritePlan:
    """The plan of a rewrite with ``options.pages``; 0 of them are variables of Spark's.

    Values, families and timers stay as they are, and no script is run. Raises `RewriteError` for
    code that is to change at the same time and for what is in so many pages already, and
    `UnsupportedError` for state that is none of ``transformWithState``.
    """
    _check_target(target)
    operator = _processor(shape)
    paged = VARIABLE in user_stores(operator)
    record = _recorded(old) if paged else _made(old, operator, lineages, spark)
    _check_new(record if paged else None, options.pages, old)
    conf = options.pinned(shape.conf)
    logical = operator_with(record, operator, shape.conf, spark) if paged else operator
    sources, options = _sources(old, shape, options)
    layout = Layout(
        operator.number,
        Paging(record, operator) if paged else Paging(),
        _new_paging(record, operator, options.pages or 0, conf, spark, paged=paged),
        left=_LEFT,
    )
    layout = replace(layout, files=_files(layout, record, shape.batch))
    operators = tuple(logical if each is operator else each for each in shape.operators)
    viewed = replace(shape, operators=operators)
    return laid_out(make_plan(viewed, None, options, answers, None, sources), layout)


def _new_paging(
    record: PagesRecord,
    operator: OperatorShape,
    pages: int,
    conf: Mapping[str, str],
    spark: SparkSession,
    *,
    paged: bool,
) -> Paging:
    if not pages:
        return Paging()
    shape = operator if paged else operator_with_pages(operator, conf, spark)
    return Paging(replace(record, pages=pages, deployment="", reading=None), shape)


def _processor(shape: CheckpointShape) -> OperatorShape:
    processors = [each for each in shape.operators if kind_of(each.name) is VARIABLES]
    found = [each for each in processors if VARIABLE in user_stores(each)] or processors
    if len(found) != 1:
        raise UnsupportedError(
            "SM-PAGES-001",
            f"the query has {len(found)} transformWithState, and pages are for one",
            expected="a checkpoint with one transformWithState, whose variables pages keep",
            found=", ".join(each.name for each in shape.operators) or "no operator",
            next_action="the state of applyInPandasWithState becomes variables first: rewrite it "
            "for a processor, with --code, and then that checkpoint with --pages",
        )
    return found[0]


def _recorded(old: Files) -> PagesRecord:
    record = read_record(old)
    if record is None:
        raise RewriteError(
            "SM-PAGES-002",
            f"{old.location} has pages of state, and not the record of what is in them",
            expected=RECORD,
            found="no such file",
            next_action="restore the file from a copy of the checkpoint",
        )
    return record


def _made(
    old: Files, operator: OperatorShape, lineages: Mapping[str, Lineage], spark: SparkSession
) -> PagesRecord:
    """What pages would have of the state that Spark keeps by itself."""
    state = open_state(old.location, lineages, spark=spark)
    own = {name: each for name, each in state.stores.items() if name not in state.operator_stores}
    key = _without_metadata(state.key_of(next(iter(own), "")))
    check_grouping(key)
    families = user_stores(operator)
    expiring = {
        store
        for store, each in own.items()
        if any(_expires(families, family.name) for family in each.families)
    }
    return PagesRecord(0, key.jsonValue(), own, "", frozenset(expiring))


def _expires(families: Mapping[str, tuple[StoreShape, FamilyShape]], name: str) -> bool:
    return name in families and families[name][1].wrapping == "expiry"


def _without_metadata(key: StructType) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([type(f)(f.name, f.dataType, f.nullable) for f in key.fields])


def _check_target(target: NewCode) -> None:
    if target.code or target.like:
        raise RewriteError(
            "SM-PAGES-003",
            "the number of pages and the code are to change at once",
            expected="--pages or --no-pages without --code and --like: values stay as they are",
            found=f"the code {target.code or target.like}",
            next_action="leave it out; scripts change the values on the new checkpoint, while the "
            "query runs, or in a rewrite of its own",
        )


def _check_new(record: PagesRecord | None, pages: int | None, old: Files) -> None:
    held = 0 if record is None else record.pages
    if held == pages:
        raise RewriteError(
            "SM-PAGES-004",
            f"{old.location} is as it is to be",
            expected="another number of pages" if held else "state in pages",
            found=f"{held} pages" if held else "variables of Spark's, without pages",
            next_action="leave --pages and --no-pages out, or say another number",
        )


def _sources(
    old: Files, shape: CheckpointShape, options: RewriteOptions
) -> tuple[NewSources | None, RewriteOptions]:
    """The sources of the new code: a query of pages has the control source from its first day."""
    entry = shape.offsets[shape.batch].offsets
    names = tuple(entry.by_source)
    if entry.named:
        return None, options
    has_control = has_control_source(ChunkFiles(old.location), entry)
    told: dict[str, str | None] = {name: name for name in names}
    if options.pages and not has_control:
        added = str(len(names))
        new = NewSources(entry.named, (*names, added))
        offsets = {added: None, **options.offsets}
        return new, replace(options, sources={**told, **options.sources}, offsets=offsets)
    if not options.pages and has_control and names[-1] not in options.sources:
        told[names[-1]] = None
        new = NewSources(entry.named, names[:-1])
        return new, replace(options, sources={**told, **options.sources})
    return None, options


def _files(layout: Layout, record: PagesRecord, batch: int) -> dict[str, bytes]:
    """What tells of the new state, and, for `verify`, of what was made of the old one."""
    if layout.new.record is not None:
        document = sealed(layout.new.record.to_json())
        return {RECORD: document, WRITTEN: document, f"{CHUNKS}/{MADE}": b""}
    return {DEPLOYED: record_document(_deployed(record.stores, batch))}


def _deployed(stores: Mapping[str, StoredStore], batch: int) -> dict[str, Any]:
    return {
        name: StoreRecord(tuple(f.name for f in each.families), batch, dict(each.applied))
        for name, each in stores.items()
    }
