"""The plan of a rewrite that takes state into pages, out of them, or into another number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.logs import Offsets, is_read_twice, lines_of_folders
from statemigrate.checkpoint.operators import (
    CheckpointShape,
    FamilyShape,
    OperatorShape,
    StoreShape,
    kind_of,
    user_stores,
)
from statemigrate.commands.new_code import NewCode
from statemigrate.commands.pages_change import is_only_processor, name_on_pages
from statemigrate.deployment import StoredStore
from statemigrate.errors import RewriteError, UnsupportedError
from statemigrate.files import Files, sealed
from statemigrate.migration import Lineage
from statemigrate.native import (
    MADE,
    ChunkFiles,
    StoreRecord,
    chunks_of,
    control_sources,
    folder_of,
    has_control_source,
    is_name,
    record_document,
)
from statemigrate.native import RECORD as DEPLOYED
from statemigrate.native import read_record as read_deployed
from statemigrate.pages import PagesRecord, read_pages_record, record_name
from statemigrate.processor import check_grouping
from statemigrate.rewrite import (
    NewSources,
    Paging,
    RewriteAnswers,
    RewriteOptions,
    RewritePlan,
    VariablesLayout,
    laid_out,
    make_plan,
    operator_with,
    operator_with_pages,
    written_name,
)
from statemigrate.state import Project, open_committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def paging_plan(
    old: Files,
    shape: CheckpointShape,
    options: RewriteOptions,
    answers: RewriteAnswers | None,
    lineages: Mapping[str, Lineage],
    spark: SparkSession,
) -> RewritePlan:
    """The plan of a rewrite with ``options.pages``; 0 of them are variables of Spark's.

    Values, families and timers stay as they are, and no script is run. Raises `RewriteError` for
    code that is to change at the same time and for what is in so many pages already, and
    `UnsupportedError` for state that is none of ``transformWithState``.
    """
    operator = _processor(shape, options.paged)
    known = name_on_pages(operator)
    paged, before = known is not None, known or ""
    name = before if options.paged_name is None else options.paged_name
    if options.pages:
        _check_name(name, operator, shape)
    record = (
        record_of_variables(old, operator, shape, lineages, spark)
        if known is None
        else _recorded(old, known)
    )
    _check_without_complements(record)
    if name == before or not options.pages:
        _check_new(record if paged else None, options.pages, old)
    conf = options.pinned(shape.conf)
    logical = operator_with(record, operator, shape.conf, spark) if paged else operator
    controlled = before if paged else None
    sources, options = _sources(old, shape, options, controlled, name)
    stays = paged and name == before
    new = _new_paging(record, operator, options.pages or 0, conf, spark, name=name, stays=stays)
    layout = VariablesLayout(
        operator.number,
        Paging(record, operator) if paged else None,
        new,
        left=_left(controlled),
    )
    layout = replace(layout, files=_files(layout, name, record, _others(old, record), shape.batch))
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
    name: str,
    stays: bool,
) -> Paging | None:
    if not pages:
        return None
    shape = operator if stays else operator_with_pages(name, operator, conf, spark)
    return Paging(
        replace(record, pages=pages, deployment="", reading=None, since=0, earlier=()), shape
    )


def _processor(shape: CheckpointShape, which: int | str | None) -> OperatorShape:
    """The ``transformWithState`` that is meant: one on pages, if there are any, or the only one."""
    processors = [each for each in shape.operators if kind_of(each.name).has_variables]
    if not processors:
        raise UnsupportedError(
            "SM-PAGES-001",
            "the query has no transformWithState, and pages are for one",
            expected="a checkpoint with a transformWithState, whose variables pages keep",
            found=", ".join(each.name for each in shape.operators) or "no operator",
            next_action="the state of applyInPandasWithState becomes variables first: rewrite it "
            "for a processor, with --code, and then that checkpoint with --pages",
        )
    if which is None:
        found = [each for each in processors if name_on_pages(each) is not None] or processors
    elif isinstance(which, str):
        found = [each for each in processors if name_on_pages(each) == which]
    else:
        found = [each for each in processors if each.number == which]
    if len(found) == 1:
        return found[0]
    choices = [name_on_pages(each) or str(each.number) for each in processors]
    raise RewriteError(
        "SM-PAGES-038",
        f"the query has {len(processors)} transformWithState, and one has to be named"
        if which is None
        else f"the query has no transformWithState {which}",
        expected=f"one of {', '.join(choices)}",
        found="none was named" if which is None else str(which),
        next_action=f"say it: --paged-operator {' or '.join(choices)}; with --pages, "
        f"--paged-operator {choices[0]}=NAME gives it the name that `paged(operator=)` has",
        operators=[each.number for each in processors],
    )


def _check_name(name: str, operator: OperatorShape, shape: CheckpointShape) -> None:
    """Raise `RewriteError` for a name that cannot be, or that another operator on pages has."""
    names = [name_on_pages(each) for each in shape.operators if each is not operator]
    taken = [each for each in names if each is not None]
    if (name and not is_name(name)) or name in taken:
        raise RewriteError(
            "SM-PAGES-039",
            f"the operator cannot be called {name}"
            if name
            else "another operator on pages has no name, so this one needs one",
            expected="small letters, digits and underscores, and a name of its own",
            found="; ".join(each or "one without a name" for each in taken) or name,
            next_action="say one: --paged-operator "
            f"{name_on_pages(operator) or operator.number}=NAME, which `paged(operator=)` gets too",
        )


def _left(operator: str | None) -> tuple[str, ...]:
    """What tells of the old state alone: a backfill goes by keys, or by pages, that are gone.

    ``operator`` is meant as in `folder_of`.
    """
    folder = folder_of(operator)
    control = f"{folder}/chunks", f"{folder}/waiting", f"{folder}/plan.json"
    return record_name(operator or ""), DEPLOYED, *control


def _others(old: Files, record: PagesRecord) -> dict[str, StoreRecord]:
    """What deployments noted of the stores of the query's other operators."""
    own = {*record.stores}
    return {name: each for name, each in read_deployed(old).items() if name not in own}


def _recorded(old: Files, operator: str) -> PagesRecord:
    record = read_pages_record(old, record_name(operator))
    if record is None:
        raise RewriteError(
            "SM-PAGES-002",
            f"{old.location} has pages of state, and not the record of what is in them",
            expected=record_name(operator),
            found="no such file",
            next_action="restore the file from a copy of the checkpoint",
        )
    return record


def _check_without_complements(record: PagesRecord) -> None:
    """Raise `RewriteError` for complements: only a query takes them along, page by page."""
    if found := record.with_complements:
        raise RewriteError(
            "SM-REWRITE-064",
            "state with complements cannot come into pages, out of them, or into another number",
            expected="values alone",
            found=f"complements of {', '.join(found)}",
            next_action="leave the state as it is; or give the complements up: run the query "
            "once with migrated(..., complement=False), and rewrite then",
            stores=found,
        )


def record_of_variables(
    old: Files,
    operator: OperatorShape,
    shape: CheckpointShape,
    lineages: Mapping[str, Lineage],
    spark: SparkSession,
) -> PagesRecord:
    """What pages would have of the state that Spark keeps by itself."""
    which = None if is_only_processor(shape) else operator.number
    state = open_committed(old.location, lineages, Project(operator=which, spark=spark))
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


def check_no_code(target: NewCode) -> None:
    """Raise `RewriteError` for code that is to change together with the pages."""
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
    old: Files, shape: CheckpointShape, options: RewriteOptions, operator: str | None, name: str
) -> tuple[NewSources | None, RewriteOptions]:
    """The sources of the new code: a query of pages has the backfill source from its first day.

    ``operator`` is that of the old checkpoint, as in `folder_of`, and ``name`` the new one's.
    """
    entry = shape.offsets[shape.batch].offsets
    names = tuple(entry.by_source)
    if entry.named:
        return None, options
    if is_read_twice(entry, lines_of_folders(old, entry)):
        if options.pages and name == operator:
            # The backfill source goes on with its pages, whichever line it has.
            return None, options
        raise UnsupportedError(
            "SM-PAGES-040",
            f"the query of {old.location} reads one stream in several places, so that operators "
            "stay on pages, or off them, under their names",
            expected="another number of pages for an operator that has pages, and the same name",
            found=_change_of(operator, name if options.pages else None),
            next_action="leave --no-pages and the name out; --pages N gives an operator that has "
            "pages another number of them. An operator comes into pages, or out of them, only "
            "where the query has made each of its streams with a readStream of its own since its "
            "first batch",
            path=old.location,
        )
    control_name = _control_source(ChunkFiles(old.location, operator), entry, options)
    if options.pages and control_name is None:
        pairs = {name: options.sources.get(name, name) for name in names}
        # Where other sources were named to make room for it, it is not the last.
        numbers = [str(number) for number in range(len(names) + 1)]
        added = next(each for each in reversed(numbers) if each not in pairs.values())
        offsets = {added: None, **options.offsets}
        return NewSources(entry.named, (*numbers,)), replace(
            options, sources=pairs, offsets=offsets
        )
    if (
        options.pages
        and control_name is not None
        and name != operator
        and control_name not in options.sources
    ):
        # It reads other files by now, and has taken none of them.
        others: dict[str, str | None] = {each: each for each in names}
        sources = {**others, control_name: None, **options.sources}
        offsets = {control_name: None, **options.offsets}
        return NewSources(entry.named, names), replace(options, sources=sources, offsets=offsets)
    if not options.pages and control_name is not None and options.sources.get(control_name) is None:
        left = [name for name in names if name != control_name]
        shifted: dict[str, str | None] = {name: str(at) for at, name in enumerate(left)}
        sources = {**shifted, control_name: None, **options.sources}
        numbers = [str(number) for number in range(len(left))]
        return NewSources(entry.named, (*numbers,)), replace(options, sources=sources)
    return None, options


def _change_of(operator: str | None, name: str | None) -> str:
    """What is to become of an operator, each time as in `folder_of`."""
    words = [
        "without pages" if each is None else f"on pages named {each}" if each else "on pages"
        for each in (operator, name)
    ]
    return f"an operator {words[0]} that is to be {words[1]}"


def _control_source(files: ChunkFiles, entry: Offsets, options: RewriteOptions) -> str | None:
    """The backfill source; None where the query has none. Raises `RewriteError` for any of several.

    One that has taken nothing is like the others that have not: the last of them, if no other
    source comes in between.
    """
    if not has_control_source(files, entry):
        return None
    found, names = control_sources(files, entry), tuple(entry.by_source)
    if len(found) <= 1 or names[-len(found) :] == found:
        return next(reversed(found), names[-1])
    chosen = [name for name in found if name in options.sources]
    if len(chosen) == 1 or options.pages:
        return chosen[0] if chosen else found[-1]
    raise RewriteError(
        "SM-PAGES-041",
        f"it is unknown which source of {files.checkpoint} is the backfill source"
        + (f" of {files.operator}" if files.operator else ""),
        expected="one that has taken a file of it",
        found=f"sources {', '.join(found)}, which have taken nothing yet",
        next_action="say it by its number, in the order of the query's sources: "
        f"{' or '.join(f'--source {each}=gone' for each in found)}",
        sources=list(found),
    )


def _files(
    layout: VariablesLayout,
    name: str,
    record: PagesRecord,
    others: Mapping[str, StoreRecord],
    batch: int,
) -> dict[str, bytes]:
    """What tells of the new state, and, for `verify`, of what was made of the old one."""
    if layout.new is not None:
        document = sealed(layout.new.record.to_json())
        made = {
            record_name(name): document,
            written_name(name): document,
            f"{chunks_of(name)}/{MADE}": b"",
        }
        return {**made, DEPLOYED: record_document(others)} if others else made
    return {DEPLOYED: record_document({**others, **_deployed(record.stores, batch)})}


def _deployed(stores: Mapping[str, StoredStore], batch: int) -> dict[str, Any]:
    return {
        name: StoreRecord(tuple(f.name for f in each.families), batch, dict(each.applied))
        for name, each in stores.items()
    }
