"""What the families of a partition hold, followed write by write: see `content_hash`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from statemigrate.embedded.storage.content_hash import Contents, change

_WAITING = 1_024
"""Writes of a family that wait for each other; hashing many takes half of the time for each."""
_LARGE = 16 << 10
"""Bytes of a value that waits for nothing."""
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
        return self._waiting.setdefault(family, _Waiting(self, family)).add

    def add_many(
        self,
        family: str,
        keys: Sequence[bytes],
        before: Sequence[bytes | None],
        after: Sequence[bytes | None],
    ) -> None:
        """Note several writes."""
        known = self._contents.get(family, Contents())
        self._contents[family] = known + change(keys, before, after)

    def drop(self, family: str) -> None:
        """Note that a family was dropped with all that is in it."""
        self._note_waiting()
        self._contents.pop(family, None)

    def contents(self) -> dict[str, Contents]:
        """By family that holds anything, what it holds."""
        self._note_waiting()
        nothing = Contents()
        return {name: each for name, each in sorted(self._contents.items()) if each != nothing}

    def _note_waiting(self) -> None:
        for each in self._waiting.values():
            each.note()


class _Waiting:
    def __init__(self, tally: Tally, family: str) -> None:
        self._tally = tally
        self._family = family
        self._keys: list[bytes] = []
        self._before: list[bytes | None] = []
        self._after: list[bytes | None] = []

    def add(self, key: bytes, before: bytes | None, after: bytes | None) -> None:
        self._keys.append(key)
        self._before.append(before)
        self._after.append(after)
        size = len(before or b"") + len(after or b"")
        if len(self._keys) >= _WAITING or size >= _LARGE:
            self.note()

    def note(self) -> None:
        if self._keys:
            self._tally.add_many(self._family, self._keys, self._before, self._after)
            self._keys, self._before, self._after = [], [], []
