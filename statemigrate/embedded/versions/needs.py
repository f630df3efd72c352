"""Which files a version needs, by the names they have in the checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern

from statemigrate.embedded.storage.durable import FileReference
from statemigrate.embedded.storage.layout import PARTITIONS, Layout
from statemigrate.embedded.storage.snapshots import SnapshotFile, listed
from statemigrate.embedded.versions.manifest import Manifest, PartitionState
from statemigrate.embedded.versions.versions import Published, read_published


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
    return _needs(_At(layout.files.location, layout), found.version, found.epoch, found.entry.tag)


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
def _needs(at: _At, version: int, epoch: int, tag: str) -> Needs:  # noqa: ARG001 - of this very file
    return Needs.of(read_published(at.layout, version, epoch))


@lru_cache(maxsize=1024)
def _listed(at: _At, name: str, listing: FileReference) -> tuple[SnapshotFile, ...]:
    place = at.layout.place(name)
    return tuple(listed(at.layout.files.get(name), listing, place))
