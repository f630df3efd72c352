"""Old and new state that is in pages, as a rewrite saw it that took it there or out of there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators.catalogue import user_stores
from statemigrate.checkpoint.operators.shapes import CheckpointShape, OperatorShape
from statemigrate.files import Files
from statemigrate.native.backfill.meant import paged_names
from statemigrate.native.spark_state.operators import is_pages, name_in
from statemigrate.pages.record import PagesRecord, read_record, record_name
from statemigrate.rewrite.plan.paging import Paging, written_name
from statemigrate.rewrite.probe.variables import operator_with
from statemigrate.rewrite.rows.paged.opening import reader_of
from statemigrate.rewrite.rows.reading import RowReader, StateReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class MadePages:
    """The pages that a rewrite has made: of which ``operator``, and the ``record`` of them."""

    operator: int
    record: PagesRecord

    def are_of(self, operator: OperatorShape) -> bool:
        """Whether they are that one's."""
        return operator.number == self.operator


def made_pages(new: Files) -> MadePages | None:
    """Those of the one operator that a rewrite put into pages; None where it put none there."""
    for number, name in paged_names(new).items():
        record = read_record(new, written_name(name))
        if record is not None:
            return MadePages(number, record)
    return None


def viewed(
    old: Files, new: Files, shape: CheckpointShape, reader: StateReader, spark: SparkSession
) -> tuple[CheckpointShape, RowReader]:
    """The old shape, and what reads its rows: of pages that were left, the variables in them."""
    now, made = paged_names(new), made_pages(new)
    for each in shape.operators:
        paged = [name for name in user_stores(each) if is_pages(name)]
        is_as_it_was = each.number in now and (made is None or not made.are_of(each))
        record = read_record(old, record_name(name_in(paged))) if paged else None
        if record is not None and not is_as_it_was:
            logical = operator_with(record, each, shape.conf, spark)
            operators = tuple(logical if one is each else one for one in shape.operators)
            return replace(shape, operators=operators), reader_of(Paging(record, each), reader)
    return shape, reader
