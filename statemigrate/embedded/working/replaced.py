"""What a write of a family replaces, which mostly somebody has just read.

A processor gets a value before it updates it, a backfill scans the values that it takes away, and
looks whether there are any where it puts them. What nobody has read is read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statemigrate.blocks import BYTES_IN_BLOCK
from statemigrate.embedded.working.lookup import Lookup
from statemigrate.embedded.working.unwritten import UNKNOWN

_MOST = 4_096
"""Scanned records that are remembered at most."""


class Replaced:
    """The values that a family holds of keys which are about to be written.

    A value that was scanned, or found absent, is believed as long as nothing was written since but
    by `by_delete`, and that only at smaller keys: as a backfill does it, behind its scan.
    """

    def __init__(self, column: Any) -> None:
        self._lookup = Lookup(column)
        self._scan = 0
        self._scanned: dict[bytes, bytes] = {}
        self._bytes = 0
        self._deleted_to: bytes | None = None
        self._absent: Sequence[bytes] | None = None

    def scan(self) -> int:
        """Begin a scan, of the records as they are now; its number."""
        self._forget()
        return self._scan

    def scanned(self, scan: int, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Remember what a scan has come to, unless another one, or a write, has come meanwhile."""
        if scan != self._scan:
            return
        if len(self._scanned) >= _MOST or self._bytes >= BYTES_IN_BLOCK:
            self._scanned, self._bytes = {}, 0
        self._scanned.update(zip(keys, values, strict=True))
        self._bytes += sum(map(len, values))

    def absent(self, keys: Sequence[bytes]) -> None:
        """Remember that the family holds none of these, for the write that comes next."""
        self._absent = keys

    def by_block(
        self, keys: Sequence[bytes], known: Sequence[bytes | None]
    ) -> Sequence[bytes | None]:
        """Of a block of writes, some of which know what they replace."""
        self._forget()
        if UNKNOWN not in known:
            return known
        asked = [key for key, each in zip(keys, known, strict=True) if each is UNKNOWN]
        held = self._lookup.held(asked)
        return [
            held.get(key) if each is UNKNOWN else each
            for key, each in zip(keys, known, strict=True)
        ]

    def by_put(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """Of many writes."""
        is_absent = self._absent is keys
        self._forget()
        return [None] * len(keys) if is_absent else self._held(keys)

    def by_delete(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """Of many deletes."""
        self._absent = None
        if not keys:
            return []
        before: Sequence[bytes | None] = list(map(self._scanned.get, keys))
        if None in before or (self._deleted_to is not None and min(keys) <= self._deleted_to):
            before = self._held(keys)
        last = max(keys)
        self._deleted_to = last if self._deleted_to is None else max(last, self._deleted_to)
        return before

    def _held(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        held = self._lookup.held(list(keys)) if keys else {}
        return list(map(held.get, keys))

    def _forget(self) -> None:
        # Whatever a scan that has begun before comes to may be another value by now.
        self._scan += 1
        self._scanned, self._bytes = {}, 0
        self._deleted_to = self._absent = None
