"""The windows in the rows of a state, each once, and those that the new code does not make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.rewrite.plan.pairing.places import families_of
from statemigrate.rewrite.plan.window_columns import window_columns
from statemigrate.rewrite.rows.reading import RowReader
from statemigrate.rewrite.rows.session import gathered_by_one_task
from statemigrate.rewrite.windows.comparing import ObservedWindows
from statemigrate.rewrite.windows.findings import WindowFinding
from statemigrate.rewrite.windows.kinds import TimeWindow
from statemigrate.state.telling import told

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def observe_windows(rows: DataFrame, column: tuple[str, str]) -> ObservedWindows:
    """All different windows of the rows as `RowReader` gives them, with the number of rows.

    ``column`` is key or value, and the label of a field there, a struct of ``start`` and ``end``.
    """
    from pyspark.sql import functions as F  # noqa: N812

    part, label = column
    window = F.col(part).getField(label)
    bounds = [_micros(rows, window, name).alias(name) for name in ("start", "end")]
    found = rows.select(*bounds).where("start IS NOT NULL AND end IS NOT NULL")
    with told(), gathered_by_one_task(rows.sparkSession):
        table = found.groupBy("start", "end").agg(F.count("*").alias("rows")).toArrow()
    return ObservedWindows(*(table[name].to_numpy() for name in ("start", "end", "rows")))


def windows_in(
    operators: Sequence[OperatorShape], reader: RowReader, findings: Sequence[WindowFinding]
) -> Iterator[tuple[WindowFinding, int]]:
    """Each finding about time windows, and how many windows the new state has which are others."""
    places = {name: (each, place) for each in operators for name, place in families_of(each)}
    for finding in findings:
        if not isinstance(finding.new, TimeWindow) or finding.store not in places:
            continue
        operator, place = places[finding.store]
        columns = {each.label: each for each in window_columns(operator, place)}
        column = columns.get(finding.column)
        if column is not None:
            found = observe_windows(reader.rows(operator, place), column.path)
            yield finding, int((~found.made_by(finding.new)).sum())


def _micros(rows: DataFrame, window: Column, name: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    bound = window.getField(name)
    kind = rows.select(bound.alias("bound")).schema["bound"].dataType.typeName()
    if kind == "timestamp_ntz":
        # One without a zone is counted as if it were in UTC, which the session's zone is.
        bound = bound.cast("timestamp")
    return F.unix_micros(bound)
