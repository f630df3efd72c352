"""Removing old versions: manifests past the retained number, and files nothing refers to.

Only what the engine itself has made is ever removed, told by its name; and no version before all
that stands for it was read back.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable
from pathlib import Path

from statemigrate.embedded.confined import confined
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, kept_versions, manifest_path, read_manifest
from statemigrate.embedded.snapshots import snapshot_files
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
    manifests = _retained(layout, versions, newest - retain)
    kept = {manifest.version for manifest in manifests}
    removed = _unlink(manifest_path(layout, version) for version in versions if version not in kept)
    unfinished = confined(layout.versions).glob(".*.tmp")
    removed += _unlink(path.path for path in unfinished)
    for number in range(len(manifests[0].partitions) if manifests else 0):
        removed += _remove_unreferenced(layout, number, manifests)
    return removed


def _retained(layout: Layout, versions: list[int], past: int) -> list[Manifest]:
    """The manifests after version ``past``; before it, down to one that was read back whole."""
    manifests = [read_manifest(layout, version) for version in versions if version > past]
    for version in reversed([version for version in versions if version <= past]):
        if manifests and manifests[0].is_counted:
            break
        manifests.insert(0, read_manifest(layout, version))
    return manifests


def _remove_unreferenced(layout: Layout, number: int, manifests: list[Manifest]) -> int:
    directory = layout.partition(number)
    states = [manifest.partitions[number] for manifest in manifests]
    snapshots = [each for state in states for each in (state.snapshot, state.base.snapshot)]
    listings = {snapshot.file for snapshot in snapshots if snapshot}
    changelogs = [each for state in states for each in (state.changelogs, state.base.changelogs)]
    names = {changelog.file.name for chain in changelogs for changelog in chain}
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
