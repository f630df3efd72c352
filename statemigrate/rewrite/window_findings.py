"""What was found out about the windows in the keys of a state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from statemigrate.rewrite.windows import Window, duration, window_from_json

if TYPE_CHECKING:
    from statemigrate.rewrite.window_comparison import Verdict


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
