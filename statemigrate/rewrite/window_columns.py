"""Which columns of a plan's states are windows, and what is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from statemigrate.checkpoint.operators import (
    FamilyShape,
    OperatorShape,
    StructJson,
    kind_of,
    labels,
)
from statemigrate.rewrite.column_pairing import FamilyAddress, store_families
from statemigrate.rewrite.family_plans import (
    ContinuedFamily,
    FamilyPlan,
    MatchedEntries,
    MatchedFamily,
    ScriptedFamily,
)
from statemigrate.rewrite.rewrite_plan import OperatorPlan, RewritePlan
from statemigrate.rewrite.spark_reader import RowReader, collected_by_one_task
from statemigrate.rewrite.windows import (
    ChangedKey,
    KeyMeaning,
    Meanings,
    SessionWindow,
    TimeWindow,
    Verdict,
    Window,
    WindowFinding,
    differs,
)
from statemigrate.state import reraising_worker_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


# Comparing the windows in state with those that the new code makes.
#
# Windows that are in state, held against those that the new code makes.
#
# A window's content depends on its start and its end alone: a row of state whose window the new
# code makes too is right as it is. What else may be wrong is what is not there. Under the new code
# every event has a row in each window that it is in, until the watermark has passed the window's
# end. So a state in which a window stands without those that it could not be without was left by
# other code.


Micros = npt.NDArray[np.int64]


def _none() -> Micros:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class ObservedWindows:
    """The different windows of all rows: when each starts and ends, in microseconds since 1970.

    ``rows`` says of each how many rows are in it.
    """

    starts: Micros = field(default_factory=_none)
    ends: Micros = field(default_factory=_none)
    rows: Micros = field(default_factory=_none)

    @classmethod
    def of(cls, rows: Mapping[tuple[int, int], int]) -> ObservedWindows:
        """From the number of rows by start and end."""
        pairs = np.array([*rows], np.int64).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1], np.array([*rows.values()], np.int64))

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.rows.sum())

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths that windows have, the shortest first."""
        return tuple(np.unique(self.ends - self.starts).tolist())

    @property
    def step(self) -> int | None:
        """The shortest time between two different starts; None where there is only one."""
        starts = np.unique(self.starts)
        return int(np.diff(starts).min()) if len(starts) > 1 else None

    @property
    def last(self) -> int | None:
        """When the last window ends."""
        return int(self.ends.max()) if len(self.ends) else None

    def made_by(self, window: TimeWindow) -> npt.NDArray[np.bool_]:
        """Of which of them ``window`` has one."""
        is_long = self.ends - self.starts == window.length
        found: npt.NDArray[np.bool_] = is_long & ((self.starts - window.offset) % window.slide == 0)
        return found


@dataclass(frozen=True)
class WindowComparison:
    """What state says of the windows of the new code.

    ``others`` counts the windows that the new code does not make, ``other_rows`` the rows in them.
    Windows, and sessions, that begin at ``right_from`` or later, in microseconds since 1970, hold
    what they would hold had the new code run from the beginning: no event before the rewrite was in
    one. None where this is unknown.
    """

    verdict: Verdict
    others: int = 0
    other_rows: int = 0
    right_from: int | None = None


def compare_windows(found: ObservedWindows, window: TimeWindow, watermark: int) -> WindowComparison:
    """Hold all windows of a state against the new code's.

    ``watermark`` is in microseconds: rows of windows that end by then may be gone, and it is 0
    where no event has come.
    """
    right_from = _next_start(window, max(watermark, found.last or 0))
    if not found.count:
        return WindowComparison("unseen" if watermark > 0 else "same", right_from=right_from)
    made = found.made_by(window)
    others, rows = int((~made).sum()), int(found.rows[~made].sum())
    if others:
        return WindowComparison("other", others, rows, right_from)
    is_whole = _has_all(found.starts, window, watermark)
    return WindowComparison("same" if is_whole else "missing", right_from=right_from)


def compare_sessions(
    found: ObservedWindows, session: SessionWindow, watermark: int
) -> WindowComparison:
    """Hold all sessions of a state against the new code's gap.

    A session is as long as the gap where it has one event, and else longer. So one that is shorter
    than the new gap was made with a shorter one; as long as it, nothing speaks against the new gap;
    where all are longer, the old gap may have been any up to the shortest.
    """
    last = max(watermark, found.last or 0)
    right_from = None if session.gap is None else last + session.gap
    if not found.count:
        verdict: Verdict = "unseen" if watermark > 0 else "same"
        return WindowComparison(verdict, right_from=right_from)
    if session.gap is None:
        return WindowComparison("unknown")
    is_short = found.ends - found.starts < session.gap
    if is_short.any():
        rows = int(found.rows[is_short].sum())
        return WindowComparison("other", int(is_short.sum()), rows, right_from)
    is_same = found.lengths[0] == session.gap
    return WindowComparison("same" if is_same else "unknown", right_from=right_from)


def compare_observed(
    old: ObservedWindows, new: ObservedWindows, watermark: int
) -> WindowComparison:
    """Hold the windows of one state against those of another one.

    They are alike where they have the same lengths, and begin at the same places of these.
    """
    if not old.count:
        return WindowComparison("unseen" if watermark > 0 else "same")
    if not new.count:
        return WindowComparison("unknown")
    if old.lengths != new.lengths:
        is_other = ~np.isin(old.ends - old.starts, new.lengths)
        return WindowComparison("other", int(is_other.sum()), int(old.rows[is_other].sum()))
    return WindowComparison(
        "same" if _lengths_and_offsets(old) == _lengths_and_offsets(new) else "unknown"
    )


def lost_parts(found: ObservedWindows, window: TimeWindow, watermark: int) -> int | None:
    """The start of the first window of the new code that lacks no part which is gone by now.

    Windows of the state become parts of longer ones. Those that end by the ``watermark`` may be
    given out and gone, and with them what they had of a window that goes on. None where no such
    window is still open. Of an empty state any part may be gone.
    """
    if watermark <= 0:
        return None
    shortest = found.lengths[0] if found.count else 1
    starts = [each for each in window.starts_of(watermark) if each + shortest <= watermark]
    return max(starts) + window.slide if starts else None


def _lengths_and_offsets(found: ObservedWindows) -> set[tuple[int, int]]:
    lengths = found.ends - found.starts
    return set(zip(lengths.tolist(), (found.starts % lengths).tolist(), strict=True))


def _next_start(window: TimeWindow, timestamp: int) -> int:
    """The start of the first window that begins at a time or later."""
    return timestamp + (window.offset - timestamp) % window.slide


def _has_all(starts: Micros, window: TimeWindow, watermark: int) -> bool:
    """Whether there are events from which the new code would have left just these windows.

    An event is in windows that begin one slide after the other, at least as many as whole slides go
    into the length. Only the earliest of them may be gone. So of windows that stand in a row, none
    before them, there are as many; or the row begins with the first window that is not gone.
    """
    least = window.length // window.slide
    numbers = np.unique((starts - window.offset) // window.slide)
    # The first window that ends after the watermark.
    first_open = (watermark - window.length - window.offset) // window.slide + 1
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    runs = np.split(numbers, breaks)
    return all(len(run) >= least or run[0] <= first_open for run in runs)


_TIMES = ("timestamp", "timestamp_ntz")
_GROUPING = "key"
"""Spark's name for the struct of what rows are grouped by, in the keys of a map."""
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
    if kind.windows_in == "value":
        found = list(_columns("value", place.family.value, len(key["fields"]) - 1))
        return [each for each in found if each.is_marked][:1] or found[:1]
    return list(_columns("key", key)) if kind.windows_in == "key" else []


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
        is_session = kind_of(after.name).has_sessions
        if window is None and new.observed is not None and not is_session:
            made = new.observed(after, family.new, column.path)
            compared = compare_observed(found, made, watermark)
        else:
            compared = _compared(found, window, watermark)
        if compared.verdict == "missing" and kind_of(after.name).has_expiry:
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
    size, columns = _grouping(family)
    if size != len(old) or len(columns) != len(new):
        return
    for (place, label), after in zip(columns, new, strict=True):
        if place is None:
            continue
        before = old[place]
        if differs(before, after) and before.window == after.window:
            yield ChangedKey(family.name, label, before.expression, after.expression)


def _grouping(family: MatchedFamily) -> tuple[int, list[tuple[int | None, str]]]:
    """How many columns the old rows are grouped by, and the place and name of each new one.

    In a map's key they are a struct by themselves, next to the user's key.
    """
    before, after = (_grouping_fields(each.family) for each in (family.old, family.new))
    columns = family.key.fields
    if isinstance(family, MatchedEntries):
        columns = columns[: len(after)]
    elif family.new.family.user_key is not None:
        (within,) = (each for each in columns if each.label == _GROUPING)
        if within.nested is None:
            return len(before), [(n, str(each["name"])) for n, each in enumerate(after)]
        inner = [(each.place, each.label) for each in within.nested.fields]
        return len(before), [(n, label.removeprefix(f"{_GROUPING}.")) for n, label in inner]
    return len(before), [(each.place, each.label) for each in columns]


def _grouping_fields(family: FamilyShape) -> list[StructJson]:
    fields: list[StructJson] = family.key["fields"]
    if family.user_key is None:
        return fields
    return next(each["type"]["fields"] for each in fields if each["name"] == _GROUPING)


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
