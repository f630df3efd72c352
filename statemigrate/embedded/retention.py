"""Removing old versions: manifests past the retained number, and files nothing refers to.

Only files that the engine itself has made are ever removed, recognised by name; and no version
before all that stands for it was read back. A file goes

- with the last manifest that named it, or
- though no manifest is known that ever did, such as an attempt's that did not commit: once the
  version in its name is before the oldest that is kept, and it is older than that one's manifest,
  and by a day than the newest one.

What the kept manifests name stays, and so does what the two newest versions name, which are not
looked up in a listing but ``held`` by the writer. Since the state of a version names files of the
state before it and new ones, no later version can come to need what goes: neither a listing that
lags, nor a clock, nor a writer of an older epoch that wakes up here can make a loss of it. The
stamps that are compared are all the store's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from sys import intern
from types import MappingProxyType

from statemigrate.embedded.durable import FileReference
from statemigrate.embedded.layout import PARTITIONS, VERSIONS, Layout, version_of
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.snapshots import SnapshotFile, listed
from statemigrate.embedded.versions import Published, newest_only, published, read_published
from statemigrate.errors import CheckpointError
from statemigrate.files import FileEntry

# Which files a version needs, by the names they have in the checkpoint.


@dataclass(frozen=True)
class Needs:
    """The files that one manifest names; those of its snapshots are named by their ``listings``."""

    version: int
    is_counted: bool
    names: frozenset[str]
    listings: tuple[tuple[str, FileReference], ...]

    @classmethod
    def of(cls, manifest: Manifest) -> Needs:
        """Those of a manifest."""
        changelogs: set[str] = set()
        listings: set[tuple[str, FileReference]] = set()
        for number, state in enumerate(manifest.partitions):
            changelogs |= changelog_names(number, state)
            listings |= listing_names(number, state)
        names = changelogs | {name for name, _ in listings}
        return cls(manifest.version, manifest.is_counted, frozenset(names), tuple(listings))


def changelog_names(number: int, state: PartitionState) -> set[str]:
    """The changelogs that a partition's state names, also those that were taken from a pack."""
    packs = {f"{PARTITIONS}/{each.pack.name}" for each in state.all_changelogs if each.pack}
    names = {f"{PARTITIONS}/{number}/{each.file.name}" for each in state.all_changelogs}
    # Most versions have most of their names in common.
    return set(map(intern, packs | names))


def listing_names(number: int, state: PartitionState) -> set[tuple[str, FileReference]]:
    """The listings of snapshots that a partition's state names."""
    return {(f"{PARTITIONS}/{number}/{each.file.name}", each.file) for each in state.all_snapshots}


def needs_of(layout: Layout, found: Published) -> Needs:
    """What a manifest names; read once for each file that has had the name.

    Raises as `read_published`.
    """
    return _needed(_At(layout.files.location, layout), found.version, found.epoch, found.entry.tag)


def content_names(layout: Layout, name: str, listing: FileReference) -> frozenset[str]:
    """The files of content that a snapshot's listing names. Raises as `Files.get` and `listed`."""
    folder = name.rpartition("/")[0]
    found = _listed(_At(layout.files.location, layout), name, listing)
    return frozenset(f"{folder}/files/{each.stored.name}" for each in found if each.stored)


@dataclass(frozen=True)
class _At:
    """A checkpoint, the same as another one at the same place."""

    location: str
    layout: Layout = field(compare=False)


@lru_cache(maxsize=1024)
def _needed(at: _At, version: int, epoch: int, tag: str) -> Needs:  # noqa: ARG001 - of this very file
    return Needs.of(read_published(at.layout, version, epoch))


@lru_cache(maxsize=1024)
def _listed(at: _At, name: str, listing: FileReference) -> tuple[SnapshotFile, ...]:
    place = at.layout.location_of(name)
    return tuple(listed(at.layout.files.get(name), listing, place))


DAY = 86_400
_NOTHING: Mapping[tuple[int, int], Needs] = MappingProxyType({})
Find = Callable[[Published], Needs]
_UNFINISHED = re.compile(r"\.(.+?)(\.[0-9a-f]{32})?\.tmp")
_BY_HASH = re.compile(r"[0-9a-f]{64}")
"""Content of snapshots had its hash as its name once."""


def remove_old_versions(
    layout: Layout,
    newest: int,
    retain: int,
    held: Sequence[Manifest] = (),
    known: Mapping[tuple[int, int], Needs] = _NOTHING,
) -> int:
    """Keep the ``retain`` newest versions up to ``newest``; returns the number of files removed.

    ``held`` are the version that the writer has just committed, and the one before; ``known`` is
    what it knows of manifests, by version and epoch, and need not read. Raises `CorruptFileError`
    where a retained manifest does not say what it needs; then nothing is
    removed.
    """
    manifests = published(layout)
    find = partial(_needs, layout, known)
    retained = _retained(find, manifests, newest - retain)
    if not retained:
        return 0
    keep = {(each.version, each.epoch) for each in retained}
    old = [each for each in manifests if (each.version, each.epoch) not in keep]
    needed = _names(layout, map(find, retained))
    needed |= _names(layout, [Needs.of(manifest) for manifest in held])
    named = _named_by_old(layout, find, old)
    now = max(each.entry.modified for each in manifests)
    files = layout.files.list(PARTITIONS, recursive=True)
    lost = _Lost(retained[0], now, needed | named).among((*files, *layout.files.list(VERSIONS)))
    done = (named - needed).intersection(entry.name for entry in files)
    # Last come the manifests, and before them the listings: interrupted, it is done again.
    doomed = sorted(done | lost, key=lambda name: (-name.count("/"), name))
    doomed += [each.entry.name for each in old]
    layout.files.delete(doomed)
    return len(doomed)


def _needs(layout: Layout, known: Mapping[tuple[int, int], Needs], manifest: Published) -> Needs:
    return known.get((manifest.version, manifest.epoch)) or needs_of(layout, manifest)


def _retained(find: Find, manifests: list[Published], past: int) -> list[Published]:
    """The versions after ``past``; before it, down to one that was read back whole."""
    counting = list(newest_only(manifests))
    retained = [each for each in counting if each.version > past]
    for each in reversed([each for each in counting if each.version <= past]):
        if retained and find(retained[0]).is_counted:
            break
        retained.insert(0, each)
    return retained


def _names(layout: Layout, needs: Iterable[Needs]) -> set[str]:
    names: set[str] = set()
    for each in needs:
        names |= each.names
        for name, listing in each.listings:
            names |= content_names(layout, name, listing)
    return names


def _named_by_old(layout: Layout, find: Find, old: Iterable[Published]) -> set[str]:
    """What old manifests name, as far as it can be read; nobody needs it any more."""
    names: set[str] = set()
    for each in old:
        try:
            needs = find(each)
            names |= needs.names
            names |= _names(layout, [needs])
        except (FileNotFoundError, CheckpointError):
            # Damaged, or gone already. What only it named is found among what is lost.
            continue
    return names


class _Lost:
    """Files that no manifest names, and none ever will."""

    def __init__(self, oldest: Published, now: float, named: set[str]) -> None:
        self._oldest = oldest
        self._before = min(oldest.entry.modified, now - DAY)
        self._named = named

    def among(self, entries: Iterable[FileEntry]) -> set[str]:
        """Their names."""
        return {
            entry.name
            for entry in entries
            if self._is_past(entry)
            and entry.modified < self._before
            and entry.name not in self._named
        }

    def _is_past(self, entry: FileEntry) -> bool:
        if entry.kind == "folder":
            return False
        unfinished = _UNFINISHED.fullmatch(entry.base_name)
        version = version_of(unfinished[1] if unfinished else entry.base_name)
        if version is not None:
            return version < self._oldest.version
        in_contents = entry.name.rpartition("/")[0].endswith("/files")
        return bool(unfinished or (in_contents and _BY_HASH.fullmatch(entry.base_name)))
