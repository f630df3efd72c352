"""The entries of one family in a page: sorted by key, encoded, sliced out when asked for."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import partial
from itertools import repeat

from statemigrate.families import Span
from statemigrate.pages import columns as outsides
from statemigrate.pages.columns import NEVER, ColumnMerge, Columns, Extent, is_over

_ENTRIES_A_SEARCH = 64
"""One look into the bytes for so many entries; slicing out all keys takes as long as a few."""

_ENTRIES_A_REPLACEMENT = 2
"""One value alone is put in another's place for so many entries; more are woven faster."""


class Section:
    """The entries as they were read, and what was changed since.

    ``count`` is how many there are now, and ``outside`` where large values lie; without it, all
    that is put lies in the page. Raises `PageError` for columns that do not fit together.
    """

    __slots__ = (
        "_at",
        "_changes",
        "_columns",
        "_data",
        "_extent",
        "_fetched",
        "_keys",
        "_outside",
        "_singly",
        "count",
    )

    def __init__(
        self, extent: Extent, data: bytes = b"", outside: outsides.Outside | None = None
    ) -> None:
        self.count = extent.entries
        self._extent = extent
        self._data = data
        self._columns = Columns(extent, data)
        # What was found of the keys that were read; all of them for those that look for many.
        self._at: dict[bytes, int] = {}
        self._keys: list[bytes] | None = None
        self._singly = extent.entries // _ENTRIES_A_SEARCH
        self._changes: dict[bytes, tuple[bytes, int] | None] = {}
        self._outside = outside
        self._fetched: dict[int, bytes] = {}

    @property
    def is_changed(self) -> bool:
        """Whether the entries differ from those that were read."""
        return bool(self._changes)

    def get(self, key: bytes) -> bytes | None:
        """The encoded value under ``key``, or None."""
        if key in self._changes:
            change = self._changes[key]
            return None if change is None else change[0]
        at = self._position(key)
        return None if at is None else self._old(at)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """`get` for several keys; fast for those that were read and have not changed."""
        places = self._positions(keys)
        if self._columns.outside or not self._changes.keys().isdisjoint(keys):
            return list(map(self.get, keys))
        return self._columns.values_at(places)

    def expiry(self, key: bytes) -> int:
        """When the entry under ``key`` expires: milliseconds since the epoch, or `NEVER`."""
        if key in self._changes:
            change = self._changes[key]
            return NEVER if change is None else change[1]
        at = self._position(key)
        return NEVER if at is None else self._columns.expires_at(at)

    def contains(self, key: bytes) -> bool:
        """Whether there is an entry under ``key``."""
        if key in self._changes:
            return self._changes[key] is not None
        return self._position(key) is not None

    def put(self, key: bytes, value: bytes, expiry: int = NEVER) -> None:
        """Write ``value`` under ``key``; the same value as was read is no change."""
        at = self._position(key)
        if at is None:
            if key not in self._changes:
                self.count += 1
                self._add(key)
        else:
            if self._changes.get(key, value) is None:
                self.count += 1
            if value == self._old(at) and expiry == self._columns.expires_at(at):
                self._changes.pop(key, None)
                return
        self._changes[key] = value, expiry

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes], expiry: int = NEVER) -> None:
        """`put` for several keys; fast where there is nothing yet, and for those that were read."""
        if not self._columns.count and not self._changes:
            self._changes = dict(zip(keys, zip(values, repeat(expiry)), strict=True))
            self._keys, self.count = None, len(self._changes)
        elif not self._replace_many(keys, values, expiry):
            for key, value in zip(keys, values, strict=True):
                self.put(key, value, expiry)

    def _replace_many(self, keys: Sequence[bytes], values: Sequence[bytes], expiry: int) -> bool:
        """Replace values that were read; False, and nothing done, for any other key among them."""
        columns, places = self._columns, self._positions(keys)
        if None in places or columns.outside or columns.expiry_times:
            return False
        if not self._changes.keys().isdisjoint(keys) or len(set(keys)) != len(keys):
            return False
        old = columns.values_at(places)
        self._changes |= {
            key: (value, expiry)
            for key, value, before in zip(keys, values, old, strict=True)
            if value != before or expiry != NEVER
        }
        return True

    def delete(self, key: bytes) -> None:
        """Remove the entry under ``key``, if there is one."""
        if not self.contains(key):
            return
        self.count -= 1
        if self._position(key) is not None:
            self._changes[key] = None
        else:
            del self._changes[key]
            if self._keys is not None:
                del self._keys[bisect_left(self._keys, key)]

    def delete_many(self, keys: Sequence[bytes]) -> None:
        """`delete` for several keys; fast for all that there are, in order."""
        if self._changes or keys != self._columns.keys:
            for key in keys:
                self.delete(key)
            return
        self._changes = dict.fromkeys(keys)
        self._find_all()
        self.count = 0

    def scan(self, span: Span) -> list[tuple[bytes, bytes]]:
        """The entries of the span in its order, as they are now."""
        keys = self._ordered()
        first = 0 if span.lower is None else bisect_left(keys, span.lower)
        end = len(keys) if span.upper is None else bisect_left(keys, span.upper)
        if self._changes or self._columns.outside:
            chosen = keys[first:end]
            found = [(key, value) for key in chosen if (value := self.get(key)) is not None]
        else:
            found = list(zip(keys[first:end], self._columns.values(first, end), strict=True))
        return found[::-1] if span.reverse else found

    def drop_expired(self, now: int) -> None:
        """Remove the entries that were read and have expired."""
        for at, expires_at in enumerate(self._columns.expiry_times):
            if is_over(expires_at, now) and (key := self._columns.key(at)) not in self._changes:
                self.delete(key)

    def first(self) -> bytes | None:
        """The first key there is, None where there is none."""
        if not self._changes:
            return self._columns.key(0) if self.count else None
        return next((key for key in self._ordered() if self.contains(key)), None)

    def written(self) -> tuple[Extent, bytes]:
        """The section's bytes: those that were read, unless something was changed."""
        if not self._changes:
            return self._extent, self._data
        values = self._values_alone()
        if values is not None:
            return self._columns.replaced(self._extent, values)
        columns, merge, last = self._columns, ColumnMerge(), 0
        if not self.count:
            return merge.to_bytes(self._extent)
        add = partial(self._add_each, merge) if self._has_large() else merge.add_inside
        if not columns.count:
            # All of them are put, since what was put and deleted is no change.
            add(sorted(self._changes.items()))  # type: ignore[arg-type]
            return merge.to_bytes(self._extent)
        put: list[tuple[bytes, tuple[bytes, int]]] = []
        for key in sorted(self._changes):
            # Whatever was read and changed has been looked for.
            change, at = self._changes[key], self._at.get(key)
            start = columns.index_of(key, last) if at is None else at
            if start > last:
                add(put)
                put = []
                merge.take(columns, last, start)
            if change is not None:
                put.append((key, change))
            last = start if at is None else at + 1
        add(put)
        merge.take(columns, last, columns.count)
        return merge.to_bytes(self._extent)

    def _values_alone(self) -> list[tuple[int, bytes]] | None:
        """What was changed, in order, where it is a few values and nothing else, all inside."""
        if len(self._changes) > self._columns.count // _ENTRIES_A_REPLACEMENT:
            return None
        found = []
        for key, change in self._changes.items():
            at = self._at.get(key)
            if at is None or change is None or at in self._columns.outside:
                return None
            value, expires_at = change
            if self._is_large(value) or expires_at != self._columns.expires_at(at):
                return None
            found.append((at, value))
        found.sort()
        return found

    def write_outside(self) -> None:
        """Write the large values that were changed, and remove those that are none any more.

        Raises `PageError` for one that is larger than a value may be.
        """
        if self._outside is None or not (self._columns.outside or self._has_large()):
            return
        for key, change in self._changes.items():
            at = self._at.get(key)
            if change is not None and self._is_large(change[0]):
                outsides.check_size(self._extent.name, key, change[0])
                self._outside.put(self._extent.name, key, change[0])
            elif at in self._columns.outside:
                self._outside.delete(self._extent.name, key)

    def _add_each(
        self, merge: ColumnMerge, entries: Sequence[tuple[bytes, tuple[bytes, int]]]
    ) -> None:
        for key, (value, expires_at) in entries:
            if self._is_large(value):
                merge.add(key, outsides.reference(value), expires_at, is_reference=True)
            else:
                merge.add(key, value, expires_at)

    def _has_large(self) -> bool:
        """Whether one of the values that were put lies outside."""
        put = [len(change[0]) for change in self._changes.values() if change is not None]
        return self._outside is not None and max(put, default=0) > outsides.LARGEST_INSIDE

    def _is_large(self, value: bytes) -> bool:
        return len(value) > outsides.LARGEST_INSIDE and self._outside is not None

    def _old(self, at: int) -> bytes:
        kept = self._columns.value(at)
        if at not in self._columns.outside:
            return kept
        value = self._fetched.get(at)
        if value is None:
            name, key = self._extent.name, self._columns.key(at)
            value = self._fetched[at] = outsides.referred(self._outside, name, key, kept)
        return value

    def _position(self, key: bytes) -> int | None:
        """Where the key is among those that were read."""
        at = self._at.get(key)
        if at is not None or self._singly < 0:
            return at
        self._singly -= 1
        if self._singly < 0:
            self._find_all()
            return self._at.get(key)
        at = self._columns.find(key)
        if at is not None:
            self._at[key] = at
        return at

    def _positions(self, keys: Sequence[bytes]) -> list[int | None]:
        """Where the keys are among those that were read; None for any other."""
        if 0 <= self._singly < len(keys):
            self._find_all()
        return list(map(self._at.get if self._singly < 0 else self._position, keys))

    def _find_all(self) -> None:
        """Find where each key is, as many are looked for."""
        self._singly = -1
        self._at = dict(zip(self._columns.keys, range(self._columns.count), strict=True))

    def _ordered(self) -> list[bytes]:
        """Every key there was or is, in order: what was deleted is to be passed over."""
        if self._keys is None:
            new = [key for key in self._changes if self._position(key) is None]
            self._keys = sorted([*self._columns.keys, *new])
        return self._keys

    def _add(self, key: bytes) -> None:
        if self._keys is not None:
            insort(self._keys, key)
