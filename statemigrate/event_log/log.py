"""The event log of a checkpoint: reading it, appending to it, and each store's status by it.

What the log knows of stores, what a start declares of them, and in what the two differ.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from statemigrate.deployment import StoredStore, StorePlan
from statemigrate.errors import CorruptFileError, ForeignFileError, StatemigrateError, StorageError
from statemigrate.event_log.events import (
    ALL,
    OPERATOR,
    STORES,
    Change,
    Event,
    Stamp,
    StoreChange,
    Verb,
)
from statemigrate.files import Files, sealed, understood, unsealed

# Whether a start of the log was followed, at the same batch, by another one that took its turn.


@dataclass
class LaterStarts:
    """The starts that follow an event, gathered while a log is read from its newest event on.

    Of two starts at one batch the later one ran it. It names all of its stores, so that one which
    it does not name was not migrated by it either. ``is_whole_query`` is whether a start is of all
    operators of a query, as the embedded engine's is; on Spark's own state each operator has its
    own, and two are of the same one where they share a store.
    """

    is_whole_query: bool
    _starts: list[Event] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """The next older event."""
        if event.verb == "start":
            self._starts.append(event)

    def replaced(self, event: Event, store: str | None) -> bool | None:
        """Whether another start ran the batch of this one, for a store or for all of it.

        None where nobody can say: early logs name only the stores that were new to them, so one
        that a start does not name may have been part of it or not.
        """
        known: bool | None = False
        for later in self._same_batch(event):
            if any(each.store == store for each in later.stores):
                return True
            if self._is_same_operator(event, later):
                if later.names_all_stores:
                    return True
                known = None
        return known

    def _same_batch(self, event: Event) -> Iterable[Event]:
        for later in reversed(self._starts):
            if later.batch > event.batch:
                return
            if later.operator == event.operator:
                yield later

    def _is_same_operator(self, event: Event, later: Event) -> bool:
        names = {each.store for each in event.stores}
        return self.is_whole_query or any(each.store in names for each in later.stores)


@dataclass(frozen=True)
class StoreRevision:
    """A store as code or state has it: the revision that is written, and the live families.

    ``order`` are the revisions of its scripts, oldest first.
    """

    revision: str
    families: tuple[str, ...]
    order: tuple[str, ...] = ()

    @classmethod
    def of_plan(cls, plan: StorePlan, *, but: frozenset[str] = frozenset()) -> StoreRevision:
        """What a plan declares, without the families that it drops."""
        names = tuple(each.name for each in (plan.target, *plan.sources) if each.name not in but)
        return cls(plan.target.revision, names, plan.lineage.revisions)

    @classmethod
    def of_stored(cls, stored: StoredStore) -> StoreRevision:
        """What a checkpoint has."""
        return cls(stored.target.revision, tuple(each.name for each in stored.families))

    def with_families(self, names: tuple[str, ...]) -> StoreRevision:
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

    stores: Mapping[str, StoreRevision] = field(default_factory=dict)
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
    for store, status in facts.stores.items():
        noted = _last_true(events, store, until, is_whole_query)
        if noted is None or _differs(status, noted, is_whole_query):
            found.append(status.after(store, None if noted is None else noted.revision))
    return tuple(found)


def _differs(status: StoreRevision, noted: StoreChange, is_whole_query: bool) -> bool:
    """Whether the state is another one than the log says.

    A log of Spark's own state may have fewer families: those that no start looked for.
    """
    stored, logged = set(status.families), set(noted.families)
    families = stored != logged if is_whole_query else stored < logged
    return noted.revision != status.revision or families


def is_restart(
    events: Iterable[Event],
    stores: Mapping[str, StoreRevision],
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
    events: Iterable[Event], stores: Mapping[str, StoreRevision], is_whole_query: bool
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


def is_noted(events: Iterable[Event], store: str, status: StoreRevision) -> bool:
    """Whether the newest event of a store says the same of it."""
    noted = last_known(events, store)
    return (
        noted is not None
        and noted.revision == status.revision
        and set(noted.families) == set(status.families)
    )


# The log's files: one document an event, each under a name that nobody else uses.
#
# Two drivers that write at one moment both have their event: nothing is ever written over.


LOG = "statemigrate/log"
"""The folder, below the checkpoint."""
WRITABLE = f"{LOG}/.writable"
"""An empty file that `require_writable` leaves, which is no document of the log."""
LARGEST = 1 << 20
"""Bytes of a document; that of a hundred stores has some twenty thousand."""
NOTHING_DONE = "; nothing was done yet"
_NAME = re.compile(r"([0-9]{9})-[0-9a-f]{32}\.json")


@dataclass(frozen=True)
class LogDocument:
    """A document of the log: its file, and the event in it, or why that cannot be read."""

    name: str
    event: Event | None
    error: StatemigrateError | None = None


def newest_first(files: Files) -> Iterator[LogDocument]:
    """The documents of a checkpoint's log, each read when it is asked for.

    A damaged one is reported in its place. Raises `StorageError` where the log cannot be reached.
    """
    for name in reversed(names(files)):
        try:
            yield LogDocument(name, read_event(files, name))
        except (CorruptFileError, ForeignFileError) as error:
            yield LogDocument(name, None, error)


def names(files: Files) -> tuple[str, ...]:
    """The log's files, oldest first."""
    listed = files.list(LOG)
    return tuple(sorted(each.name for each in listed if is_document(each.name)))


def is_document(name: str) -> bool:
    """Whether a file of the checkpoint has the name of an event of its log."""
    folder, _, base_name = name.rpartition("/")
    return folder == LOG and _NAME.fullmatch(base_name) is not None


def read_event(files: Files, name: str) -> Event:
    """The event in a file. Raises `CorruptFileError` and `ForeignFileError`, which name it."""
    place = f"{files.location}/{name}"
    try:
        document = unsealed(files.get(name, most=LARGEST), place)
    except FileNotFoundError as error:
        raise CorruptFileError(
            "SM-LOG-001",
            f"{place} is gone",
            expected="a document of the log, as it was listed",
            found="no such file",
            next_action="run the same again; nothing of statemigrate removes documents of the log",
            path=place,
        ) from error
    return understood(place, "an event of the log", lambda: Event.from_json(document))


def document_after(last: str | None, event: Event, unique: str | None = None) -> tuple[str, bytes]:
    """The name and content of the document that follows the one named ``last``.

    ``unique`` is 32 hexadecimal digits for one that is made again under the same name.
    """
    found = None if last is None else _NAME.fullmatch(last.rpartition("/")[2])
    number = 0 if found is None else int(found[1]) + 1
    return f"{LOG}/{number:09}-{unique or uuid.uuid4().hex}.json", sealed(event.to_json())


def require_writable(files: Files) -> None:
    """Before something is done that the log records afterwards: make sure that it can.

    Raises the error of `append`. It is tried with a file that stays and is always the same one:
    who may make files need not have the right to remove them.
    """
    try:
        files.replace(WRITABLE, b"")
    except StorageError as error:
        raise _unwritable(files, error, NOTHING_DONE) from error


def append(files: Files, event: Event, so_far: str) -> None:
    """Add an event; ``so_far`` says what was done before.

    Raises `StorageError`, which says what to do, where it cannot be written.
    """
    last = next(reversed(names(files)), None)
    name, data = document_after(last, event)
    try:
        files.put(name, data)
    except StorageError as error:
        raise _unwritable(files, error, so_far) from error


def _unwritable(files: Files, error: StorageError, so_far: str) -> StorageError:
    return StorageError(
        "SM-LOG-002",
        f"the log of {files.location} cannot be written: {error.summary}",
        expected=f"the right to make files in {LOG}, below the checkpoint, as in all of it",
        found=error.found,
        next_action="give the user that runs the query, or this command, the right to write "
        f"there, and run the same again{so_far}",
        path=f"{files.location}/{LOG}",
    )


# Telling the log: at the start of a deployment, and after a command.


_DONE = ": what was to be done is done, and the query's next start tells the log of its stores"
_log = logging.getLogger("statemigrate.event_log")


@dataclass(frozen=True)
class Note:
    """What a deployment tells the log of itself when it starts, made on the driver.

    ``is_whole_query`` is whether ``stores`` are those of all operators of the query, so that the
    last start in the log is the one before this. Spark's own state has a start an operator.
    ``dropped`` are families, by store, that the first batch drops: ``stores`` are without them.
    ``operator`` is the name of an operator on pages: others may have stores of the same names.
    """

    stamp: Stamp
    stores: Mapping[str, StoreRevision] = field(default_factory=dict)
    is_whole_query: bool = False
    dropped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    operator: str = ""

    def start(self, files: Files, batch: int, facts: Facts) -> None:
        """Before the first batch, which is ``batch``: note what is new in this start.

        First what the checkpoint's state says and the log does not: the code that changed it did
        not write to the log, or ended before it could. A restart of what runs already adds nothing.
        Raises `StorageError` where the log cannot be written; nothing was done then.
        """
        known = LogEvents(files, self.operator)
        missing = unknown(known, facts, self.is_whole_query)
        if missing:
            found = Event.now("found", facts.batch, missing, self.stamp_of_finder, self._own())
            append(files, found, NOTHING_DONE)
            known.add(found)
        dropped = self._dropped(known)
        undropped = {
            store: each.with_families(dropped.get(store, ())) for store, each in self.stores.items()
        }
        if not any(
            is_restart(known, stores, self.stamp.code, self.is_whole_query)
            for stores in (self.stores, undropped)
        ):
            declared = tuple(
                each.after(store, last_revision(known, store)) for store, each in undropped.items()
            )
            event = Event.now("start", batch, declared, self.stamp, self._own({STORES: ALL}))
            append(files, event, NOTHING_DONE)
            known.add(event)
        self._retires(files, batch, known, dropped)

    def _dropped(self, known: LogEvents) -> dict[str, tuple[str, ...]]:
        """What is dropped of the families in the log: others were made empty, and never filled."""
        logged = {
            store: tuple(name for name in names if has_family(known, store, name))
            for store, names in self.dropped.items()
        }
        return {store: names for store, names in logged.items() if names}

    def _retires(
        self, files: Files, batch: int, known: LogEvents, dropped: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Note what the first batch drops; a start that is run again at that batch has done so."""
        changes = tuple(
            self.stores[store].after(store, last_revision(known, store)) for store in dropped
        )
        noted = [last_event(known, store) for store in dropped]
        if all(each and (each.verb, each.batch) == ("retire", batch) for each in noted):
            return
        names = ", ".join(sorted(name for each in dropped.values() for name in each))
        event = Event.now("retire", batch, changes, self.stamp, self._own({"dropped": names}))
        append(files, event, NOTHING_DONE)

    @property
    def stamp_of_finder(self) -> Stamp:
        """Without the code, which is not what made what was found."""
        return Stamp(None, self.stamp.by, self.stamp.statemigrate, self.stamp.spark)

    def retired(self, files: Files, batch: int, dropped: str) -> None:
        """Record families that a batch has dropped; a batch run again has recorded them already."""
        known = LogEvents(files, self.operator)
        changes = tuple(
            each.after(store, last_revision(known, store))
            for store, each in self.stores.items()
            if not is_noted(known, store, each)
        )
        if changes:
            details = self._own({"dropped": dropped})
            append(files, Event.now("retire", batch, changes, self.stamp, details), "")

    def done(
        self, files: Files, verb: Verb, batch: int, details: Mapping[str, str] | None = None
    ) -> None:
        """After a command: note what it made of the stores, and what else it did."""
        known = LogEvents(files, self.operator)
        stores = tuple(
            each.after(store, last_revision(known, store)) for store, each in self.stores.items()
        )
        append(files, Event.now(verb, batch, stores, self.stamp, self._own(details)), _DONE)

    def _own(self, details: Mapping[str, str] | None = None) -> dict[str, str]:
        """The details of an event, with the operator's name where it has one."""
        named = {OPERATOR: self.operator} if self.operator else {}
        return {**(details or {}), **named}


class LogEvents:
    """The events of a log, newest first; each document is read when somebody gets to it.

    They are those of the ``operator``, as of `Note`, and those that are of no one operator.
    """

    def __init__(self, files: Files, operator: str = "") -> None:
        self._operator = operator
        self._documents = newest_first(files)
        self._read: list[Event] = []
        self._added: list[Event] = []

    def __iter__(self) -> Iterator[Event]:
        yield from reversed(self._added)
        yield from self._read
        for noted in self._documents:
            if noted.event is None:
                _log.warning("a document of the log is passed over: %s", noted.error)
                continue
            if noted.event.operator not in ("", self._operator):
                continue
            self._read.append(noted.event)
            yield noted.event

    def add(self, event: Event) -> None:
        """One that was written meanwhile."""
        self._added.append(event)


def planned_revisions(plans: Mapping[str, StorePlan]) -> dict[str, StoreRevision]:
    """The revision and families that each planned store is written with."""
    return {store: StoreRevision.of_plan(plan) for store, plan in plans.items()}
