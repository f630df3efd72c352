"""What each key may be after a history: the rules of dual access over plain dictionaries.

Whether an untouched key was migrated depends on how far a backfill got. The model therefore has,
for each key, the options there are; a look at the state picks one of them, or finds none.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import NamedTuple

from support.histories.commands import Batch, Command
from support.histories.values import STORES, Note, shown_note

Place = tuple[str, int, int]
"""Store, grouping key, user key (0 where the store is no map)."""
Entry = tuple[str, str, int, int, str]


class Held(NamedTuple):
    """The family a key lies in, by revision, and its value; a list has several notes."""

    revision: str
    notes: tuple[Note, ...]

    def at(self, target: str) -> Held:
        """The same, migrated."""
        return Held(target, tuple(note.carried(self.revision, target) for note in self.notes))

    def shown(self, store: str) -> str:
        texts = [shown_note(self.revision, note) for note in self.notes]
        return "[" + ",".join(texts) + "]" if STORES[store] == "list" else texts[0]


Options = frozenset[Held | None]
_NOTHING: Options = frozenset([None])


class Model:
    """The options of every key; a key that is not there is one that has no value."""

    def __init__(self) -> None:
        self.options: dict[Place, Options] = {}

    def copied(self) -> Model:
        return copy.deepcopy(self)

    def batch(
        self,
        batch: Batch,
        target: str,
        stores: Iterable[str],
        *,
        write_on_read: bool = True,
        tables: bool = False,
    ) -> dict[int, list[frozenset[str | None]]]:
        """A micro-batch of code with some stores; for each key what its reads may answer.

        Code with ``tables`` reads all stores of a key. An entry of a map that it reads does not
        migrate, and neither does a value that it writes as it was.
        """
        answers: dict[int, list[frozenset[str | None]]] = {}
        for key, commands in batch.items():
            answers[key] = []
            before = self._of(key, stores) if tables else {}
            for command in (each for each in commands if each.store in stores):
                answer = self._obey(key, command, target, write_on_read=write_on_read)
                if command.verb == "read":
                    answers[key].append(answer)
            for place, options in before.items():
                moved = {None if held is None else held.at(target) for held in options}
                if self.options[place].issubset(options | moved):
                    self.options[place] = options | moved
        return answers

    def _of(self, key: int, stores: Iterable[str]) -> dict[Place, Options]:
        return {
            place: options
            for place, options in self.options.items()
            if place[1] == key and place[0] in stores
        }

    def may_migrate(self, stores: Iterable[str], target: str) -> None:
        """A backfill may have moved any key of some stores to the target."""
        for place, options in self.options.items():
            if place[0] in stores:
                moved = {held.at(target) for held in options if held is not None}
                self.options[place] = options | moved

    def found(self, entries: Iterable[Entry]) -> list[str]:
        """What is wrong with a state; where nothing is, its options are the ones that are left."""
        wrong, left = [], dict(self.options)
        seen: dict[Place, str] = {}
        for store, revision, key, user, text in entries:
            place = (store, key, user)
            if place in seen:
                wrong.append(f"{place} is in the families {seen[place]} and {revision}")
                continue
            seen[place] = revision
            options = self.options.get(place, _NOTHING)
            fits = {
                held
                for held in options
                if held is not None and held.revision == revision and held.shown(store) == text
            }
            if not fits:
                wrong.append(f"{place} is at {revision} {text[:200]}, not {_told(options, store)}")
            left[place] = frozenset(fits)
        for place, options in self.options.items():
            if place not in seen:
                if None not in options:
                    wrong.append(f"{place} is missing, not {_told(options, place[0])}")
                left[place] = _NOTHING
        if not wrong:
            self.options = {place: each for place, each in left.items() if each != _NOTHING}
        return wrong

    def _obey(
        self, key: int, command: Command, target: str, *, write_on_read: bool
    ) -> frozenset[str | None]:
        store, verb = command.store, command.verb
        if verb == "clear":
            for place in [each for each in self.options if each[:2] == (store, key)]:
                self.options[place] = _NOTHING
            return frozenset()
        place = (store, key, command.user_key if STORES[store] == "map" else 0)
        before = self.options.get(place, _NOTHING)
        written = tuple(Note(seed) for seed in command.seeds)
        migrated = {None if held is None else held.at(target) for held in before}
        after: Iterable[Held | None]
        if verb == "put":
            after = {Held(target, written)}
        elif verb == "append":
            after = {Held(target, (held.notes if held else ()) + written) for held in migrated}
        elif verb == "bump":
            after = {held and Held(target, _bumped(held.notes)) for held in migrated}
        elif verb == "delete":
            after = _NOTHING
        else:
            after = migrated if write_on_read else before
        self.options[place] = frozenset(after)
        return frozenset(held and held.shown(store) for held in migrated)


def _bumped(notes: tuple[Note, ...]) -> tuple[Note, ...]:
    return (notes[0].bumped(), *notes[1:])


def _told(options: Options, store: str) -> str:
    texts = [f"{h.revision} {h.shown(store)[:200]}" if h else "nothing" for h in options]
    return " or ".join(sorted(texts))
