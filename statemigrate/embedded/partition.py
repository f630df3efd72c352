"""One partition during one batch: its working copy, its changelog, and its commit."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from statemigrate.deployment import Kind, StoredFamily
from statemigrate.embedded.chains import SnapshotChain
from statemigrate.embedded.changelog import ChangelogWriter
from statemigrate.embedded.database import META, named
from statemigrate.embedded.durable import FileReference, unwritable
from statemigrate.embedded.manifest import (
    ChangelogReference,
    CountedBase,
    PartitionState,
    SnapshotReference,
)
from statemigrate.embedded.replaced_values import (
    Tally,
    WriteBefore,
    count,
    is_empty,
    quarantine_prefix,
    records,
)
from statemigrate.embedded.restore import (
    STATE,
    UNCOMMITTED,
    Damage,
    is_private,
    prove,
    remove_saved_copy,
    restored,
)
from statemigrate.embedded.rocksdb_families import RocksFamily, family_class
from statemigrate.embedded.snapshot_verification import compared, is_due, proven
from statemigrate.embedded.snapshots import store_snapshot
from statemigrate.errors import CorruptFileError, StatemigrateError
from statemigrate.families import Span

_LEFT, _CURSOR = b"left/", b"cursor/"


@dataclass(frozen=True)
class PartitionPaths:
    """Where a partition's durable files and its working copy are."""

    number: int
    directory: Path
    working: Path


class Partition:
    """A partition opened at a version, to be changed and committed as the next one.

    Every write goes to the working copy and to the changelog. Until `commit` has published the
    changelog nothing is durable; a working copy left without commit is never used again as it is.
    ``changelog_bytes`` is the size of the file that `commit` published, 0 without one.

    ``damages`` are durable files that were found missing or altered, for which other files or the
    working copy stood in; the next `commit` or `publish` then stores a snapshot that needs none of
    them. ``older`` and ``lost`` are as of `restored`.
    Implements `statemigrate.budget.Ledger`.
    """

    def __init__(
        self,
        place: PartitionPaths,
        state: PartitionState,
        version: int,
        *,
        older: Callable[[], Iterable[SnapshotChain]] = lambda: (),
        lost: Collection[str] = (),
    ) -> None:
        self._place = place
        self._version = version
        self._lost = lost
        with unwritable(place.working.parent):
            found = restored(state, place.directory, place.working, older=older, lost=lost)
        self._database, self._before, self.damages = found.database, found.state, found.damages
        self._alone, self._is_damaged = found.alone, bool(found.damages or lost)
        self._log = ChangelogWriter(place.directory, version)
        self._tally = Tally(self._before.known_contents or {})
        self._opened: list[RocksFamily] = []
        self._counted: dict[str, RocksFamily] = {}
        self._closed = False
        self.changelog_bytes = 0
        self._meta: Any = self._database.column(META)
        self._meta.put(STATE, UNCOMMITTED)

    @property
    def written(self) -> int:
        """How many records there are to be committed so far."""
        self._write_waiting()
        return self._log.pending

    @property
    def changelogs(self) -> int:
        """How many changelogs there are since the last snapshot."""
        return len(self._before.changelogs)

    def target(self, family: StoredFamily, kind: Kind) -> RocksFamily:
        """Open ``family`` for writing; what was noted of it as a source no longer holds."""
        self._write_waiting()
        self._forget(family.name)
        return self._family(family, kind, None)

    def source(self, family: StoredFamily, kind: Kind) -> RocksFamily:
        """Open ``family`` as a source, with the exact number of its records."""
        self._write_waiting()
        opened = self._family(family, kind, self._entries(family.name))
        self._counted[family.name] = opened
        return opened

    def drop(self, name: str, *, only_if_empty: bool = True) -> bool:
        """Drop a family, re-checked to be empty in this very state; False if it is not."""
        self._write_waiting()
        if name in self._database.families:
            if only_if_empty and not is_empty(self._database.column(name)):
                return False
            self._database.drop(name)
            self._log.add("", name.encode(), None)
            self._tally.drop(name)
        self._counted.pop(name, None)
        self._forget(name)
        return True

    def cursor(self, family: str) -> bytes | None:
        """See `statemigrate.budget.Ledger`."""
        found: bytes | None = self._meta.get(_CURSOR + family.encode())
        return found

    def set_cursor(self, family: str, key: bytes) -> None:
        """See `statemigrate.budget.Ledger`."""
        self._write_meta(_CURSOR + family.encode(), key)

    def quarantine(self, family: str, key: bytes, cause: str) -> None:
        """See `statemigrate.budget.Ledger`."""
        self._write_meta(quarantine_prefix(family) + key, cause.encode())

    def retry_quarantined(self, family: str) -> None:
        """Let the backfill start over if it had left anything behind."""
        if next(records(self._meta, Span.prefix(quarantine_prefix(family))), None) is not None:
            self._forget_marks(family)

    def commit(self, *, snapshot: bool, prove: bool = False) -> PartitionState:
        """Publish the batch's changes and close; the state the next batch starts from.

        With ``prove`` a snapshot is stored and read back whole, whatever that takes.
        """
        with unwritable(self._place.directory):
            after = self._published(snapshot=snapshot or prove, prove=prove)
            self._database.flush()
            self._close(partial(_proven, state=after.state))
            return after

    def publish(self, *, snapshot: bool) -> PartitionState:
        """Publish the changes so far and stay open, for more of them in a file of their own."""
        with unwritable(self._place.directory):
            self._before = self._published(snapshot=snapshot, prove=False)
            self._meta.put(STATE, UNCOMMITTED)
            return self._before

    def _published(self, *, snapshot: bool, prove: bool) -> PartitionState:
        self._write_waiting()
        for family in self._counted.values():
            self._settle(family)
        file = self._log.publish()
        after = self._before
        if file is not None:
            self.changelog_bytes = file.size
            after = after.followed_by(file, self._log.records)
        if self._before.known_contents is not None:
            after = replace(after, contents=self._tally.contents())
        self._meta.put(STATE, after.state.encode())
        has_changed = after.changelogs or not after.base.is_counted
        if self._is_damaged or prove or (snapshot and has_changed):
            # What stands in for what is damaged is read at once.
            after = self._stored(after, prove=prove or self._is_damaged)
            self._is_damaged = self._alone = False
        return self._described(after)

    def _stored(self, after: PartitionState, *, prove: bool) -> PartitionState:
        last = after.changelogs[-1] if after.changelogs else None
        if self._alone:
            return self._stored_alone(after, last)
        snapshot = SnapshotReference(
            self._store(after.all_snapshots), after.state, contents=after.contents
        )
        if not (prove or is_due(after)):
            return PartitionState(after.state, snapshot, base=after.base, contents=after.contents)
        try:
            found = proven(snapshot, after.base, self._place.directory, self._place.working)
        except CorruptFileError as error:
            # Of the files that it was to replace, or of content that it shares with them.
            instead = "a snapshot of the proven working copy takes its place"
            self.damages = (*self.damages, Damage.of(error, instead))
            return self._stored_alone(after, last)
        return self._based_on(replace(found, step=last))

    def _stored_alone(
        self, after: PartitionState, last: ChangelogReference | None
    ) -> PartitionState:
        """A snapshot that needs no file from before it, compared with the copy key by key."""
        snapshot = SnapshotReference(
            self._store(()), after.state, step=last, contents=after.contents
        )
        return self._based_on(
            compared(snapshot, self._database, self._place.directory, self._place.working)
        )

    def _based_on(self, snapshot: SnapshotReference) -> PartitionState:
        # What was read is what counts from here on, also where it was not known before.
        self._tally.begin(snapshot.contents or {})
        return PartitionState(
            snapshot.state, snapshot, base=CountedBase(snapshot), contents=snapshot.contents
        )

    def _store(self, before: Iterable[SnapshotReference]) -> FileReference:
        directory = self._place.directory
        listings = [each.file for each in before]
        return store_snapshot(
            self._database, directory, directory / "files", self._version, listings, self._lost
        )

    def abandon(self) -> None:
        """Give the batch up: leave no file, and a working copy that says it is not committed.

        After `commit` there is nothing left to give up.
        """
        try:
            self._log.abandon()
        finally:
            self.close()

    def close(self) -> None:
        """Release the working copy unproven; a private one is removed."""
        self._close(lambda _: None)

    def _close(self, closed: Callable[[Path], None]) -> None:
        if self._closed:
            return
        self._closed = True
        for family in self._opened:
            family.release()
        self._counted = {}
        self._meta = None
        self._database.close(closed)
        if is_private(self._database.path):
            shutil.rmtree(self._database.path, ignore_errors=True)

    def _family(self, family: StoredFamily, kind: Kind, entries: int | None) -> RocksFamily:
        column = self._database.column(family.name)
        write = self._counted_write(family.name, self._writer(family.name, column))
        opened = family_class(kind)(
            family.name,
            family.revision,
            family.format,
            column=column,
            write=write,
            write_many=partial(self._write_many, family.name),
            entries=entries,
        )
        self._opened.append(opened)
        return opened

    def _writer(self, family: str, column: Any) -> Callable[[bytes, bytes | None], None]:
        path, add = self._database.path, self._log.adding(family)
        put, delete = named(column.put, path), named(column.delete, path)

        def write(key: bytes, value: bytes | None) -> None:
            if value is None:
                delete(key)
            else:
                put(key, value)
            add(key, value)

        return write

    def _counted_write(
        self, family: str, write: Callable[[bytes, bytes | None], None]
    ) -> WriteBefore:
        note = self._tally.adding(family)

        def counted_write(key: bytes, before: bytes | None, value: bytes | None) -> None:
            write(key, value)
            note(key, before, value)

        return counted_write

    def _write_waiting(self) -> None:
        for family in self._opened:
            family.flush()

    def _write_many(
        self,
        family: str,
        keys: Sequence[bytes],
        before: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        self._database.write([(family, keys, values)])
        self._tally.add_many(family, keys, before, values)
        self._log.add_many(family, keys, values)

    def _write_meta(self, key: bytes, value: bytes | None) -> None:
        self._writer(META, self._meta)(key, value)

    def _entries(self, name: str) -> int:
        noted = self._meta.get(_LEFT + name.encode())
        # What the first release noted may be of a copy that was believed without a proof; and that
        # nothing is left is seen, never remembered.
        if noted is not None and int(noted) > 0 and self._before.base.is_counted:
            return int(noted)
        # Counted once, when the family becomes a source; from then on every delete is counted.
        return count(self._database.column(name))

    def _settle(self, family: RocksFamily) -> None:
        key = _LEFT + family.name.encode()
        count = str(family.entries).encode()
        if self._meta.get(key) != count:
            self._write_meta(key, count)
        if family.entries == 0:
            self._forget_marks(family.name)
            return
        for mark, _ in records(self._meta, Span.prefix(quarantine_prefix(family.name))):
            if not family.contains(mark.removeprefix(quarantine_prefix(family.name))):
                self._write_meta(mark, None)

    def _forget(self, name: str) -> None:
        self._forget_marks(name)
        if self._meta.get(_LEFT + name.encode()) is not None:
            self._write_meta(_LEFT + name.encode(), None)

    def _forget_marks(self, name: str) -> None:
        if self.cursor(name) is not None:
            self._write_meta(_CURSOR + name.encode(), None)
        for mark, _ in records(self._meta, Span.prefix(quarantine_prefix(name))):
            self._write_meta(mark, None)

    def _described(self, state: PartitionState) -> PartitionState:
        entries: dict[str, int | None] = {}
        quarantined: dict[str, int] = {}
        for name in sorted(self._database.families):
            family = self._counted.get(name)
            known = None if family is None else family.entries
            # A look at a family that is being drained passes every record deleted so far.
            empty = not known and is_empty(self._database.column(name))
            entries[name] = 0 if empty else known or None
            marks = sum(1 for _ in records(self._meta, Span.prefix(quarantine_prefix(name))))
            if marks:
                quarantined[name] = marks
        return replace(state, entries=entries, quarantined=quarantined)


def _proven(copy: Path, state: str) -> None:
    """Prove a copy that is closed; what was kept from before it is not needed any more."""
    prove(copy, state)
    remove_saved_copy(copy)


@contextmanager
def opened(
    place: PartitionPaths,
    state: PartitionState,
    version: int,
    *,
    older: Callable[[], Iterable[SnapshotChain]] = lambda: (),
    lost: Collection[str] = (),
) -> Iterator[Partition]:
    """A partition for the length of a block; unless the block commits, nothing of it stays.

    The proven copy that it was opened with is kept for the next attempt then, see `restored`.
    """
    partition = Partition(place, state, version, older=older, lost=lost)
    try:
        yield partition
    except BaseException as error:
        try:
            partition.abandon()
        except StatemigrateError as second:
            # What ended the batch is what counts; a full disk may also fail what cleans up.
            error.add_note(f"giving the batch up failed too: {second.headline}")
        raise
    partition.abandon()
