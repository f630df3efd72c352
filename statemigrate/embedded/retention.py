"""Removing old versions: manifests past the retained number, and files nothing refers to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, kept_versions, manifest_path, read_manifest
from statemigrate.embedded.snapshots import snapshot_files


def remove_old_versions(layout: Layout, newest: int, retain: int) -> int:
    """Keep the ``retain`` newest versions up to ``newest``; returns the number of files removed.

    Called between batches only: a file no retained manifest refers to is then either old or left
    by an attempt that did not commit.
    """
    versions = kept_versions(layout)
    kept = [version for version in versions if version > newest - retain]
    manifests = [read_manifest(layout, version) for version in kept]
    removed = _unlink(manifest_path(layout, version) for version in versions if version not in kept)
    removed += _unlink(layout.versions.glob(".*.tmp"))
    for number in range(len(manifests[0].partitions) if manifests else 0):
        removed += _remove_unreferenced(layout, number, manifests)
    return removed


def _remove_unreferenced(layout: Layout, number: int, manifests: list[Manifest]) -> int:
    directory = layout.partition(number)
    states = [manifest.partitions[number] for manifest in manifests]
    snapshots = [each for state in states for each in (state.snapshot, state.base.snapshot)]
    listings = {snapshot.file for snapshot in snapshots if snapshot}
    changelogs = [each for state in states for each in (state.changelogs, state.base.changelogs)]
    names = {changelog.file.name for chain in changelogs for changelog in chain}
    names |= {listing.name for listing in listings}
    contents = {file.name for listing in listings for _, file in snapshot_files(listing, directory)}
    return _unlink(_others(directory, names)) + _unlink(_others(directory / "files", contents))


def _others(directory: Path, names: set[str]) -> list[Path]:
    if not directory.is_dir():
        return []
    return [path for path in directory.iterdir() if path.is_file() and path.name not in names]


def _unlink(paths: Iterable[Path]) -> int:
    count = 0
    for path in paths:
        path.unlink(missing_ok=True)
        count += 1
    return count
