"""What the log knows of stores, what a start declares of them, and in what the two differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from statemigrate.deployment import StoredStore, StorePlan
from statemigrate.logbook.events import Change, Event, StoreChange
from statemigrate.logbook.outcomes import LaterStarts


@dataclass(frozen=True)
class Standing:
    """A store as code or state has it: the revision that is written, and the live families.

    ``order`` are the revisions of its scripts, oldest first.
    """

    revision: str
    families: tuple[str, ...]
    order: tuple[str, ...] = ()

    @classmethod
    def of_plan(cls, plan: StorePlan, *, but: frozenset[str] = frozenset()) -> Standing:
        """What a plan declares, without the families that it drops."""
        names = tuple(each.name for each in (plan.target, *plan.sources) if each.name not in but)
        return cls(plan.target.revision, names, plan.lineage.revisions)

    @classmethod
    def of_stored(cls, stored: StoredStore) -> Standing:
        """What a checkpoint has."""
        return cls(stored.target.revision, tuple(each.name for each in stored.families))

    def with_families(self, names: tuple[str, ...]) -> Standing:
        """The same with more live families."""
        return replace(self, families=(*self.families, *names))

    def after(self, store: str, before: str | None) -> StoreChange:
        """What it is for a store that was at the revision ``before``."""
        change = _change(before, self.revision, self.order)
        return StoreChange(store, change, before, self.revision, self.families)


@dataclass(frozen=True)
class Facts:
    """What the checkpoint itself says of stores: as of ``batch``, which they were at by then.

    The log is compared up to the batch ``until``, the same one where it is None: a start may have
    left its record, and no batch.
    """

    stores: Mapping[str, Standing] = field(default_factory=dict)
    batch: int = -1
    until: int | None = None


def _change(before: str | None, after: str, order: tuple[str, ...]) -> Change:
    if before is None:
        return "first"
    if before == after:
        return "none"
    if before not in order or after not in order:
        return "other"
    return "upgrade" if order.index(before) < order.index(after) else "downgrade"


def last_known(events: Iterable[Event], store: str) -> StoreChange | None:
    """What the newest of ``events``, which come newest first, says of a store."""
    event = last_event(events, store)
    return None if event is None else next(each for each in event.stores if each.store == store)


def last_event(events: Iterable[Event], store: str) -> Event | None:
    """The newest of ``events`` that says something of a store."""
    return next((e for e in events if any(each.store == store for each in e.stores)), None)


def has_family(events: Iterable[Event], store: str, family: str) -> bool:
    """Whether any event has a family of a store."""
    return any(
        family in each.families for event in events for each in event.stores if each.store == store
    )


def _last_true(
    events: Iterable[Event], store: str, until: int, is_whole_query: bool
) -> StoreChange | None:
    """As `last_known`, without starts that are known to have come to nothing."""
    later = LaterStarts(is_whole_query)
    for event in events:
        is_begun = event.verb in ("start", "retire")
        if event.batch <= until and not (is_begun and later.replaced(event, store)):
            for each in event.stores:
                if each.store == store:
                    return each
        later.add(event)
    return None


def unknown(
    events: Iterable[Event], facts: Facts, is_whole_query: bool = False
) -> tuple[StoreChange, ...]:
    """What the checkpoint's state says and the log does not.

    An older release has run meanwhile, or a process ended before it could tell the log. The
    parameter ``is_whole_query`` is that of `Note`.
    """
    until = facts.batch if facts.until is None else facts.until
    found = []
    for store, standing in facts.stores.items():
        noted = _last_true(events, store, until, is_whole_query)
        if noted is None or _differs(standing, noted, is_whole_query):
            found.append(standing.after(store, None if noted is None else noted.revision))
    return tuple(found)


def _differs(standing: Standing, noted: StoreChange, is_whole_query: bool) -> bool:
    """Whether the state is another one than the log says.

    A log of Spark's own state may have fewer families: those that no start looked for.
    """
    stored, logged = set(standing.families), set(noted.families)
    families = stored != logged if is_whole_query else stored < logged
    return noted.revision != standing.revision or families


def is_restart(
    events: Iterable[Event],
    stores: Mapping[str, Standing],
    code: str | None,
    is_whole_query: bool,
) -> bool:
    """Whether the last start was of just these stores, revisions and families, and of this code."""
    last = _last_start(events, stores, is_whole_query)
    if last is None:
        return not stores
    return (
        last.names_all_stores
        and last.stamp.code == code
        and {each.store: each.revision for each in last.stores}
        == {store: each.revision for store, each in stores.items()}
        and all(is_noted(events, store, each) for store, each in stores.items())
    )


def _last_start(
    events: Iterable[Event], stores: Mapping[str, Standing], is_whole_query: bool
) -> Event | None:
    """The last start of the query, or of the operator that has one of these stores."""
    for event in events:
        if event.verb == "start" and (
            is_whole_query or any(each.store in stores for each in event.stores)
        ):
            return event
    return None


def last_revision(events: Iterable[Event], store: str) -> str | None:
    """The revision that was noted of a store last."""
    noted = last_known(events, store)
    return None if noted is None else noted.revision


def is_noted(events: Iterable[Event], store: str, standing: Standing) -> bool:
    """Whether the newest event of a store says the same of it."""
    noted = last_known(events, store)
    return (
        noted is not None
        and noted.revision == standing.revision
        and set(noted.families) == set(standing.families)
    )
