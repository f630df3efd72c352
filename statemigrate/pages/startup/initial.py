"""The initial state of a paged query: Spark's grouped frame, brought to the pages of its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statemigrate.errors import StartupError
from statemigrate.formats.struct.words import quoted
from statemigrate.pages.live.rows import BUCKET, PACKED, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, GroupedData
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class InitialState:
    """Rows of a frame, packed and grouped by page; in each the key is at ``key_columns``."""

    grouped: GroupedData | None
    key_columns: tuple[int, ...]


def initial_state(grouped: Any, key: StructType, pages: int) -> InitialState:
    """The initial state that ``grouped`` has, a frame grouped as the stream is; None has none.

    Raises `StartupError` for what is no such frame.
    """
    from pyspark.sql import GroupedData

    if grouped is None:
        return InitialState(None, ())
    if not isinstance(grouped, GroupedData):
        raise _ungrouped(type(grouped).__qualname__, key)
    frame: DataFrame = grouped._df
    # No interface tells what a frame is grouped by; what is made of it begins with that.
    names = grouped.count().columns[:-1]
    types = [frame.schema[name].dataType if name in frame.columns else None for name in names]
    if types != [field.dataType for field in key.fields]:
        raise _ungrouped(f"grouped by {', '.join(names)}, of {frame.schema.simpleString()}", key)
    packed = with_bucket(frame, names, pages).mapInArrow(pack, PACKED)
    positions = tuple(frame.columns.index(name) for name in names)
    return InitialState(packed.groupBy(BUCKET), positions)


def with_bucket(frame: DataFrame, columns: Sequence[str], pages: int) -> DataFrame:
    """The frame, with the page of each row's key in its last column."""
    from pyspark.sql import functions

    keys = [functions.col(quoted(column)) for column in columns]
    bucket = functions.pmod(functions.hash(*keys), functions.lit(pages))
    return frame.withColumn(BUCKET, bucket)


def _ungrouped(found: str, key: StructType) -> StartupError:
    return StartupError(
        "SM-PAGES-033",
        "the initial state is not grouped as the stream is",
        expected=f"a frame grouped by columns of the types {key.simpleString()}",
        found=found,
        next_action="group it by the same columns: initialState=frame.groupBy(...)",
    )
