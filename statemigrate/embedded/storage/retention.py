"""Removing old versions: manifests past the retained number, and files nothing refers to.

Only what the engine itself has made is ever removed, told by its name; and no version before all
that stands for it was read back.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from sys import intern

from statemigrate.embedded.storage.confined import confined
from statemigrate.embedded.storage.durable import FileReference
from statemigrate.embedded.storage.layout import Layout
from statemigrate.embedded.storage.manifest import (
    PartitionState,
    kept_versions,
    manifest_path,
    read_manifest,
)
from statemigrate.embedded.storage.snapshots import snapshot_files
from statemigrate.files import ConfinedPath

_STATE = re.compile(r"[0-9]{12}-[0-9a-f]{32}\.(changelog|snapshot)|\..+\.tmp")
_CONTENT = re.compile(r"[0-9a-f]{64}|\..+\.tmp")


def remove_old_versions(layout: Layout, newest: int, retain: int) -> int:
    """Keep the ``retain`` newest versions up to ``newest``; returns the number of files removed.

    Called between batches only: a file no retained manifest refers to is then either old or left
    by an attempt that did not commit. Raises `CorruptFileError` where a retained manifest does not
    say what it needs; then nothing is removed.
    """
    versions = kept_versions(layout)
    retained = _retained(layout, versions, newest - retain)
    kept = {each.version for each in retained}
    removed = _unlink(manifest_path(layout, version) for version in versions if version not in kept)
    unfinished = confined(layout.versions).glob(".*.tmp")
    removed += _unlink(path.path for path in unfinished)
    for number in range(len(retained[0].partitions) if retained else 0):
        removed += _remove_unreferenced(layout, number, retained)
    return removed


@dataclass(frozen=True)
class _Needs:
    """What one partition of a version needs: its changelogs, and the listings of snapshots."""

    changelogs: tuple[str, ...]
    listings: tuple[FileReference, ...]

    @classmethod
    def of(cls, state: PartitionState) -> _Needs:
        chains = (state.changelogs, state.base.changelogs)
        # Most versions have most of their names in common.
        names = dict.fromkeys(intern(each.file.name) for chain in chains for each in chain)
        snapshots = (state.snapshot, state.base.snapshot)
        return cls(tuple(names), tuple(each.file for each in snapshots if each))


@dataclass(frozen=True)
class _Retained:
    version: int
    is_counted: bool
    partitions: tuple[_Needs, ...]


def _retained(layout: Layout, versions: list[int], past: int) -> list[_Retained]:
    """The versions after ``past``; before it, down to one that was read back whole."""
    retained = [_needs(layout, version) for version in versions if version > past]
    for version in reversed([version for version in versions if version <= past]):
        if retained and retained[0].is_counted:
            break
        retained.insert(0, _needs(layout, version))
    return retained


def _needs(layout: Layout, version: int) -> _Retained:
    found = confined(manifest_path(layout, version)).stat()
    return _read_needs(layout, version, (found.st_ino, found.st_size, found.st_mtime_ns))


@lru_cache(maxsize=512)
def _read_needs(layout: Layout, version: int, identity: tuple[int, ...]) -> _Retained:  # noqa: ARG001
    """Read once for each file that has had the name: a hundred are looked at, and ten are new."""
    manifest = read_manifest(layout, version)
    return _Retained(version, manifest.is_counted, tuple(map(_Needs.of, manifest.partitions)))


def _remove_unreferenced(layout: Layout, number: int, retained: list[_Retained]) -> int:
    directory = layout.partition(number)
    needs = [each.partitions[number] for each in retained]
    listings = {listing for each in needs for listing in each.listings}
    names = {name for each in needs for name in each.changelogs}
    names |= {listing.name for listing in listings}
    contents = {file.name for listing in listings for _, file in snapshot_files(listing, directory)}
    removed = _unlink(_others(directory, _STATE, names))
    return removed + _unlink(_others(directory / "files", _CONTENT, contents))


def _others(directory: Path, ours: re.Pattern[str], names: set[str]) -> list[Path]:
    below = confined(directory)
    if not below.is_dir():
        return []
    found = [path for path in below.iterdir() if path.name not in names]
    # A link under such a name is removed itself.
    return [path.path for path in found if ours.fullmatch(path.name) and not _is_directory(path)]


def _is_directory(path: ConfinedPath) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def _unlink(paths: Iterable[Path]) -> int:
    count = 0
    for path in paths:
        confined(path).unlink(missing_ok=True)
        count += 1
    return count
