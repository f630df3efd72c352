"""What becomes of the rows of one family of one operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from statemigrate.checkpoint.operators.catalogue import (
    AGGREGATION,
    SESSION_WINDOW,
    kind_of,
)
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.pages.record import PagesRecord
from statemigrate.rewrite.plan.pairing.fields import StructChange
from statemigrate.rewrite.plan.pairing.functions import FunctionPairing
from statemigrate.rewrite.plan.pairing.places import (
    Place,
    families_of,
)
from statemigrate.rewrite.plan.scripts import Scripted

Change = Literal["kept", "values", "keys", "kind", "joined", "paged", "new", "derived"]
Way = Literal[
    "rows", "entries", "counts", "timers", "joined", "pages", "page timers", "large values"
]
"""How old rows become new ones: each by itself; taken apart into single entries, which are put
together again; as the numbers of rows of a join's side; as timers, of what times out; as entries
of several families, which meet; or as pages with the entries of all, the timers of pages, and the
values that are too large for them, whose rows are counted with the pages."""
Expiry = Literal["never", "kept", "told", "ends"]
"""When new values expire: as the old ones do, or as the author says; or they do not any more."""


@dataclass(frozen=True)
class FamilyPlan:
    """A family of the new checkpoint: ``name`` is how users call it.

    ``old`` is where its rows come from, None where none do. A key whose rows are ``numbered`` is a
    join's; ``counts`` is the part whose rows are counted. What is ``derived`` is written from the
    rows of another family, as the length of a list is. With a ``script`` the author's functions
    say what becomes of rows, and nothing is matched. Of several families that become one each is
    one of the ``parts``, in the order in which entries are merged: what each brings is of the form
    that the script takes, or else of the new family's. Values that are buffers of aggregate
    ``functions`` go by these, and not by the names of their fields.
    """

    name: str
    new: Place
    old: Place | None = None
    key: StructChange | None = None
    value: StructChange | None = None
    is_derived: bool = False
    script: Scripted | None = None
    way: Way = "rows"
    counts: str = ""
    is_numbered: bool = False
    parts: tuple[FamilyPlan, ...] = ()
    record: PagesRecord | None = None
    functions: FunctionPairing | None = None

    @property
    def sources(self) -> tuple[Place, ...]:
        """The old families that rows come from."""
        found = [self.old, *(each.old for each in self.parts)]
        return tuple(each for each in found if each is not None)

    @property
    def change(self) -> Change:
        """In a word, what becomes of its rows."""
        if self.is_derived or self.parts:
            together: Change = "joined" if self.record is None else "paged"
            return together if self.parts else "derived"
        if self.old is None:
            return "new"
        if self.way in ("counts", "timers"):
            return "keys" if self.way == "counts" else "kind"
        if state_kind(self.old) != state_kind(self.new) or self.old.family.wrapping == "state":
            return "kind"
        if self.script is not None:
            return "keys" if self.changes_keys else "values"
        return _changed(self.key, self.value, self.expiry)

    @property
    def changes_keys(self) -> bool:
        """Whether a script gives entries other keys."""
        return self.script is not None and any(step.key for step in self.script.path.steps)

    @property
    def is_alike(self) -> bool:
        """Whether each row becomes one row, by itself."""
        is_state = self.old is not None and self.old.family.wrapping == "state"
        same = state_kind(self.old) == state_kind(self.new) and not is_state
        if self.script is not None and self.expiry != "never":
            return False
        return same and self.expiry in ("never", "kept")

    @property
    def gathers(self) -> bool:
        """Whether several entries may stand under one key: of a list, or of a side of a join."""
        return self.new.family.is_list or self.is_numbered

    @property
    def expiry(self) -> Expiry:
        """What becomes of the moments at which values expire."""
        if self.record is not None:
            return "never"
        if self.parts:
            return self._joined_expiry
        if self.old is None:
            return "never"
        old, new = (each.family.wrapping == "expiry" for each in (self.old, self.new))
        if new:
            restarts = self.script is not None and _restarts(self.script)
            return "kept" if old and not restarts else "told"
        return "ends" if old else "never"

    @property
    def _joined_expiry(self) -> Expiry:
        found = {each.expiry for each in self.parts}
        expires = self.new.family.wrapping == "expiry"
        if expires and self.script is not None and _restarts(self.script):
            return "told"
        words: tuple[Expiry, ...] = ("told", "ends", "kept")
        return next((word for word in words if word in found), "never")


def families_left(old: OperatorShape, plans: list[FamilyPlan]) -> list[str]:
    """The names of old families that no new one goes on with."""
    return [name for name, _ in places_left(old, plans)]


def places_left(
    old: OperatorShape, plans: list[FamilyPlan] | tuple[FamilyPlan, ...]
) -> list[tuple[str, Place]]:
    """The old families that no new one goes on with, by their names."""
    return [
        (name, place)
        for name, place in families_of(old)
        if not any(place.is_at(source) for each in plans for source in each.sources)
    ]


def is_aggregation(operator: OperatorShape) -> bool:
    """Whether the values are buffers of aggregation functions."""
    return kind_of(operator.name) is AGGREGATION


def has_functions(operator: OperatorShape) -> bool:
    """Whether values have buffers of aggregate functions, behind nothing or behind the key."""
    return kind_of(operator.name) in (AGGREGATION, SESSION_WINDOW)


def _restarts(script: Scripted) -> bool:
    return any(step.time_to_live == "restart" for step in script.path.steps)


def _changed(key: StructChange | None, value: StructChange | None, expiry: Expiry) -> Change:
    if key is None or value is None:
        return "new"
    if not key.is_identity:
        return "keys"
    return "kept" if value.is_identity and expiry in ("never", "kept") else "values"


def state_kind(place: Place | None) -> str:
    """What a family keeps under a key, in words."""
    if place is None:
        return "nothing"
    if place.family.user_key is not None:
        return "a map"
    return "a list" if place.family.is_list else "a value"
