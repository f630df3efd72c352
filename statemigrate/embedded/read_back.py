"""Durable files read back, some after each batch: which of the kept versions can be restored.

A query that runs for months on its working copies reads no durable file until it is moved or
started again, and would learn only then that one is gone. Every file that a kept version names is
therefore compared with its checksum: those first that never were, then the others over and over.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from sys import intern

from statemigrate.embedded.chains import chains_of
from statemigrate.embedded.durable import FileReference, confined, unwritable
from statemigrate.embedded.layout import PARTITIONS, Layout
from statemigrate.embedded.manifest import Manifest, Pack
from statemigrate.embedded.snapshots import listed
from statemigrate.embedded.versions import newest_only, published, read_published
from statemigrate.errors import CorruptFileError, without_credentials
from statemigrate.files import RESTORE_COPY

IDLE_MS, SHARE = 250.0, 0.02
"""What reading may take after a batch without rows, and after one with rows, as a share of it."""
_MOST = 1_000.0
_BLOCK = 1 << 20
_SPARE = 1 << 20
_log = logging.getLogger("statemigrate.embedded")
Chains = tuple[tuple[frozenset[str], ...], ...]
"""By partition, for each chain, the names of its listing and changelogs."""


@dataclass(frozen=True)
class Restorable:
    """How many versions are kept, how many of them their own files still make, as far as known.

    ``damaged`` is the number of files that were found missing or altered.
    """

    kept: int
    restorable: int
    damaged: int


@dataclass(frozen=True)
class _File:
    """A durable file, as a name in the checkpoint, or a part of the file that has it."""

    name: str
    reference: FileReference
    number: int
    pack: Pack | None = None

    @property
    def is_listing(self) -> bool:
        return self.name.endswith(".snapshot")


class Readback:
    """What one driver knows of the durable files of the versions that it keeps.

    It logs a damaged file once, unless ``warns`` is false.
    """

    def __init__(self, layout: Layout, retain: int = 2**31, *, warns: bool = True) -> None:
        self._layout = layout
        self._warns = warns
        self._retain = retain
        self._versions: dict[int, Chains | None] = {}
        self._unread: deque[tuple[int, int]] = deque()
        self._files: dict[str, _File] = {}
        self._content: dict[str, frozenset[str]] = {}
        self._due: deque[str] = deque()
        self._credit = 0.0
        # What one file takes at the least: a store is not asked in each of many quick batches.
        self._cost = 1.0 if layout.remote is None else 50.0
        self.lost: dict[str, CorruptFileError] = {}

    def begin(self) -> None:
        """Find the versions that are there; their manifests are read one by one, like files."""
        found = list(newest_only(published(self._layout)))[-self._retain :]
        self._versions = dict.fromkeys((each.version for each in found), None)
        self._unread = deque((each.version, each.epoch) for each in reversed(found))

    def committed(self, manifest: Manifest) -> None:
        """Note a version that was committed, and that one is kept no longer."""
        self._note(manifest)
        for version in [each for each in self._versions if each <= manifest.version - self._retain]:
            del self._versions[version]

    def tidy(self) -> None:
        """Forget files that no kept version names."""
        needed = set()
        for chains in self._versions.values():
            for chain in (each for partition in chains or () for each in partition):
                needed |= self._with_content(chain)
        self._files = {name: file for name, file in self._files.items() if name in needed}
        self._content = {name: each for name, each in self._content.items() if name in needed}
        self.lost = {name: error for name, error in self.lost.items() if name in needed}

    def read(self, milliseconds: float) -> None:
        """Read back what these milliseconds allow, and what earlier calls have left of theirs.

        One large file is paid for by later calls.
        """
        self._credit = min(self._credit + milliseconds, _MOST)
        while self._credit >= self._cost and (self._unread or self._files):
            began = time.monotonic()
            if self._unread:
                self._read_manifest(*self._unread.popleft())
            else:
                self._read_next()
            self._credit -= max((time.monotonic() - began) * 1000, self._cost)
            if not self._unread and not self._due:
                # All of them once: the next round is another call's.
                break

    def read_all(self) -> None:
        """Read back every file of every version that is kept."""
        while self._unread:
            self._read_manifest(*self._unread.popleft())
        while self._due:
            self._read_next()

    def is_whole(self, version: int) -> bool:
        """Whether a version's own files make it, as far as they were read."""
        chains = self._versions.get(version)
        if f"version {version}" in self.lost or version not in self._versions:
            return False
        return chains is None or all(
            any(not self._is_lost(each) for each in partition) for partition in chains
        )

    def are_whole(self, names: Iterable[str]) -> bool:
        """Whether files were read back, with the content of those that are listings, and whole."""
        found = self._with_content(set(names))
        return found <= self._files.keys() and found.isdisjoint(self.lost)

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that are kept, the oldest first."""
        return tuple(sorted(self._versions))

    def lost_of(self, manifest: Manifest) -> dict[int, frozenset[str]]:
        """By partition, the names of files of a version that are missing or altered."""
        found: dict[int, frozenset[str]] = {}
        if not self.lost:
            return found
        for number, chains in enumerate(_chains(manifest)):
            names = set().union(*map(self._with_content, chains)) & self.lost.keys()
            if names:
                found[number] = frozenset(self._files[name].reference.name for name in names)
        return found

    @property
    def restorable(self) -> Restorable:
        """What is known by now. A version that was not read yet counts as one that is whole."""
        kept = len(self._versions)
        whole = sum(map(self.is_whole, self._versions)) if self.lost else kept
        return Restorable(kept, whole, len(self.lost))

    def _note(self, manifest: Manifest) -> None:
        self._versions[manifest.version] = _chains(manifest)
        for number, state in enumerate(manifest.partitions):
            folder = f"{PARTITIONS}/{number}"
            for snapshot in state.all_snapshots:
                self._know(f"{folder}/{snapshot.file.name}", snapshot.file, number, None)
            for each in state.all_changelogs:
                self._know(f"{folder}/{each.file.name}", each.file, number, each.pack)

    def _know(self, name: str, file: FileReference, number: int, pack: Pack | None) -> None:
        # Asked of every file of every version; nearly all are known.
        if name not in self._files:
            self._files[name] = _File(name, file, number, pack)
            self._due.append(name)

    def _with_content(self, names: Collection[str]) -> set[str]:
        found = set(names)
        for name in names:
            found |= self._content.get(name, frozenset())
        return found

    def _is_lost(self, chain: frozenset[str]) -> bool:
        return not self._with_content(chain).isdisjoint(self.lost)

    def _read_manifest(self, version: int, epoch: int) -> None:
        if version not in self._versions or self._versions[version] is not None:
            return
        try:
            self._note(read_published(self._layout, version, epoch))
        except FileNotFoundError:
            # Removed since it was listed, as old versions are.
            self._versions.pop(version, None)
        except CorruptFileError as error:
            self._record_damage(f"version {version}", error)
            self._versions[version] = ()

    def _read_next(self) -> None:
        if not self._due:
            self._due.extend(self._files)
        file = self._files.get(self._due.popleft())
        if file is None:
            return
        try:
            self._verify(file)
            self.lost.pop(file.name, None)
        except CorruptFileError as error:
            self._record_damage(file.name, error)

    def _record_damage(self, name: str, error: CorruptFileError) -> None:
        if self._warns and name not in self.lost:
            place = without_credentials(str(error.data["path"]))
            _log.warning(
                "%s was read back and is not what it was (%s); the next batch stores what the "
                "newest version needs of it again, and `statemigrate doctor --repair` says what "
                "else does",
                place,
                error.found,
            )
        self.lost[name] = error

    def _verify(self, file: _File) -> None:
        data = self._read(file)
        if data is None:
            return
        content = []
        for each in listed(data, file.reference, self._layout.location_of(file.name)):
            if each.stored is not None:
                folder = f"{PARTITIONS}/{file.number}/files"
                content.append(_File(f"{folder}/{each.stored.name}", each.stored, file.number))
        self._content[file.name] = frozenset(part.name for part in content)
        for part in content:
            self._know(part.name, part.reference, part.number, None)

    def _read(self, file: _File) -> bytes | None:
        """Compare a file with its checksum; the bytes of a listing."""
        stored = file.name if file.pack is None else f"{PARTITIONS}/{file.pack.name}"
        offset = 0 if file.pack is None else file.pack.offset
        size = file.reference.size
        unfinished = self._layout.root / f".readback.{uuid.uuid4().hex}.tmp"
        place = self._layout.location_of(stored)
        try:
            if self._layout.remote is None:
                source = self._layout.checkpoint / stored
            else:
                source = unfinished
                with unwritable(source.parent):
                    confined(source).parent.mkdir()
                most = offset + size + (0 if file.pack else _SPARE)
                files = self._layout.files
                files.fetch(stored, source, most=most, cut=file.pack is not None)
            found, data = _hashed(source, offset, size, keep=file.is_listing)
        except FileNotFoundError as error:
            raise _damaged(place, file.reference, "no such file") from error
        finally:
            if self._layout.remote is not None:
                confined(unfinished).unlink(missing_ok=True)
        is_longer = file.pack is None and found[1] != size
        if found[0] != file.reference.sha256 or is_longer:
            raise _damaged(place, file.reference, f"{found[1]} bytes with SHA-256 {found[0]}")
        return data


def _hashed(
    path: Path, offset: int, size: int, *, keep: bool
) -> tuple[tuple[str, int], bytes | None]:
    """SHA-256 of a part of a file, and the size of all from there; the bytes if they are asked."""
    digest, left, kept = hashlib.sha256(), size, []
    with confined(path).open() as stream:
        stream.seek(offset)
        while left and (block := stream.read(min(left, _BLOCK))):
            digest.update(block)
            left -= len(block)
            if keep:
                kept.append(block)
    whole = confined(path).stat().st_size - offset
    return (digest.hexdigest(), whole), b"".join(kept) if keep else None


def _damaged(place: str, file: FileReference, found: str) -> CorruptFileError:
    return CorruptFileError(
        "SM-EMBEDDED-018",
        f"{place} is not what was written",
        expected=f"{file.size} bytes with SHA-256 {file.sha256}",
        found=found,
        next_action=RESTORE_COPY,
        path=place,
    )


def _chains(manifest: Manifest) -> Chains:
    # Most versions have most of their names in common.
    return tuple(
        tuple(
            frozenset(intern(f"{PARTITIONS}/{number}/{each.name}") for each in chain.files)
            for chain in chains_of(state)
        )
        for number, state in enumerate(manifest.partitions)
    )
