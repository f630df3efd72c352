"""Which columns of a plan's states are windows, and what is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.catalogue import (
    AGGREGATION,
    DEDUPLICATE,
    DEDUPLICATE_WITHIN_WATERMARK,
    SESSION_WINDOW,
    kind_of,
)
from statemigrate.checkpoint.operators.shapes import OperatorShape, StructJson, labels
from statemigrate.rewrite.column_pairing import FamilyAddress, store_families
from statemigrate.rewrite.families import (
    ContinuedFamily,
    FamilyPlan,
    MatchedFamily,
    ScriptedFamily,
)
from statemigrate.rewrite.plan import OperatorPlan, RewritePlan
from statemigrate.rewrite.reading import RowReader, collected_by_one_task
from statemigrate.rewrite.window_comparison import (
    ObservedWindows,
    WindowComparison,
    compare_observed,
    compare_sessions,
    compare_windows,
    lost_parts,
)
from statemigrate.rewrite.windows import (
    ChangedKey,
    KeyMeaning,
    Meanings,
    SessionWindow,
    TimeWindow,
    Window,
    WindowFinding,
    differs,
)
from statemigrate.state.protocol import reraising_worker_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_BY_KEY = (AGGREGATION, DEDUPLICATE, DEDUPLICATE_WITHIN_WATERMARK)
_TIMES = ("timestamp", "timestamp_ntz")
_MARKS = ("spark.timeWindow", "spark.sessionWindow")
Observe = Callable[[OperatorShape, FamilyAddress, tuple[str, str]], ObservedWindows]
"""The windows in a column of a family, which goes by its part, key or value, and its label."""


@dataclass(frozen=True)
class WindowColumn:
    """A struct of two times: in the ``part`` key or value, by its label there.

    ``place`` is which of the key's columns it is, the last one for a session's; ``is_marked`` says
    that Spark has noted it as a window of its own.
    """

    part: str
    label: str
    place: int
    is_marked: bool

    @property
    def path(self) -> tuple[str, str]:
        """Where rows have it."""
        return self.part, self.label


@dataclass(frozen=True)
class NewWindows:
    """What is known of the new code's windows: the ``meanings`` of its keys, by operator.

    Of code that is known by a checkpoint alone it is ``observed``, the windows in that one.
    ``before`` has the meanings of the old code's keys, where it was given.
    """

    meanings: Meanings = field(default_factory=dict)
    observed: Observe | None = None
    before: Meanings = field(default_factory=dict)


def window_columns(operator: OperatorShape, place: FamilyAddress) -> list[WindowColumn]:
    """The columns of an operator's state that are windows, or look like them."""
    kind, key = kind_of(operator.name), place.family.key
    if kind is SESSION_WINDOW:
        found = list(_columns("value", place.family.value, len(key["fields"]) - 1))
        return [each for each in found if each.is_marked][:1] or found[:1]
    return list(_columns("key", key)) if kind in _BY_KEY else []


def _columns(part: str, struct: StructJson, last: int | None = None) -> Iterator[WindowColumn]:
    for place, (label, each) in enumerate(zip(labels(struct), struct["fields"], strict=True)):
        if _is_window(each["type"]):
            is_marked = any(mark in each["metadata"] for mark in _MARKS)
            yield WindowColumn(part, label, place if last is None else last, is_marked)


def _is_window(spark: Any) -> bool:
    if not isinstance(spark, dict) or spark["type"] != "struct":
        return False
    fields = [(each["name"], each["type"]) for each in spark["fields"]]
    return [name for name, _ in fields] == ["start", "end"] and all(
        kind in _TIMES for _, kind in fields
    )


def find_windows(plan: RewritePlan, new: NewWindows, observe: Observe) -> Iterator[WindowFinding]:
    """What the state of a plan has in each column that is a window.

    ``observe`` looks at all old rows.
    """
    watermark = plan.old.commits[plan.old.batch].watermark * 1_000
    for operator in plan.operators:
        for family in operator.families:
            yield from _of_family(operator, family, new, observe, watermark)


def _of_family(
    operator: OperatorPlan, family: FamilyPlan, new: NewWindows, observe: Observe, watermark: int
) -> Iterator[WindowFinding]:
    before, after = operator.old, operator.new
    if before is None or after is None or not isinstance(family, ContinuedFamily):
        return
    old_columns = window_columns(before, family.old)
    meanings = new.meanings.get(after.number, ())
    for column in window_columns(after, family.new):
        source = _source(family, column, old_columns)
        window = _meant(meanings, column, family.new)
        is_none = window is None and not (source and source.is_marked)
        if source is None or is_none:
            continue
        was = _meant(new.before.get(before.number, ()), source, family.old)
        found = observe(before, family.old, source.path)
        is_session = kind_of(after.name) is SESSION_WINDOW
        if window is None and new.observed is not None and not is_session:
            made = new.observed(after, family.new, column.path)
            compared = compare_observed(found, made, watermark)
        else:
            compared = _compared(found, window, watermark)
        if compared.verdict == "missing" and kind_of(after.name) is DEDUPLICATE_WITHIN_WATERMARK:
            # Its keys go by a time of their own, and not by the ends of windows.
            compared = replace(compared, verdict="same")
        if was is not None and window is not None:
            compared = _by_code(compared, was, window)
        is_scripted = isinstance(family, ScriptedFamily) and family.script.changes_keys
        right_from = compared.right_from
        if is_scripted:
            right_from = (
                lost_parts(found, window, watermark) if isinstance(window, TimeWindow) else None
            )
        yield WindowFinding(
            family.name,
            column.label,
            before.number,
            compared.verdict,
            window,
            is_session,
            found.count,
            found.lengths,
            found.step,
            compared.others,
            compared.other_rows,
            right_from,
            is_scripted,
            was,
        )


def _compared(found: ObservedWindows, window: Window | None, watermark: int) -> WindowComparison:
    match window:
        case TimeWindow():
            return compare_windows(found, window, watermark)
        case SessionWindow():
            return compare_sessions(found, window, watermark)
    return WindowComparison("unknown" if found.count or watermark > 0 else "same")


def _by_code(compared: WindowComparison, old: Window, new: Window) -> WindowComparison:
    """What the old code says goes before what state does not say.

    What is in the state goes before both: it may have been left by other code than is given.
    """
    if old != new:
        return replace(compared, verdict="changed")
    is_known = not isinstance(old, SessionWindow) or old.gap is not None
    open_ = ("unknown", "unseen", "missing") if is_known else ()
    return replace(compared, verdict="same") if compared.verdict in open_ else compared


def changed_keys(plan: RewritePlan, new: NewWindows) -> Iterator[ChangedKey]:
    """The key columns that the old code computed from something else than the new code does.

    Windows that are others are findings by themselves; so are keys that a script changes.
    """
    for operator in plan.operators:
        if operator.old is None or operator.new is None:
            continue
        old = new.before.get(operator.old.number, ())
        after = new.meanings.get(operator.new.number, ())
        for family in operator.families:
            if isinstance(family, MatchedFamily):
                yield from _changed(family, old, after)


def _changed(
    family: MatchedFamily, old: Sequence[KeyMeaning], new: Sequence[KeyMeaning]
) -> Iterator[ChangedKey]:
    is_whole = len(old) == len(family.old.family.key["fields"])
    if not is_whole or len(new) != len(family.key.fields):
        return
    for column, after in zip(family.key.fields, new, strict=True):
        if column.place is None:
            continue
        before = old[column.place]
        if differs(before, after) and before.window == after.window:
            yield ChangedKey(family.name, column.label, before.expression, after.expression)


def _meant(
    meanings: Sequence[KeyMeaning], column: WindowColumn, place: FamilyAddress
) -> Window | None:
    is_whole = len(meanings) == len(place.family.key["fields"])
    return meanings[column.place].window if is_whole else None


def _source(
    family: ContinuedFamily, column: WindowColumn, old: Sequence[WindowColumn]
) -> WindowColumn | None:
    """The old column that one goes on with; for a script's the one of its name, or the only one."""
    by_label: Mapping[str, WindowColumn] = {each.label: each for each in old}
    if column.part == "key" and isinstance(family, MatchedFamily):
        source = family.key.fields[column.place].source
        return by_label.get(source)
    only = old[0] if len(old) == 1 else None
    return by_label.get(column.label, only)


# The windows in the rows of a state, each once, and those that the new code does not make.


def observe_windows(rows: DataFrame, column: tuple[str, str]) -> ObservedWindows:
    """All different windows of the rows as `RowReader` gives them, with the number of rows.

    ``column`` is key or value, and the label of a field there, a struct of ``start`` and ``end``.
    """
    from pyspark.sql import functions as F  # noqa: N812

    part, label = column
    window = F.col(part).getField(label)
    bounds = [_micros(rows, window, name).alias(name) for name in ("start", "end")]
    found = rows.select(*bounds).where("start IS NOT NULL AND end IS NOT NULL")
    with reraising_worker_errors(), collected_by_one_task(rows.sparkSession):
        table = found.groupBy("start", "end").agg(F.count("*").alias("rows")).toArrow()
    return ObservedWindows(*(table[name].to_numpy() for name in ("start", "end", "rows")))


def windows_in(
    operators: Sequence[OperatorShape], reader: RowReader, findings: Sequence[WindowFinding]
) -> Iterator[tuple[WindowFinding, int]]:
    """Each finding about time windows, and how many windows the new state has which are others."""
    places = {name: (each, place) for each in operators for name, place in store_families(each)}
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
