"""What becomes of the rows of one family of one operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from statemigrate.checkpoint.operators import (
    OperatorShape,
    is_derived,
    is_timers,
    kind_of,
)
from statemigrate.native import is_pages
from statemigrate.pages import RECORDS, PagesRecord, is_large, record_name
from statemigrate.rewrite.aggregate_pairing import FunctionPairing
from statemigrate.rewrite.column_pairing import (
    FamilyAddress,
    all_families,
    family_label,
    is_unused,
    store_families,
)
from statemigrate.rewrite.fields import StructChange
from statemigrate.rewrite.script_ways import Scripted

Change = Literal["kept", "values", "keys", "kind", "joined", "paged", "new", "derived"]
Expiry = Literal["never", "kept", "told", "ends"]
"""When new values expire: as the old ones do, or as the author says; or they do not any more."""


@dataclass(frozen=True)
class _Family:
    """A family of the new checkpoint: ``name`` is how users call it."""

    name: str
    new: FamilyAddress
    _change: ClassVar[Change] = "new"

    @property
    def sources(self) -> tuple[FamilyAddress, ...]:
        """The old families that rows come from."""
        return ()

    @property
    def change(self) -> Change:
        """In a word, what becomes of its rows."""
        return self._change

    @property
    def expiry(self) -> Expiry:
        """What becomes of the moments at which values expire."""
        return "never"


@dataclass(frozen=True)
class NewFamily(_Family):
    """One that begins without rows."""


@dataclass(frozen=True)
class DerivedFamily(_Family):
    """One that is written from the rows of another, as the length of a list is."""

    _change = "derived"


@dataclass(frozen=True)
class ContinuedFamily(_Family):
    """One whose rows come from the family ``old``."""

    old: FamilyAddress

    @property
    def sources(self) -> tuple[FamilyAddress, ...]:
        """See `_Family.sources`."""
        return (self.old,)

    @property
    def expiry(self) -> Expiry:
        """See `_Family.expiry`."""
        return expiry_between(self.old, self.new)


@dataclass(frozen=True)
class MatchedFamily(ContinuedFamily):
    """One whose fields go by their names."""

    key: StructChange
    value: StructChange

    @property
    def change(self) -> Change:
        """See `_Family.change`."""
        if not keeps_kind(self.old, self.new):
            return "kind"
        if not self.key.is_identity:
            return "keys"
        is_kept = self.value.is_identity and self.expiry in ("never", "kept")
        return "kept" if is_kept else "values"


@dataclass(frozen=True)
class MatchedRows(MatchedFamily):
    """One whose rows become one row each."""


@dataclass(frozen=True)
class FunctionRows(MatchedRows):
    """One whose values are buffers of aggregate ``functions``, and go by these, not by names."""

    functions: FunctionPairing


@dataclass(frozen=True)
class MatchedEntries(MatchedFamily):
    """One whose rows are taken apart into single entries, which are put together again."""


@dataclass(frozen=True)
class ScriptedFamily(ContinuedFamily):
    """One whose rows the author's functions change, and nothing is matched."""

    # What a script runs has another address each time it is loaded.
    script: Scripted = field(repr=False)

    @property
    def change(self) -> Change:
        """See `_Family.change`."""
        if not keeps_kind(self.old, self.new):
            return "kind"
        return "keys" if self.script.changes_keys else "values"

    @property
    def expiry(self) -> Expiry:
        """See `_Family.expiry`."""
        return expiry_between(self.old, self.new, self.script)


@dataclass(frozen=True)
class ScriptedRows(ScriptedFamily):
    """One whose rows scripts take as they are."""


@dataclass(frozen=True)
class ScriptedEntries(ScriptedFamily):
    """One whose rows are taken apart into entries for scripts; a join's key has ``is_numbered``."""

    is_numbered: bool


@dataclass(frozen=True)
class CountFamily(ContinuedFamily):
    """The numbers of a join's rows, counted again of the part ``counted``, whose keys change."""

    counted: str

    _change = "keys"


@dataclass(frozen=True)
class TimeoutFamily(ContinuedFamily):
    """The timers of a processor, made of the timeouts of a function's groups."""

    _change = "kind"


@dataclass(frozen=True)
class CombinedFamily(_Family):
    """One whose rows come from several families, the ``parts``."""

    parts: tuple[ContinuedFamily, ...]

    @property
    def sources(self) -> tuple[FamilyAddress, ...]:
        """See `_Family.sources`."""
        return tuple(each.old for each in self.parts)


@dataclass(frozen=True)
class JoinedFamily(CombinedFamily):
    """One that several become, whose entries are merged in the order of the ``parts``.

    What each brings is of the form that the ``script`` takes, or else of the new family's.
    """

    parts: tuple[MatchedEntries | ScriptedEntries, ...]
    script: Scripted | None = field(repr=False)

    _change = "joined"

    @property
    def expiry(self) -> Expiry:
        """See `_Family.expiry`."""
        found = {each.expiry for each in self.parts}
        expires = self.new.family.wrapping == "expiry"
        if expires and self.script is not None and self.script.restarts:
            return "told"
        words: tuple[Expiry, ...] = ("told", "ends", "kept")
        return next((word for word in words if word in found), "never")


@dataclass(frozen=True)
class PagedFamily(CombinedFamily):
    """One of the families that have the entries of ``parts`` in pages, as ``record`` says."""

    record: PagesRecord

    _change = "paged"


@dataclass(frozen=True)
class PackedPages(PagedFamily):
    """The pages themselves."""


@dataclass(frozen=True)
class PageTimerFamily(PagedFamily):
    """Spark's timers of pages."""


@dataclass(frozen=True)
class LargeValueFamily(PagedFamily):
    """The values that are too large for their pages; their rows are counted with the pages."""


EntryFamily = MatchedEntries | ScriptedEntries
ChangedFamily = (
    MatchedRows
    | ScriptedRows
    | MatchedEntries
    | ScriptedEntries
    | CountFamily
    | TimeoutFamily
    | JoinedFamily
    | PackedPages
    | PageTimerFamily
    | LargeValueFamily
)
"""What becomes of old rows."""
FamilyPlan = NewFamily | DerivedFamily | ChangedFamily


def changed_families(plans: Iterable[FamilyPlan]) -> list[ChangedFamily]:
    """Those that have old rows."""
    return [each for each in plans if not isinstance(each, NewFamily | DerivedFamily)]


def keeps_kind(old: FamilyAddress, new: FamilyAddress) -> bool:
    """Whether each row can become one row, by itself."""
    return state_kind(old) == state_kind(new) and old.family.wrapping != "state"


def expiry_between(
    old: FamilyAddress, new: FamilyAddress, script: Scripted | None = None
) -> Expiry:
    """What becomes of the moments at which values expire, where ``new`` goes on with ``old``."""
    expired, expires = (each.family.wrapping == "expiry" for each in (old, new))
    if not expires:
        return "ends" if expired else "never"
    restarts = script is not None and script.restarts
    return "kept" if expired and not restarts else "told"


def families_left(old: OperatorShape, plans: Sequence[FamilyPlan]) -> list[str]:
    """The names of old families that no new one goes on with."""
    return [name for name, _ in unclaimed_families(old, plans)]


def unclaimed_families(
    old: OperatorShape, plans: Sequence[FamilyPlan]
) -> list[tuple[str, FamilyAddress]]:
    """The old families that no new one goes on with, by their names."""
    return [
        (name, place)
        for name, place in store_families(old)
        if not any(place.is_at(source) for each in plans for source in each.sources)
    ]


def is_aggregation(operator: OperatorShape) -> bool:
    """Whether the values are buffers of aggregation functions."""
    kind = kind_of(operator.name)
    return kind.has_buffers and not kind.has_sessions


def has_functions(operator: OperatorShape) -> bool:
    """Whether values have buffers of aggregate functions, behind nothing or behind the key."""
    return kind_of(operator.name).has_buffers


def state_kind(place: FamilyAddress) -> str:
    """What a family keeps under a key, in words."""
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
    """How an operator keeps what its variables hold in pages, as ``record`` says.

    ``pages`` is the operator as Spark sees it: a variable with a binary value.
    """

    record: PagesRecord
    pages: OperatorShape


@dataclass(frozen=True)
class VariablesLayout:
    """The ``old`` and the ``new`` way in which operator ``number`` keeps its variables.

    Variables without pages have no `Paging`. ``files`` are those of the new checkpoint that tell of
    it, by their names; what is not carried over of the old one is named in ``left``, files and
    folders.
    """

    number: int
    old: Paging | None
    new: Paging | None
    files: Mapping[str, bytes] = field(default_factory=dict)
    left: tuple[str, ...] = ()


def paged_families(
    plans: Sequence[FamilyPlan], pages: OperatorShape, record: PagesRecord
) -> Iterator[FamilyPlan]:
    """Each family of the operator ``pages``, made from those that ``plans`` keep."""
    kept = [each for each in plans if isinstance(each, ContinuedFamily)]
    for place in all_families(pages):
        name, kind = family_label(pages, place), place.family.name
        parts = tuple(each for each in kept if _is_part(each.new.family.name, kind))
        if is_derived(kind):
            yield DerivedFamily(name, place)
        elif not parts or is_unused(pages, place.family):
            yield NewFamily(name, place)
        elif is_pages(kind):
            yield PackedPages(name, place, parts, record)
        elif is_large(kind):
            yield LargeValueFamily(name, place, parts, record)
        else:
            yield PageTimerFamily(name, place, parts, record)


def _is_part(name: str, kind: str) -> bool:
    """Whether the family ``name`` goes into that family of pages which is called ``kind``.

    Of timers, which Spark has by key and by time, those by key go into pages.
    """
    if is_pages(kind):
        return not is_timers(name) or name.endswith(_BY_KEY)
    return not is_timers(name) if is_large(kind) else is_timers(kind) and name == kind
