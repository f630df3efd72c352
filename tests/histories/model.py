"""What every key must hold after every batch: a dictionary, and nothing of the product."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from corners import shown, user_keys_of, values_of
from formats import STORES

Key = dict[str, Any]
View = dict[int, Key]
Event = tuple[int, int, int, list[list[Any]]]
"""An input row: the key's number, the file's, its place in the order, what to do."""


class Model:
    """The logical state by the number of the key, before and after each batch.

    Values are kept as the numbers of corner cases; `shown_key` makes them text.
    """

    def __init__(self, types: Mapping[str, str], user_key: str) -> None:
        self._types = dict(types)
        self._user_keys = user_keys_of(user_key)[1]
        self._after: dict[int, View] = {-1: {}}
        self._files: dict[int, frozenset[int]] = {}

    def batch(self, number: int, events: Iterable[Event]) -> dict[int, str]:
        """A batch that ran, maybe not for the first time: what the code must have said, by key."""
        events = sorted(events, key=lambda event: event[1:3])
        files = frozenset(event[1] for event in events)
        assert self._files.setdefault(number, files) == files, "another input on the second run"
        view = {key: dict(held) for key, held in self.after(number - 1).items()}
        said: dict[int, str] = {}
        for key in dict.fromkeys(event[0] for event in events):
            ops = [op for event in events if event[0] == key for op in event[3]]
            held = view.setdefault(key, _nothing())
            before = self.shown_key(held)
            for op in ops:
                held = view[key] = _done(held, op)
            is_blind = any(op[0] == "blind" for op in ops)
            said[key] = "blind" if is_blind else f"{before} -> {self.shown_key(held)}"
        self._after = {at: each for at, each in self._after.items() if at < number}
        self._after[number] = view
        return said

    def after(self, batch: int) -> View:
        """The state after a batch; control batches change nothing."""
        return self._after[max(at for at in self._after if at <= batch)]

    def forget(self, batch: int) -> None:
        """Everything after that batch: the checkpoint is an older one again."""
        self._after = {at: each for at, each in self._after.items() if at <= batch}
        self._files = {at: each for at, each in self._files.items() if at <= batch}

    def files(self, batch: int) -> set[int]:
        """The files of all batches up to that one."""
        return {each for at, files in self._files.items() if at <= batch for each in files}

    def shown_key(self, held: Key) -> str:
        """All that a key holds, as text."""
        return str({store: self.shown_store(store, held) for store in self._types})

    def shown_store(self, store: str, held: Key) -> str:
        """What a key holds in one store, as text."""
        cases, found = values_of(self._types[store]), held[store]
        if store == "profile":
            return "nothing" if found is None else shown(cases[found])
        if store == "events":
            return shown([cases[each] for each in found])
        entries = (f"{shown(self._user_keys[u])}: {shown(cases[i])}" for u, i in found.items())
        return str(sorted(entries))


def _nothing() -> Key:
    return {"profile": None, "events": [], "totals": {}}


def _done(held: Key, op: list[Any]) -> Key:
    name, *given = op
    new = dict(held)
    if name == "set":
        new["profile"] = given[0]
    elif name == "append":
        new["events"] = [*held["events"], *given[0]]
    elif name == "put":
        new["events"] = given[0]
    elif name == "enter":
        new["totals"] = {**held["totals"], given[0]: given[1]}
    elif name == "remove":
        new["totals"] = {u: i for u, i in held["totals"].items() if u != given[0]}
    elif name == "clear":
        new[given[0]] = _nothing()[given[0]]
    return new


def is_held(store: str, held: Key) -> bool:
    """Whether the key has anything in the store."""
    return (
        held[store] not in (None, [], {}) if STORES[store] != "value" else held[store] is not None
    )
