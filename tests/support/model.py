"""The rules of dual access, said once more over plain dictionaries, for the state machine."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from statemigrate.deployment import Kind
from statemigrate.families import Span
from support.notes import OLD, REVISIONS, carried

Place = tuple[str, str]


class Model:
    """Every family's content, the cursors and quarantined keys: as committed, and as changed."""

    def __init__(self, kinds: dict[str, Kind]) -> None:
        self.kinds = kinds
        self.target = OLD
        self.write_on_read = True
        self.families: dict[Place, dict[bytes, Any]] = {}
        self.cursors: dict[Place, bytes] = {}
        self.quarantined: set[tuple[str, str, bytes]] = set()
        self.live: dict[str, frozenset[str]] = {store: frozenset() for store in kinds}
        self.touched = dict.fromkeys(kinds, 0)
        self.backfilled = dict.fromkeys(kinds, 0)
        self._committed = self._state()

    def _state(self) -> Any:
        return copy.deepcopy((self.families, self.cursors, self.quarantined, self.live))

    def open(self, target: str, *, write_on_read: bool, first_of_run: bool) -> None:
        """A batch begins where the last commit left off."""
        self.families, self.cursors, self.quarantined, self.live = copy.deepcopy(self._committed)
        self.target, self.write_on_read = target, write_on_read
        self.touched = dict.fromkeys(self.kinds, 0)
        self.backfilled = dict.fromkeys(self.kinds, 0)
        for store in self.kinds:
            self.live[store] |= {target}
            self._forget(store, target)
            for revision in self.sources(store) if first_of_run else ():
                if any(mark[:2] == (store, revision) for mark in self.quarantined):
                    self._forget(store, revision)

    def commit(self) -> None:
        """What the batch did is what the next one starts from."""
        self.quarantined = {
            mark for mark in self.quarantined if mark[2] in self.entries(mark[0], mark[1])
        }
        self._committed = self._state()

    def drained(self) -> list[Place]:
        """The families that may be retired."""
        return [
            (store, revision)
            for store in self.kinds
            for revision in self.live[store] - {self.target}
            if not self.entries(store, revision)
        ]

    def retire(self, store: str, revision: str) -> None:
        """A drained family is no longer live."""
        self.live[store] -= {revision}
        self._forget(store, revision)

    def _forget(self, store: str, revision: str) -> None:
        self.cursors.pop((store, revision), None)
        self.quarantined = {m for m in self.quarantined if m[:2] != (store, revision)}

    def entries(self, store: str, revision: str) -> dict[bytes, Any]:
        """The content of one family."""
        return self.families.setdefault((store, revision), {})

    def sources(self, store: str) -> list[str]:
        """Live revisions other than the target, newest first."""
        return sorted(self.live[store] - {self.target}, key=REVISIONS.index, reverse=True)

    def found(self, store: str, key: bytes) -> str | None:
        """The revision a key is stored at."""
        places = [self.target, *self.sources(store)]
        return next((each for each in places if key in self.entries(store, each)), None)

    def shown(self, store: str, revision: str, key: bytes) -> Any:
        """The value of a stored key at the target's revision."""
        value = copy.deepcopy(self.entries(store, revision)[key])
        if revision == self.target:
            return value
        if self.kinds[store] == "list":
            return [carried(element, revision, self.target) for element in value]
        return carried(value, revision, self.target)

    def peek(self, store: str, key: bytes) -> Any:
        """Rule 2."""
        revision = self.found(store, key)
        return None if revision is None else self.shown(store, revision, key)

    def get(self, store: str, key: bytes) -> Any:
        """Rule 1."""
        value = self.peek(store, key)
        if value is not None and self.write_on_read and self.found(store, key) != self.target:
            self.touched[store] += 1
            self.put(store, key, value)
        return value

    def put(self, store: str, key: bytes, value: Any) -> None:
        """Rule 3."""
        self.delete(store, key)
        self.entries(store, self.target)[key] = copy.deepcopy(value)

    def delete(self, store: str, key: bytes) -> None:
        """Rule 4."""
        for revision in REVISIONS:
            self.entries(store, revision).pop(key, None)

    def scan(self, store: str, span: Span) -> list[tuple[bytes, Any]]:
        """Rule 5."""
        keys = {
            key for each in REVISIONS for key in self.entries(store, each) if span.contains(key)
        }
        return [(key, self.peek(store, key)) for key in sorted(keys, reverse=span.reverse)]

    def clear(self, store: str, span: Span) -> None:
        """Remove all keys of a span."""
        for revision in REVISIONS:
            for key in [key for key in self.entries(store, revision) if span.contains(key)]:
                del self.entries(store, revision)[key]

    def append(self, store: str, key: bytes, values: list[Any]) -> None:
        """Rule 6: an unmigrated list is migrated first."""
        present = self.peek(store, key) or []
        if self.found(store, key) not in (None, self.target):
            self.touched[store] += 1
        self.put(store, key, [*present, *values])

    def backfill(self, store: str, revision: str, rows: int, poisoned: Callable[[], Any]) -> None:
        """Migrate what comes after the cursor; ``poisoned`` is called for what does not migrate."""
        cursor = self.cursors.get((store, revision), b"")
        left = sorted(key for key in self.entries(store, revision) if key > cursor)
        for key in left[:rows]:
            try:
                value = self.shown(store, revision, key)
            except Exception:
                poisoned()
                self.quarantined.add((store, revision, key))
            else:
                self.put(store, key, value)
                self.backfilled[store] += 1
            self.cursors[store, revision] = key
