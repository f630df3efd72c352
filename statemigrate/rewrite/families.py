"""What becomes of the rows of one family of one operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from statemigrate.checkpoint.operators.catalogue import (
    AGGREGATION,
    SESSION_WINDOW,
    is_derived,
    is_timers,
    kind_of,
)
from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.native.checkpoint import is_pages
from statemigrate.pages.record import RECORDS, PagesRecord, is_large, record_name
from statemigrate.rewrite.aggregate_pairing import FunctionPairing
from statemigrate.rewrite.column_pairing import (
    FamilyAddress,
    all_families,
    family_label,
    is_unused,
    store_families,
)
from statemigrate.rewrite.fields import StructChange
from statemigrate.rewrite.scripts import Scripted

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
    new: FamilyAddress
    old: FamilyAddress | None = None
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
    def sources(self) -> tuple[FamilyAddress, ...]:
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
    return [name for name, _ in unclaimed_families(old, plans)]


def unclaimed_families(
    old: OperatorShape, plans: list[FamilyPlan] | tuple[FamilyPlan, ...]
) -> list[tuple[str, FamilyAddress]]:
    """The old families that no new one goes on with, by their names."""
    return [
        (name, place)
        for name, place in store_families(old)
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


def state_kind(place: FamilyAddress | None) -> str:
    """What a family keeps under a key, in words."""
    if place is None:
        return "nothing"
    if place.family.user_key is not None:
        return "a map"
    return "a list" if place.family.is_list else "a value"


# State that goes into pages, out of them, or into another number of them: its values stay.


WRITTEN = "statemigrate/pages-written.json"
"""Below a checkpoint whose pages a rewrite has made: the record of them as it was then.

That of an operator with a name is `written_name`."""
_WRITTEN_NAMED = "-written.json"
_BY_KEY = "_keyToTimestamp"
"""The end of the name of that family of timers which has them by key."""


def written_name(operator: str) -> str:
    """`WRITTEN` of an operator, by its name, which may be empty."""
    if not operator:
        return WRITTEN
    return f"{record_name(operator).removesuffix('.json')}{_WRITTEN_NAMED}"


def is_written_name(name: str) -> bool:
    """Whether a file has what `written_name` says."""
    return name == WRITTEN or (name.startswith(f"{RECORDS}/") and name.endswith(_WRITTEN_NAMED))


@dataclass(frozen=True)
class Paging:
    """How an operator keeps what its variables hold: ``record`` says it of pages, None of none.

    ``pages`` is the operator as Spark sees it: a variable with a binary value.
    """

    record: PagesRecord | None = None
    pages: OperatorShape | None = None


@dataclass(frozen=True)
class Layout:
    """The ``old`` and the ``new`` way in which operator ``number`` keeps its variables.

    ``files`` are those of the new checkpoint that tell of it, by their names; what is not carried
    over of the old one is named in ``left``, files and folders.
    """

    number: int
    old: Paging
    new: Paging
    files: Mapping[str, bytes] = field(default_factory=dict)
    left: tuple[str, ...] = ()


def paged_families(
    plans: tuple[FamilyPlan, ...], pages: OperatorShape, record: PagesRecord
) -> Iterator[FamilyPlan]:
    """Each family of the operator ``pages``, made from those that ``plans`` keep."""
    kept = [each for each in plans if each.old is not None and not each.is_derived]
    for place in all_families(pages):
        name = family_label(pages, place)
        plan = FamilyPlan(name, place, record=record)
        if is_derived(place.family.name):
            yield replace(plan, is_derived=True)
        elif is_unused(pages, place.family):
            yield plan
        elif is_pages(place.family.name):
            yield replace(plan, way="pages", parts=tuple(p for p in kept if _is_in_pages(p)))
        elif is_large(place.family.name):
            large = tuple(each for each in kept if not is_timers(each.new.family.name))
            yield replace(plan, way="large values", parts=large)
        elif is_timers(place.family.name):
            yield replace(plan, way="page timers", parts=tuple(_timers(kept, place)))
        else:
            yield plan


def _is_in_pages(plan: FamilyPlan) -> bool:
    """Whether pages have it; of timers, which Spark has by key and by time, those by key."""
    name = plan.new.family.name
    return not is_timers(name) or name.endswith(_BY_KEY)


def _timers(plans: list[FamilyPlan], place: FamilyAddress) -> Iterator[FamilyPlan]:
    return (each for each in plans if each.new.family.name == place.family.name)
