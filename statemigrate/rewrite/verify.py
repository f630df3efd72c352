"""Old and new state read again: held against what the rewrite noted, and made once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from statemigrate.checkpoint import describe
from statemigrate.checkpoint.operators import CheckpointShape, OperatorShape
from statemigrate.errors import CheckpointError, RewriteError, StorageError
from statemigrate.files import Files
from statemigrate.migration import Lineage
from statemigrate.native import read_record
from statemigrate.rewrite.column_pairing import FamilyAddress, store_families
from statemigrate.rewrite.derived_rows import Derivation, join_problems
from statemigrate.rewrite.forgotten_sources import RestoredFamily, read_restored, without_families
from statemigrate.rewrite.partitioning import FamilySurvey, survey
from statemigrate.rewrite.rewrite_report import Checksum, FamilyReport, RewriteReport, read_report
from statemigrate.rewrite.spark_reader import RowReader, StateReader, rewriting_session
from statemigrate.rewrite.verify_findings import (
    Found,
    LoadedState,
    made_pages,
    scripts_again,
    viewed,
)
from statemigrate.rewrite.verify_logs import compared_logs
from statemigrate.rewrite.window_columns import windows_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Verified:
    """The results: a sentence for each comparison that is right, and for each that is not.

    ``report`` is the record of the rewrite; ``untried`` lists what could not be compared, and why.
    ``covered`` says what is compared, and ``not_covered`` what no comparison of two checkpoints can
    show.
    """

    report: RewriteReport
    fine: tuple[str, ...]
    problems: tuple[str, ...]
    untried: tuple[str, ...] = ()

    @property
    def covered(self) -> str:
        """What the counts and checksums are of."""
        which = "of the new checkpoint" if self.report.tables else "of both checkpoints"
        return (
            f"every row of each state {which} as of batch {self.report.batch}, its key and its "
            "value as Spark reads them, in any order; and the offsets, commits, sources and "
            "settings in the logs"
        )

    @property
    def not_covered(self) -> str:
        """What can be wrong all the same."""
        return (
            "what the new code means by a value, which `statemigrate plan CHECKPOINT --code "
            "MODULE:FUNCTION --old-code MODULE:FUNCTION` compares; batches before and after; and "
            "what the sink has"
        )


def verify_files(
    old: Files | None,
    new: Files,
    session: Callable[[], SparkSession],
    lineages: Mapping[str, Lineage] | None = None,
) -> Verified:
    """Read both checkpoints as of the batch that was rewritten; the new query may have gone on.

    ``session`` makes the session to read with. With ``lineages``, those of the folder of scripts,
    the new rows of scripted stores are made again too. ``old`` is None for a checkpoint that was
    seeded from tables: these may have changed since, and are not read again. Raises
    `CheckpointError` for a new checkpoint that no rewrite has made, or one whose state as of that
    batch is not kept any more; `RewriteError` for an ``old`` one that is another query's, or that
    there was not.
    """
    report = read_report(new)
    if (old is None) != bool(report.tables):
        raise _other_origin(old, report)
    after = describe(new, report.batch)
    before = None if old is None else describe(old, report.batch)
    if old is not None and before is not None:
        _check_query(before, report, old)
    # What can be known without it is, before Spark takes its time to start.
    spark = session()
    reader = StateReader(new, report.batch, rewriting_session(spark, after))
    state = LoadedState(new, after)
    if old is None or before is None:
        found = [
            *compared_logs(None, new, report),
            *_of_new(state, reader, report),
            *_of_tables(report),
        ]
        return _verified(report, found)
    old_reader = StateReader(old, report.batch, rewriting_session(spark, before))
    scripts = scripts_again(report, before, lineages, read_record(old))
    physical = before
    before, rows = viewed(old, new, before, old_reader, spark)
    brought_back = read_restored(new)
    # Their rows were read as of an earlier batch.
    before = without_families(before, brought_back)
    old_state = LoadedState(old, physical)
    found = [
        *compared_logs(old, new, report),
        *_compared("old", before, rows, _expected_of_old(report), old_state),
        *_of_new(state, reader, report),
        *_of_restored(brought_back, report),
        *Derivation(report, before, after, rows, scripts, old_state, made_pages(new)).found(),
    ]
    return _verified(report, found)


def _of_new(state: LoadedState, reader: StateReader, report: RewriteReport) -> Iterator[Found]:
    yield from _compared("new", state.shape, reader, _expected_of_new(report), state)
    yield from _accounted(report)
    yield from _of_joins(state, reader)
    for finding, others in windows_in(state.shape.operators, reader, report.windows):
        yield Found.of(
            f"{finding.store}.{finding.column}: {finding.new_text}, and {others:,} that are others"
            + (", as was accepted" if others and others == finding.left else ""),
            is_fine=others == finding.left,
        )


def _verified(report: RewriteReport, found: Sequence[Found]) -> Verified:
    texts = {
        kind: tuple(each.text for each in found if each.kind == kind)
        for kind in ("fine", "problem", "untried")
    }
    return Verified(report, texts["fine"], texts["problem"], texts["untried"])


def _of_restored(restored: Mapping[str, RestoredFamily], report: RewriteReport) -> Iterator[Found]:
    """What was forgotten: whether each row that was found came back, or gave way by a rule."""
    written = {each.name: each.total for each in report.families}
    for name, each in restored.items():
        parts = f"{each.live.count:,} with newer values + {each.deleted.count:,} deleted since"
        total = each.restored + each.live + each.deleted
        yield Found.of(
            f"{name}: {each.found.count:,} rows found as of batch {each.batch} = "
            f"{each.restored.count:,} brought back + {parts}",
            is_fine=total == each.found and written.get(name) == each.restored,
        )


def _of_tables(report: RewriteReport) -> Iterator[Found]:
    """What a new query was seeded from."""
    for store, place in report.tables.items():
        yield Found(f"{store} was seeded from {place}, which is not read again", "untried")


def _other_origin(old: Files | None, report: RewriteReport) -> RewriteError:
    return RewriteError(
        "SM-VERIFY-003",
        "the new checkpoint was made from something else",
        expected=f"no old checkpoint: it was seeded from {report.old}"
        if report.tables
        else f"the old checkpoint {report.old}",
        found="none" if old is None else old.location,
        next_action="name the new checkpoint alone",
    )


def _of_joins(state: LoadedState, reader: StateReader) -> Iterator[Found]:
    for operator in state.shape.operators:
        try:
            found = state.whole(operator, partial(_join_problems, operator, reader))
        except StorageError:
            raise
        except CheckpointError as error:
            yield Found(f"join-{operator.number}: {error.headline}: {error.found}", "problem")
            continue
        for text, is_fine in found:
            yield Found.of(text, is_fine=is_fine)


def _check_query(before: CheckpointShape, report: RewriteReport, old: Files) -> None:
    """Whether the old checkpoint is the one; the new one's id is compared with its file."""
    if before.query_id != report.query:
        raise RewriteError(
            "SM-VERIFY-003",
            f"{old.location} is not what the new checkpoint was made from",
            expected=f"query {report.query}, as in {report.old}",
            found=f"query {before.query_id}",
            next_action="name the old checkpoint first, then the new one",
        )


Expected = Mapping[tuple[int | None, str], Checksum]
"""What was noted of a family, by its operator, None if that was not noted, and by its name."""


def _expected_of_old(report: RewriteReport) -> Expected:
    read = {
        (each.old_operator, name): of
        for each in report.families
        for name, of in each.read_of.items()
    }
    return {**{(None, name): of for name, of in report.gone.items()}, **read}


def _expected_of_new(report: RewriteReport) -> Expected:
    return {(each.operator, each.name): each.total for each in report.families}


def _compared(
    which: str,
    shape: CheckpointShape,
    reader: RowReader,
    expected: Expected,
    state: LoadedState,
) -> Iterator[Found]:
    for operator in shape.operators:
        for name, place in store_families(operator):
            noted = expected.get((operator.number, name), expected.get((None, name)))
            if noted is None:
                yield Found(f"{which} {name}: the rewrite noted nothing of it", "problem")
                continue
            try:
                survey_it = partial(_survey, reader, operator, place, name)
                found = state.whole(operator, survey_it).total
            except StorageError:
                raise
            except (RewriteError, CheckpointError) as error:
                yield Found(f"{which} {name}: {error.headline}: {error.found}", "problem")
                continue
            is_same = found == noted
            recorded = f"{noted.count:,} rows, checksum {noted.text}"
            other = "" if is_same else f"; found {found.count:,} rows, checksum {found.text}"
            yield Found.of(f"{which} {name}: {recorded}{other}", is_fine=is_same)


def _join_problems(operator: OperatorShape, reader: StateReader) -> list[tuple[str, bool]]:
    return list(join_problems(operator, reader))


def _survey(
    reader: RowReader, operator: OperatorShape, place: FamilyAddress, name: str
) -> FamilySurvey:
    return survey(reader.rows(operator, place), operator, place, name)


def _accounted(report: RewriteReport) -> Iterator[Found]:
    for each in report.families:
        if each.read is not None:
            yield Found.of(f"{each.name}: {_sum(each)}", is_fine=each.added >= 0)


def _sum(family: FamilyReport) -> str:
    read = 0 if family.read is None else family.read.count
    return (
        f"{read:,} rows read = {family.total.count:,} written + {family.merged:,} merged "
        f"+ {family.dropped:,} dropped - {family.added:,} added"
    )
