"""Telling the log: at the start of a deployment, and after a command."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from statemigrate.files import Files
from statemigrate.logbook.code import Stamp
from statemigrate.logbook.events import ALL, STORES, Event, Verb
from statemigrate.logbook.folder import NOTHING_DONE, append, newest_first
from statemigrate.logbook.standing import (
    Facts,
    Standing,
    has_family,
    is_noted,
    is_restart,
    last_event,
    last_revision,
    unknown,
)

_DONE = ": what was to be done is done, and the query's next start tells the log of its stores"
_log = logging.getLogger("statemigrate.logbook")


@dataclass(frozen=True)
class Note:
    """What a deployment tells the log of itself when it starts, made on the driver.

    ``is_whole_query`` is whether ``stores`` are those of all operators of the query, so that the
    last start in the log is the one before this. Spark's own state has a start an operator.
    ``dropped`` are families, by store, that the first batch drops: ``stores`` are without them.
    """

    stamp: Stamp
    stores: Mapping[str, Standing] = field(default_factory=dict)
    is_whole_query: bool = False
    dropped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def start(self, files: Files, batch: int, facts: Facts) -> None:
        """Before the first batch, which is ``batch``: note what is new in this start.

        First what the checkpoint's state says and the log does not: whoever changed that did not
        tell the log, or ended before it could. A restart of what runs already adds nothing. Raises
        `StorageError` where the log cannot be written; nothing was done then.
        """
        known = Known(files)
        missing = unknown(known, facts, self.is_whole_query)
        if missing:
            found = Event.now("found", facts.batch, missing, self.stamp_of_finder)
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
            event = Event.now("start", batch, declared, self.stamp, {STORES: ALL})
            append(files, event, NOTHING_DONE)
            known.add(event)
        self._retires(files, batch, known, dropped)

    def _dropped(self, known: Known) -> dict[str, tuple[str, ...]]:
        """What is dropped of the families in the log: others were made empty, and never filled."""
        logged = {
            store: tuple(name for name in names if has_family(known, store, name))
            for store, names in self.dropped.items()
        }
        return {store: names for store, names in logged.items() if names}

    def _retires(
        self, files: Files, batch: int, known: Known, dropped: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Note what the first batch drops; a start that is run again at that batch has done so."""
        changes = tuple(
            self.stores[store].after(store, last_revision(known, store)) for store in dropped
        )
        noted = [last_event(known, store) for store in dropped]
        if all(each and (each.verb, each.batch) == ("retire", batch) for each in noted):
            return
        names = ", ".join(sorted(name for each in dropped.values() for name in each))
        event = Event.now("retire", batch, changes, self.stamp, {"dropped": names})
        append(files, event, NOTHING_DONE)

    @property
    def stamp_of_finder(self) -> Stamp:
        """Without the code, which is not what made what was found."""
        return Stamp(None, self.stamp.by, self.stamp.statemigrate, self.stamp.spark)

    def retired(self, files: Files, batch: int, dropped: str) -> None:
        """Note families that a batch has dropped; one that is run again has told already."""
        known = Known(files)
        changes = tuple(
            each.after(store, last_revision(known, store))
            for store, each in self.stores.items()
            if not is_noted(known, store, each)
        )
        if changes:
            append(files, Event.now("retire", batch, changes, self.stamp, {"dropped": dropped}), "")

    def done(
        self, files: Files, verb: Verb, batch: int, details: Mapping[str, str] | None = None
    ) -> None:
        """After a command: note what it made of the stores, and what else it did."""
        known = Known(files)
        stores = tuple(
            each.after(store, last_revision(known, store)) for store, each in self.stores.items()
        )
        append(files, Event.now(verb, batch, stores, self.stamp, details), _DONE)


class Known:
    """The events of a log, newest first; each document is read when somebody gets to it."""

    def __init__(self, files: Files) -> None:
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
            self._read.append(noted.event)
            yield noted.event

    def add(self, event: Event) -> None:
        """One that was written meanwhile."""
        self._added.append(event)
