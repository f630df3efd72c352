"""Old and new state that is in pages, as a rewrite saw it that took it there or out of there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators.catalogue import user_stores
from statemigrate.checkpoint.operators.shapes import CheckpointShape
from statemigrate.files import Files
from statemigrate.pages.record import VARIABLE, PagesRecord, is_paged, read_record
from statemigrate.rewrite.plan.paging import WRITTEN, Paging
from statemigrate.rewrite.probe.variables import operator_with
from statemigrate.rewrite.rows.paged.opening import reader_of
from statemigrate.rewrite.rows.reading import RowReader, StateReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def made_pages(new: Files) -> PagesRecord | None:
    """The record of the pages that a rewrite made; None where it made none."""
    return read_record(new, WRITTEN)


def viewed(
    old: Files, new: Files, shape: CheckpointShape, reader: StateReader, spark: SparkSession
) -> tuple[CheckpointShape, RowReader]:
    """The old shape, and what reads its rows: of pages that were left, the variables in them."""
    record = read_record(old)
    paged = next((each for each in shape.operators if VARIABLE in user_stores(each)), None)
    if record is None or paged is None or (is_paged(new) and made_pages(new) is None):
        return shape, reader
    logical = operator_with(record, paged, shape.conf, spark)
    operators = tuple(logical if each is paged else each for each in shape.operators)
    return replace(shape, operators=operators), reader_of(Paging(record, paged), reader)
