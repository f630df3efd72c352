"""Windows of event time: their kinds, and what the key columns of operators mean.

The windows that a query makes of event times, in microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from statemigrate.rewrite.plan_expressions import PlanExpression, is_hidden
from statemigrate.rewrite.plan_settings import without_settings

_UNITS = (
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("millisecond", 1_000),
    ("microsecond", 1),
)


@dataclass(frozen=True)
class TimeWindow:
    """What ``window(column, length, slide, offset)`` makes; tumbling where the slide is the length.

    A window begins at every ``offset + n * slide``. All three are in microseconds; the ``offset``
    is from 0 on and below the slide, since others make the same windows.
    """

    length: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", self.offset % self.slide)

    @property
    def is_tumbling(self) -> bool:
        """Whether a row is in one window only."""
        return self.length == self.slide

    def has(self, start: int, end: int) -> bool:
        """Whether there is such a window."""
        return end - start == self.length and (start - self.offset) % self.slide == 0

    def starts_of(self, timestamp: int) -> list[int]:
        """The starts of all windows that an event is in, the earliest first."""
        last = timestamp - (timestamp - self.offset) % self.slide
        found = []
        while last + self.length > timestamp:
            found.append(last)
            last -= self.slide
        return found[::-1]

    @property
    def text(self) -> str:
        """As a person says it."""
        text = f"windows of {duration(self.length)}"
        if not self.is_tumbling:
            text += f" every {duration(self.slide)}"
        return text + (f", from {duration(self.offset)} on" if self.offset else "")

    def to_json(self) -> dict[str, object]:
        """As a plan's document has it."""
        return {
            "kind": "time",
            "length": self.length,
            "slide": self.slide,
            "offset": self.offset,
        }


@dataclass(frozen=True)
class SessionWindow:
    """What ``session_window(column, gap)`` makes: ``gap`` is in microseconds.

    It is None where the gap is of each row's own, or in days of a zone that has summer time.
    """

    gap: int | None

    @property
    def text(self) -> str:
        """As a person says it."""
        if self.gap is None:
            return "sessions whose gap is an expression"
        return f"sessions with a gap of {duration(self.gap)}"

    def to_json(self) -> dict[str, object]:
        """As a plan's document has it."""
        return {"kind": "session", "gap": self.gap}


Window = TimeWindow | SessionWindow


def window_from_json(document: Mapping[str, Any]) -> Window:
    """From what `to_json` of a window has made. Raises KeyError and ValueError."""
    if document["kind"] == "session":
        return SessionWindow(document["gap"])
    if document["kind"] != "time":
        raise ValueError(f"there is no kind of window {document['kind']!r}")
    return TimeWindow(document["length"], document["slide"], document["offset"])


def duration(micros: int) -> str:
    """A length of time in the largest unit that it is a whole number of."""
    word, size = next((word, size) for word, size in _UNITS if micros % size == 0)
    count = micros // size
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def timestamp_text(micros: int) -> str:
    """A time in UTC; by its number where the calendar does not reach."""
    try:
        found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros} microseconds since 1970"
    return found.isoformat(sep=" ").replace("+00:00", " UTC")


# What the key columns of operators mean, as the code that computes them says.


@dataclass(frozen=True)
class KeyMeaning:
    """A key column: its ``name``, what it is computed from, and the windows that it has.

    ``expression`` is over columns of the sources, and the same in each run of the same code.
    ``window`` is None for a column that has none, and for a struct that looks like one and is of
    another making. ``tree`` is the expression itself, None where only its text was recorded.
    """

    name: str
    expression: str
    window: Window | None = None
    tree: PlanExpression | None = field(default=None, compare=False, repr=False)

    def in_any_session(self) -> KeyMeaning:
        """The key without settings of a session in its text."""
        return replace(self, expression=without_settings(self.expression))


Meanings = Mapping[int, tuple[KeyMeaning, ...]]
"""The key columns of operators by their numbers, in the order in which the state has them.

That of a session window comes last.
"""


@dataclass(frozen=True)
class ChangedKey:
    """A key ``column`` of a ``store`` that another expression computes now than did before."""

    store: str
    column: str
    old: str
    new: str

    @property
    def name(self) -> str:
        """What a question about it goes by."""
        return f"{self.store}.{self.column}:computed"


def differs(old: KeyMeaning, new: KeyMeaning) -> bool:
    """Whether a column is computed from something else, be it in the same type, or may be."""
    return old.expression != new.expression or is_hidden(new.expression)


# What was found out about the windows in the keys of a state.


Verdict = Literal["same", "other", "missing", "unknown", "unseen", "changed"]
"""What is known of the new code's windows: state says nothing against them; rows are in windows
which it does not make; windows are not there that it would have made; nothing can be compared;
there is no row, and there were events; or the old code says that it made others."""


@dataclass(frozen=True)
class WindowFinding:
    """A window column of a ``store``: what the state has there, and what the new code makes.

    ``new`` is None where that is not known, and ``old``, what the old code made, where that code
    was not given. ``lengths`` are those of the windows in the state, all
    of them, ``step`` is the shortest time between two starts; times are in microseconds. ``others``
    and ``other_rows`` count what the new code does not make. With ``is_scripted`` a script gives
    rows their new windows. See `WindowComparison` for the rest.
    """

    store: str
    column: str
    operator: int
    verdict: Verdict
    new: Window | None
    is_session: bool = False
    rows: int = 0
    lengths: tuple[int, ...] = ()
    step: int | None = None
    others: int = 0
    other_rows: int = 0
    right_from: int | None = None
    is_scripted: bool = False
    old: Window | None = None

    @property
    def name(self) -> str:
        """What a question about it goes by."""
        return f"{self.store}.{self.column}:meaning"

    @property
    def left(self) -> int:
        """How many windows of the new state the new code does not make, as was accepted."""
        return 0 if self.is_scripted else self.others

    @property
    def old_text(self) -> str:
        """What is in the state, as a person says it."""
        if not self.lengths:
            return "nothing"
        if self.is_session:
            return f"sessions of {duration(self.lengths[0])} and longer"
        return f"windows of {' and '.join(map(duration, self.lengths[:5]))}"

    @property
    def new_text(self) -> str:
        """What the new code makes, as a person says it."""
        return "windows that are not known" if self.new is None else self.new.text

    def to_json(self) -> dict[str, Any]:
        """As a plan's document and the record of a rewrite have it."""
        made = {
            name: None if each is None else each.to_json()
            for name, each in (("old", self.old), ("new", self.new))
        }
        return {**asdict(self), **made, "lengths": list(self.lengths)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> WindowFinding:
        """From what `to_json` has made. Raises KeyError, TypeError and ValueError."""
        made = {
            name: None if document[name] is None else window_from_json(document[name])
            for name in ("old", "new")
        }
        lengths = tuple(int(each) for each in document["lengths"])
        return cls(**{**document, **made, "lengths": lengths})
