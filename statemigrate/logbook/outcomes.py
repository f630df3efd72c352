"""Whether a start of the log was followed, at the same batch, by another one that took its turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from statemigrate.logbook.events import Event


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
            yield later

    def _is_same_operator(self, event: Event, later: Event) -> bool:
        names = {each.store for each in event.stores}
        return self.is_whole_query or any(each.store in names for each in later.stores)
