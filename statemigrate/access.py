"""Dual access: reading and writing across the target family and every other live family.

The rules (get, peek, put, delete, exists, scan; for value, map and list state) are written here
and nowhere else. At every commit a key is in at most one live family, nothing is ever written to a
family other than the target, and a value is transformed only along the path from the family it was
found in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.families import (
    BlockFamily,
    Counts,
    EncodedBlockFamily,
    Family,
    Key,
    ListFamily,
    Source,
    Span,
    entries_of,
    first_of_each_key,
)
from statemigrate.formats import Value
from statemigrate.migration import MigrationPath

if TYPE_CHECKING:
    from statemigrate.families import Complements
    from statemigrate.lenses import Complement
    from statemigrate.migration import ColumnWay

V = TypeVar("V")
_NO_KEY: Any = object()
Adopt = Callable[[Any, Key, Any, Any], None]
"""Writes a migrated value: of the target, the key, the value, and the source that had it."""


class DualAccess(Generic[V]):
    """One store's logical content in the target format, over several families.

    ``sources`` are ordered newest first. A source leaves the read path as soon as it is drained.
    With ``write_on_read=False`` reads are pure and only writes and the backfill migrate. Where
    asking a source is dear, ``asks_after_hit=False`` leaves it out for a key whose value was just
    read from the target: at every commit a key is in one family only. Where families know when
    their values expire, ``adopt(target, key, value, source)`` writes a migrated value with the time
    that it had left in the source; a script on the way may let it start again. ``complements`` are
    those of the values, where scripts leave nothing out for good.
    """

    def __init__(
        self,
        store: str,
        target: Family[V],
        sources: Sequence[Source[V]] = (),
        *,
        write_on_read: bool = True,
        asks_after_hit: bool = True,
        show_key: Callable[[Key], object] = lambda key: key,
        adopt: Adopt | None = None,
        complements: Complements | None = None,
    ) -> None:
        self.store = store
        self.target = target
        self._every = tuple(sources)
        self.sources = self._every
        self._forget_drained()
        self.write_on_read = write_on_read
        self._asks_after_hit = asks_after_hit
        self.counts = Counts()
        self._show_key = show_key
        self._adopt = adopt
        self.complements = complements
        # The last key seen to be in no source: a read that migrates is mostly followed by a write
        # of the same key, which then need not ask the sources again.
        self._settled: Key = _NO_KEY

    def resume(self) -> None:
        """Begin again with every source, whose families have gone on to other entries."""
        self.sources = self._every
        self._forget_drained()
        self._settled = _NO_KEY

    def get(self, key: Key) -> V | None:
        """The value under ``key`` in the target format; migrates it when found in a source."""
        value = self.target.get(key)
        if value is not None:
            if not self._asks_after_hit:
                self._settled = key
            return value
        found = self._find(key)
        if found is None:
            self._settled = key
            return None
        source, old = found
        if not self.write_on_read:
            return self._checked(source, key, old)
        return self._touch(source, key, old)

    def peek(self, key: Key) -> V | None:
        """Like `get`, but never writes."""
        value = self.target.get(key)
        if value is not None:
            return value
        found = self._find(key)
        return None if found is None else self._checked(found[0], key, found[1])

    def exists(self, key: Key) -> bool:
        """Whether any live family holds ``key``."""
        if self.target.contains(key):
            return True
        return any(source.family.contains(key) for source in self.sources)

    def put(self, key: Key, value: V) -> None:
        """Write ``value`` in the target format and remove ``key`` from every source.

        Raises `ValueMismatchError` before anything is written.
        """
        self.target.put(key, value)
        if self.sources:
            self._leave_unsettled(key)

    def put_encoded(self, key: Key, data: bytes) -> None:
        """`put` of a value whose bytes are there in the target format.

        Only with a target that is an `EncodedFamily`.
        """
        self.target.put_encoded(key, data)  # type: ignore[attr-defined]
        if self.sources:
            self._leave_unsettled(key)

    def get_many_encoded(self, keys: Sequence[Key]) -> list[bytes | None]:
        """`get` of many keys, which ascend: each value's bytes in the target format.

        Only with a target that is an `EncodedBlockFamily`.
        """
        target: Any = self.target
        found: list[bytes | None] = target.get_many_encoded(keys)
        if not self.sources or None not in found:
            return found
        pairs = list(zip(keys, found, strict=True))
        made = self._touch_many([key for key, data in pairs if data is None])
        return [made.get(key) if data is None else data for key, data in pairs]

    def put_many_encoded(self, keys: Sequence[Key], values: Sequence[bytes]) -> None:
        """`put_encoded` of many keys, which ascend.

        Only with a target that is an `EncodedBlockFamily`.
        """
        if not keys:
            return
        target: Any = self.target
        target.put_many_encoded(keys, values)
        if self.sources:
            for key in keys:
                self._leave_unsettled(key)

    def delete(self, key: Key) -> None:
        """Remove ``key`` from every live family."""
        self.target.delete(key)
        if self.complements is not None:
            self.complements.delete(key)
        # Asked of every source, settled or not: an old value must never come back to life.
        self._leave_sources(key)

    def scan(self, span: Span | None = None) -> Iterator[tuple[Key, V]]:
        """Every entry of the span once, in key order, in the target format; nothing is written."""
        span = span or Span()
        streams = [entries_of(None, self.target.scan(span))]
        streams += [entries_of(source, source.family.scan(span)) for source in self.sources]
        # Transformed only after the merge: what a newer value hides need not even be transformable.
        return (
            (key, value if source is None else self._checked(source, key, value))
            for key, source, value in first_of_each_key(streams, reverse=span.reverse)
        )

    def clear(self, span: Span) -> None:
        """Remove every key of the span from every live family."""
        for family in (self.target, *(source.family for source in self.sources)):
            for key, _ in family.scan(span):
                family.delete(key)
        if self.complements is not None:
            self.complements.clear(span)
        self._forget_drained()

    def backfill(self, source: Source[V], key: Key, value: V) -> None:
        """Migrate one entry that a backfill read from ``source``; loses to any newer value.

        Raises `TransformError`; the entry then stays where it was.
        """
        if self.target.contains(key) or self._is_newer_elsewhere(source, key):
            self.counts.superseded += 1
            self._remove(source, key)
            return
        self._migrate(source, key, *self._converted(source, key, value))
        self.counts.backfilled += 1

    def left_in(self, source: Source[V], span: Span) -> Iterator[tuple[Key, V | bytes]]:
        """The entries of a source for `backfill_many`: bytes where they may go by columns."""
        family = source.family
        if isinstance(family, EncodedBlockFamily) and self._columns(source) is not None:
            return family.scan_encoded(span)
        return family.scan(span)

    def backfill_many(
        self,
        source: Source[V],
        entries: Sequence[tuple[Key, V | bytes]],
        failed: Callable[[Key, TransformError], None],
    ) -> int:
        """`backfill` for entries in key order; how many of them went without an error.

        All of them are values, or all the bytes of values: `left_in` has them as is best.
        ``failed`` gets each value that does not migrate; it raises or goes on to the next.
        """
        keys = [key for key, _ in entries]
        if self._migrated_at_once(source, keys, [value for _, value in entries]):
            self.counts.backfilled += len(keys)
            return len(keys)
        done = 0
        for key in keys:
            # Read again: a transform may have changed the value that it was given.
            value = source.family.get(key)
            assert value is not None, f"{key!r} was in {source.family.name}"  # noqa: S101
            try:
                self.backfill(source, key, value)
            except TransformError as error:
                failed(key, error)
            else:
                done += 1
        return done

    def _migrated_at_once(
        self, source: Source[V], keys: list[Key], values: Sequence[V | bytes]
    ) -> bool:
        """Migrate a block of entries if nothing is special about any of them."""
        old, new = source.family, self.target
        if not keys or not (isinstance(old, BlockFamily) and isinstance(new, BlockFamily)):
            return False
        if self.complements is not None or self._adopt is not None:
            return False
        others = [each.family for each in self.sources if each is not source]
        if any(
            not isinstance(each, BlockFamily) or each.contains_any(keys) for each in (new, *others)
        ):
            return False
        try:
            self._put_converted(source, keys, values)
        except (TransformError, ValueMismatchError):
            return False
        old.delete_many(keys)
        self._settled = keys[-1]
        if source.family.is_drained():
            self._forget_drained()
        return True

    def _put_converted(self, source: Source[V], keys: list[Key], values: Sequence[Any]) -> None:
        old: Any = source.family
        new: Any = self.target
        if isinstance(values[0], bytes):
            way = self._columns(source)
            made = None if way is None else way.bytes_of(values)
            if made is not None:
                new.put_many_encoded(keys, made)
                return
            values = old.format.decode_many(values)
        new.put_many(keys, self._convert_many(source.way, values))

    def _columns(self, source: Source[V]) -> ColumnWay | None:
        """The way by columns of values of a source, if they go so into the target."""
        old, new = source.family, self.target
        if source.path is None or self.complements is not None or self._adopt is not None:
            return None
        if not (isinstance(old, EncodedBlockFamily) and isinstance(new, EncodedBlockFamily)):
            return None
        way = source.path.columns
        return way if way is not None and way.leads(old.format, new.format) else None

    def _is_newer_elsewhere(self, source: Source[V], key: Key) -> bool:
        for each in self.sources:
            if each is source:
                return False
            if each.family.contains(key):
                return True
        return False

    def _find(self, key: Key) -> tuple[Source[V], V] | None:
        for source in self.sources:
            value = source.family.get(key)
            if value is not None:
                return source, value
        return None

    def _touch(self, source: Source[V], key: Key, old: V) -> V:
        value, complement = self._converted(source, key, old)
        value = self._conformed(source, key, value)
        self._migrate(source, key, value, complement)
        self.counts.touched += 1
        return value

    def _touch_many(self, keys: Sequence[Key]) -> dict[Key, bytes]:
        """What `get` finds of keys that the target has not, in bytes of the target format."""
        target: Any = self.target
        if not self.write_on_read:
            values = {key: value for key in keys if (value := self.get(key)) is not None}
            return dict(zip(values, target.format.encode_many(list(values.values())), strict=True))
        for source in self.sources:
            family, alone = source.family, list(keys)
            if isinstance(family, EncodedBlockFamily):
                held = zip(keys, family.get_many_encoded(keys), strict=True)
                stored = {key: data for key, data in held if data is not None}
                alone = list(stored)
                if self._migrated_at_once(source, alone, list(stored.values())):
                    self.counts.touched += len(alone)
                    continue
            for key in alone:
                self.get(key)
        held = zip(keys, target.get_many_encoded(keys), strict=True)
        return {key: data for key, data in held if data is not None}

    def _migrate(
        self, source: Source[V], key: Key, value: V, complement: Complement | None
    ) -> None:
        try:
            if self._adopt is None or source.way.restarts_time:
                self.target.put(key, value)
            else:
                self._adopt(self.target, key, value, source.family)
        except ValueMismatchError as error:
            raise self._unfit(source, key, error) from error
        if self.complements is not None and complement is not None:
            self.complements.put(key, complement)
        self._remove(source, key)
        if self.sources != (source,):
            self._leave_sources(key, but=source)
        self._settled = key

    def _checked(self, source: Source[V], key: Key, old: V) -> V:
        return self._conformed(source, key, self._converted(source, key, old)[0])

    def _conformed(self, source: Source[V], key: Key, value: V) -> V:
        try:
            return self.target.conform(value)
        except ValueMismatchError as error:
            raise self._unfit(source, key, error) from error

    def _converted(self, source: Source[V], key: Key, old: V) -> tuple[V, Complement | None]:
        """A value of a source in the target's format, and its complement then."""
        try:
            if self.complements is None:
                return self._convert(source.way, old), None
            return source.way.carry(old, self.complements.get(key))
        except TransformError as error:
            raise error.at(self._show_key(key)) from error.__cause__

    def _convert(self, path: MigrationPath, old: V) -> V:
        return path.apply(old)  # type: ignore[return-value, arg-type]

    def _convert_many(self, path: MigrationPath, old: Sequence[V]) -> Sequence[V]:
        return path.apply_many(old)  # type: ignore[return-value, arg-type]

    def _unfit(self, source: Source[V], key: Key, error: ValueMismatchError) -> TransformError:
        return source.unfit(self.store, error).at(self._show_key(key))

    def _leave_unsettled(self, key: Key) -> None:
        if key != self._settled:
            if self.complements is not None:
                self._carry_complement(key, self.complements)
            self._leave_sources(key)

    def _carry_complement(self, key: Key, complements: Complements) -> None:
        """Give a value that was written unread the complement that it would have after a read."""
        from statemigrate.lenses import Complement

        found = self._find(key)
        if found is None:
            return
        try:
            _, complement = self._converted(found[0], key, found[1])
        except TransformError:
            # What a newer value replaces need not even be transformable.
            complement = Complement()
        complements.put(key, complement or Complement())

    def _leave_sources(self, key: Key, but: Source[V] | None = None) -> None:
        for source in self.sources:
            if source is not but and source.family.contains(key):
                self._remove(source, key)
        self._settled = key

    def _remove(self, source: Source[V], key: Key) -> None:
        source.family.delete(key)
        if source.family.is_drained():
            self._forget_drained()

    def _forget_drained(self) -> None:
        self.sources = tuple(each for each in self.sources if not each.family.is_drained())


class DualList(DualAccess[list[Value]]):
    """Dual access for list state: a list migrates whole, element by element."""

    target: ListFamily

    def append(self, key: Key, values: Iterable[Value]) -> None:
        """Write ``values`` behind the list under ``key``; an unmigrated list is migrated first."""
        if self.sources and not self.target.contains(key):
            self._migrate_whole(key)
        self.target.append(key, values)

    def _migrate_whole(self, key: Key) -> None:
        found = self._find(key)
        if found is not None:
            self._touch(found[0], key, found[1])

    def _columns(self, source: Source[list[Value]]) -> None:  # noqa: ARG002
        """None: its elements are entries of their own."""
        return

    def _convert(self, path: MigrationPath, old: list[Value]) -> list[Value]:
        return [path.apply(element) for element in old]

    def _convert_many(
        self, path: MigrationPath, old: Sequence[list[Value]]
    ) -> Sequence[list[Value]]:
        return [self._convert(path, each) for each in old]
