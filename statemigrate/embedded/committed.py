"""A committed version held still, to be read while the query goes on.

A running query removes old versions. What is to be read is therefore linked (or copied) first into
a directory of the reader's own; where a file was gone before it could be, the newest version is
tried again.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from statemigrate.deployment import VARIABLE_KINDS, Kind, StoredFamily
from statemigrate.embedded.content_hash import Contents
from statemigrate.embedded.continuation import require_committed
from statemigrate.embedded.database import META, Database
from statemigrate.embedded.layout import DirectoryLock, Layout
from statemigrate.embedded.manifest import CountedBase, Manifest, PartitionState
from statemigrate.embedded.mirror import Mirror
from statemigrate.embedded.replaced_values import (
    contents_in,
    count,
    is_empty,
    quarantine_prefix,
    records,
)
from statemigrate.embedded.restore import restored
from statemigrate.embedded.rocksdb_families import RocksFamily, family_class
from statemigrate.embedded.versions import (
    newest_only,
    published,
    read_manifest,
    read_published,
    retained_versions,
)
from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.families import Span
from statemigrate.files import ConfinedPath

# The directories that readers of a checkpoint work in, and what killed readers left of theirs.
#
# Each is held by a lock as long as its reader lives, however that ends: one whose lock is free is
# nobody's any more.


_PREFIX = "statemigrate-reader-"
_LOCK = "lock"
_DAY = 86_400
_PATIENCE = 10.0
"""Seconds for which a directory is removed again that somebody still writes into."""
_locked_readers: dict[Path, DirectoryLock] = {}


def make_directory() -> Path:
    """A new directory for this user alone, held by this process."""
    _remove_left()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    _locked_readers[directory] = DirectoryLock(directory / _LOCK, "the reader's directory")
    return directory


def remove_directory(directory: Path) -> None:
    """Remove a directory that `make_directory` has made.

    A task of an interrupted command may still write into it. Where it does so for longer than a
    command should take to end, or where a disk fails, the next reader removes what is left.
    """
    end = time.monotonic() + _PATIENCE
    while not _is_removed(directory) and time.monotonic() < end:
        time.sleep(0.02)
    lock = _locked_readers.pop(directory, None)
    if lock is not None:
        lock.release()


def _is_removed(directory: Path) -> bool:
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        return not directory.exists()
    except OSError:
        return False
    return True


def _remove_left() -> None:
    shared = ConfinedPath(Path(tempfile.gettempdir()))
    for path in shared.glob(f"{_PREFIX}*"):
        try:
            if _is_ours(path):
                _remove_unheld(path)
        except (OSError, CheckpointError):
            # In use, or removed by another at the same time. It can be seen to the next time.
            continue


def _is_ours(path: ConfinedPath) -> bool:
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _remove_unheld(path: ConfinedPath) -> None:
    if (path / _LOCK).exists():
        lock = DirectoryLock((path / _LOCK).path, "the reader's directory")
        try:
            path.remove_tree()
        finally:
            lock.release()
    elif path.lstat().st_mtime < time.time() - _DAY:
        # Of an earlier release, or of a reader that was killed before it held it.
        path.remove_tree()


_log = logging.getLogger("statemigrate.embedded")
DEADLINE = 20.0
"""Seconds for which a version is looked for that stays long enough to be linked."""


@dataclass(frozen=True)
class CommittedVersion:
    """The version ``manifest`` describes, its files in ``layout``; it can travel to workers.

    They come from the checkpoint at ``location``, which errors name; only the driver has
    ``origin``, since a remote one is reached from there alone.
    """

    manifest: Manifest
    layout: Layout
    origin: Layout
    working: Path
    location: str

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "origin": self.origin.here}

    @contextmanager
    def partition(self, number: int) -> Iterator[CommittedPartition]:
        """One partition, restored and open for the length of the block."""
        state = self.manifest.partitions[number]
        working = Path(tempfile.mkdtemp(prefix=f"partition-{number}-", dir=self.working)) / "copy"
        with self._named():
            found = restored(state, self.layout.partition(number), working)
        for each in found.damages:
            place = each.path.replace(self.layout.files.location, self.location)
            _log.warning("%s is %s; %s", place, each.found, each.instead)
        opened = CommittedPartition(found.database, state)
        try:
            yield opened
        finally:
            opened.close()
            shutil.rmtree(working.parent, ignore_errors=True)

    def counts(self, family: str) -> dict[int, int]:
        """By partition, the records of a family: exact, counted now where that is not noted."""
        found = {}
        for number, state in enumerate(self.manifest.partitions):
            noted = state.entries.get(family, 0)
            found[number] = self._count(number, family) if noted is None else noted
        return found

    def earlier(self, versions: int) -> tuple[float, Manifest] | None:
        """The manifest of a version before, ``versions`` of them at the most, and its age then.

        The age is in seconds, by the times the two were committed. None where none is kept.
        """
        newest = self.manifest.version
        manifests = {each.version: each for each in newest_only(published(self.origin))}
        for version, before in manifests.items():
            if not newest - versions <= version < newest or newest not in manifests:
                continue
            try:
                found = read_published(self.origin, version, before.epoch)
            except (FileNotFoundError, CorruptFileError):
                # The query removes old versions; a newer one may still be there.
                continue
            return manifests[newest].entry.modified - before.entry.modified, found
        return None

    def close(self) -> None:
        """Remove what was held."""
        remove_directory(self.working)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except CorruptFileError as error:
            raise _moved(error, self.layout.files.location, self.location) from error

    def _count(self, number: int, family: str) -> int:
        with self.partition(number) as opened:
            return opened.count(family)


class CommittedPartition:
    """One partition as it was committed, for reading alone."""

    def __init__(self, database: Database, state: PartitionState) -> None:
        self._database = database
        self._state = state
        self._opened: list[RocksFamily] = []

    def family(self, family: StoredFamily, kind: Kind) -> RocksFamily:
        """A family, behind the protocol that dual access reads."""
        opened = family_class(kind)(
            family.name,
            family.revision,
            family.format,
            column=self._database.column(family.name),
            write=_refuse,
            write_many=_refuse,
            entries=self._state.entries.get(family.name, 0),
            block=1,
        )
        self._opened.append(opened)
        return opened

    def records(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """The raw records of a family, in key order."""
        return records(self._database.column(family), Span())

    def values_under(self, family: str, key: bytes, kind: Kind) -> list[bytes]:
        """The bytes under a key, of a list one for each element; none where it has no value."""
        column = self._database.column(family)
        if VARIABLE_KINDS[kind].has_several_values:
            return [data for _, data in records(column, Span.prefix(key))]
        found = column.get(key)
        return [] if found is None else [found]

    @property
    def filled(self) -> frozenset[str]:
        """The names of the families that have any record."""
        names = self._database.families
        return frozenset(name for name in names if not is_empty(self._database.column(name)))

    def count(self, family: str) -> int:
        """How many records a family has."""
        return count(self._database.column(family))

    def contents(self) -> dict[str, Contents]:
        """By family that has any, its records: every one is read."""
        return contents_in(self._database)

    def quarantined(self, family: str) -> Iterator[tuple[bytes, str]]:
        """The keys of a family that the backfill could not migrate, and why."""
        prefix = quarantine_prefix(family)
        for mark, cause in records(self._database.column(META), Span.prefix(prefix)):
            yield mark.removeprefix(prefix), cause.decode()

    def close(self) -> None:
        """Release the working copy."""
        for family in self._opened:
            family.release()
        self._database.close()


def hold(
    layout: Layout, *, batch: int | None = None, deadline: float = DEADLINE
) -> CommittedVersion:
    """Hold a committed version of a checkpoint still, of a ``batch`` or else the last one.

    Raises `CheckpointError` where the batch is not there or nothing is committed, and
    `CorruptFileError` for a file that is damaged, or still missing after ``deadline`` seconds in
    which no newer version appeared.
    """
    working = make_directory()
    try:
        return _patiently(
            layout, lambda: _copy_committed(layout, working, batch), time.monotonic() + deadline
        )
    except BaseException:
        remove_directory(working)
        raise


def _patiently(
    layout: Layout, attempt: Callable[[], CommittedVersion], end: float
) -> CommittedVersion:
    pause = 0.05
    while True:
        try:
            return attempt()
        except CorruptFileError as error:
            # Altered bytes stay altered; a file that is missing may belong to an older version.
            name = str(error.data["path"]).removeprefix(f"{layout.files.location}/")
            if layout.files.find(name) is not None or time.monotonic() + pause > end:
                raise
        time.sleep(pause)
        pause *= 2


def _copy_committed(layout: Layout, working: Path, batch: int | None) -> CommittedVersion:
    manifest = require_committed(layout)
    there = [each for each in retained_versions(layout) if each <= manifest.version]
    if batch is not None and batch in there:
        manifest = read_manifest(layout, batch)
    elif batch not in (None, manifest.version):
        raise CheckpointError(
            "SM-CHECKPOINT-016",
            f"batch {batch} is not among the versions of {layout.files.location}",
            expected="a batch that is committed and still there",
            found=f"batches {', '.join(map(str, there)) or 'none'}",
            next_action="name one of these batches",
            path=layout.files.location,
            batch=batch,
        )
    copy_layout = Layout(working / "held", layout.files)
    states = list(manifest.partitions)
    if layout.remote is not None:
        # What is kept for a snapshot that was never read back is fetched where it is needed.
        states = [replace(state, base=CountedBase()) for state in states]
    mirror = Mirror(copy_layout, shared=True)
    states = list(mirror.bring(states))
    if mirror.lost:
        states = list(mirror.bring(manifest.partitions))
        mirror.require_whole(states)
        for each in mirror.lost:
            _log.warning("%s (%s); other files make the version", each.headline, each.found)
    manifest = replace(manifest, partitions=tuple(states))
    return CommittedVersion(manifest, copy_layout.here, layout, working, layout.files.location)


def _moved(error: CorruptFileError, held: str, origin: str) -> CorruptFileError:
    return error.but(
        summary=error.summary.replace(held, origin),
        path=str(error.data["path"]).replace(held, origin),
    )


def _refuse(key: object, _before: object, value: object) -> None:
    raise AssertionError(f"a reader writes nothing, yet {key!r} was to become {value!r}")
