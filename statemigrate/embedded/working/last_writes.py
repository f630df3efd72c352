"""The keys that changelogs leave: mostly the same ones, which are written once and not every time.

Where every batch writes every key, that is one record of RocksDB's instead of one a batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from statemigrate.embedded.storage.changelog import Columns, runs_of
from statemigrate.embedded.storage.database import Database

_KEYS, _BYTES = 1 << 16, 16 << 20
"""What is held of keys in memory at most, beside those of one block."""


class LastWrites:
    """Applies the blocks of changelogs to a database, with nothing under the keys."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, dict[bytes, bytes | None]] = {}
        self._bytes = 0

    def add(self, block: Columns) -> None:
        """Apply the records of a block, in their order."""
        for family, keys, values in runs_of(block):
            if family:
                self._wait(family, keys, values)
            else:
                self._drop(keys)
        if self._bytes >= _BYTES or sum(map(len, self._waiting.values())) >= _KEYS:
            self.write()

    def write(self) -> None:
        """Write what waits."""
        self._database.write(
            (family, list(last), list(last.values())) for family, last in self._waiting.items()
        )
        self._waiting.clear()
        self._bytes = 0

    def _wait(self, family: str, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        emptied = [None if value is None else b"" for value in values]
        self._waiting.setdefault(family, {}).update(zip(keys, emptied, strict=True))
        self._bytes += sum(map(len, keys))

    def _drop(self, names: Sequence[bytes]) -> None:
        # What was written before is dropped with it; what comes after is not.
        self.write()
        for name in names:
            self._database.drop(name.decode())
