"""Every row of old and new state read again, and held against what the rewrite noted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators.shapes import CheckpointShape, OperatorShape
from statemigrate.checkpoint.shape import describe
from statemigrate.errors import RewriteError
from statemigrate.files import Files
from statemigrate.rewrite.plan.families import Place, families_of
from statemigrate.rewrite.rows.checksums import Checksum
from statemigrate.rewrite.rows.reading import StateReader
from statemigrate.rewrite.rows.session import rewriting_session
from statemigrate.rewrite.rows.surveying import Survey, survey
from statemigrate.rewrite.run.report import FamilyReport, RewriteReport, read_report
from statemigrate.rewrite.verifying.joins import join_problems

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Verified:
    """What was compared: a sentence for each thing that is as it must be, and for each that is not.

    ``report`` is what the rewrite noted.
    """

    report: RewriteReport
    fine: tuple[str, ...]
    problems: tuple[str, ...]


def verify_files(old: Files, new: Files, spark: SparkSession) -> Verified:
    """Read both checkpoints as of the batch that was rewritten; the new query may have gone on.

    Raises `CheckpointError` for a new checkpoint that no rewrite has made, or one whose state as of
    that batch is not kept any more; `RewriteError` for an ``old`` one that is another query's.
    """
    report = read_report(new)
    before, after = describe(old, report.batch), describe(new, report.batch)
    _check_query(before, after, report, old)
    readers = [
        StateReader(files, report.batch, rewriting_session(spark, shape))
        for files, shape in ((old, before), (new, after))
    ]
    found = [
        *_compared("old", before, readers[0], _expected_of_old(report)),
        *_compared("new", after, readers[1], _expected_of_new(report)),
        *_accounted(report),
        *(each for operator in after.operators for each in join_problems(operator, readers[1])),
    ]
    fine = tuple(text for text, is_fine in found if is_fine)
    return Verified(report, fine, tuple(text for text, is_fine in found if not is_fine))


def _check_query(
    before: CheckpointShape, after: CheckpointShape, report: RewriteReport, old: Files
) -> None:
    ids = {before.query_id, after.query_id, report.query}
    if len(ids) > 1:
        raise RewriteError(
            f"{old.location} is not what the new checkpoint was made from",
            expected=f"query {report.query}, as in {report.old}",
            found=f"query {before.query_id}, and {after.query_id} in the new checkpoint",
            next_action="name the old checkpoint first, then the new one",
        )


def _expected_of_old(report: RewriteReport) -> dict[str, Checksum]:
    read = {each.source: each.read for each in report.families if each.read is not None}
    return {**read, **report.gone}


def _expected_of_new(report: RewriteReport) -> dict[str, Checksum]:
    return {each.name: each.total for each in report.families}


def _compared(
    which: str, shape: CheckpointShape, reader: StateReader, expected: dict[str, Checksum]
) -> Iterator[tuple[str, bool]]:
    for operator in shape.operators:
        for name, place in families_of(operator):
            noted = expected.get(name)
            if noted is None:
                yield f"{which} {name}: the rewrite noted nothing of it", False
                continue
            try:
                found = _survey(reader, operator, place, name).total
            except RewriteError as error:
                yield f"{which} {name}: {error.summary}: {error.found}", False
                continue
            is_same = found == noted
            said = f"{noted.count:,} rows, checksum {noted.text}"
            other = "" if is_same else f"; found {found.count:,} rows, checksum {found.text}"
            yield f"{which} {name}: {said}{other}", is_same


def _survey(reader: StateReader, operator: OperatorShape, place: Place, name: str) -> Survey:
    return survey(reader.rows(operator, place), operator, place, name)


def _accounted(report: RewriteReport) -> Iterator[tuple[str, bool]]:
    for each in report.families:
        if each.read is not None:
            yield f"{each.name}: {_sum(each)}", each.added >= 0


def _sum(family: FamilyReport) -> str:
    read = 0 if family.read is None else family.read.count
    return (
        f"{read:,} rows read = {family.total.count:,} written + {family.merged:,} merged "
        f"+ {family.dropped:,} dropped - {family.added:,} added"
    )
