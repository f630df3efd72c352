"""What the families of a partition hold, followed write by write: see `content_hash`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from statemigrate.embedded.storage.content_hash import Contents, change
from statemigrate.embedded.working.unwritten import WriteMany

_WAITING = 1_024
"""Writes of a family that wait for each other; hashing many takes half of the time for each."""
_MANY = 512
"""Writes at once that wait for no others."""
_MOST_BYTES = 1 << 20
"""Bytes of values with which nothing waits any more."""
WriteBefore = Callable[[bytes, bytes | None, bytes | None], None]
"""Takes a key, its value before, and its value from now on; None is no value."""


class Tally:
    """The contents of each family, from those at the beginning and each write since.

    Whoever writes says what was there before: what a family held of the key at that moment.
    """

    def __init__(self, contents: Mapping[str, Contents]) -> None:
        self._contents = dict(contents)
        self._waiting: dict[str, _Waiting] = {}

    def begin(self, contents: Mapping[str, Contents]) -> None:
        """Forget what was noted so far; these are the contents now."""
        self._note_waiting()
        self._contents = dict(contents)

    def adding(self, family: str) -> WriteBefore:
        """What notes single writes of a family."""
        return self._waiting_of(family).add

    def add_many(
        self,
        family: str,
        keys: Sequence[bytes],
        before: Sequence[bytes | None],
        after: Sequence[bytes | None],
    ) -> None:
        """Note several writes."""
        if len(keys) >= _MANY:
            self._note(family, keys, before, after)
        else:
            self._waiting_of(family).add_many(keys, before, after)

    def drop(self, family: str) -> None:
        """Note that a family was dropped with all that is in it."""
        self._note_waiting()
        self._contents.pop(family, None)

    def contents(self) -> dict[str, Contents]:
        """By family that holds anything, what it holds."""
        self._note_waiting()
        nothing = Contents()
        return {name: each for name, each in sorted(self._contents.items()) if each != nothing}

    def _waiting_of(self, family: str) -> _Waiting:
        found = self._waiting.get(family)
        if found is None:
            found = self._waiting[family] = _Waiting(partial(self._note, family))
        return found

    def _note(
        self,
        family: str,
        keys: Sequence[bytes],
        before: Sequence[bytes | None],
        after: Sequence[bytes | None],
    ) -> None:
        known = self._contents.get(family, Contents())
        self._contents[family] = known + change(keys, before, after)

    def _note_waiting(self) -> None:
        for each in self._waiting.values():
            each.note()


class _Waiting:
    def __init__(self, note: WriteMany) -> None:
        self._note = note
        self._bytes = 0
        self._keys: list[bytes] = []
        self._before: list[bytes | None] = []
        self._after: list[bytes | None] = []

    def add(self, key: bytes, before: bytes | None, after: bytes | None) -> None:
        self._keys.append(key)
        self._before.append(before)
        self._after.append(after)
        self._bytes += len(before or b"") + len(after or b"")
        self._note_if_full()

    def add_many(
        self,
        keys: Sequence[bytes],
        before: Sequence[bytes | None],
        after: Sequence[bytes | None],
    ) -> None:
        self._keys += keys
        self._before += before
        self._after += after
        self._bytes += sum([len(each) for each in (*before, *after) if each is not None])
        self._note_if_full()

    def _note_if_full(self) -> None:
        if len(self._keys) >= _WAITING or self._bytes >= _MOST_BYTES:
            self.note()

    def note(self) -> None:
        if self._keys:
            self._note(self._keys, self._before, self._after)
            self._bytes = 0
            self._keys, self._before, self._after = [], [], []
