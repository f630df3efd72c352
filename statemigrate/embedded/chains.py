"""The chains of durable files from which one partition's state can be made.

A manifest names two: the newest snapshot with the changelogs since, and the base, which is the
newest snapshot that was read back with all changelogs since. Older manifests name more. The
identity of a state is a hash of the changelogs that lead to it, so that changelogs which different
manifests name fit together, or do not, by what they say themselves.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Literal

from statemigrate.embedded.durable import FileReference, confined
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import (
    EMPTY_STATE,
    ChangelogReference,
    CountedBase,
    PartitionState,
    SnapshotReference,
    state_after,
)
from statemigrate.embedded.snapshots import stored_files
from statemigrate.embedded.versions import published, read_published
from statemigrate.errors import CorruptFileError
from statemigrate.files import RESTORE_COPY

Kind = Literal["snapshot", "base", "older version"]


@dataclass(frozen=True)
class SnapshotChain:
    """A snapshot, None for the beginning, and the changelogs from there to a state."""

    kind: Kind
    snapshot: SnapshotReference | None
    changelogs: tuple[ChangelogReference, ...]

    @property
    def state(self) -> str:
        """The identity of what the chain makes, worked out from the checksums of its changelogs."""
        start = self.snapshot.state if self.snapshot else EMPTY_STATE
        return reduce(state_after, (each.file for each in self.changelogs), start)

    @property
    def files(self) -> tuple[FileReference, ...]:
        """The listing and the changelogs."""
        listing = () if self.snapshot is None else (self.snapshot.file,)
        return (*listing, *(each.file for each in self.changelogs))

    def absent(self, directory: Path, lost: Collection[str] = ()) -> list[CorruptFileError]:
        """What is wrong with the chain's own files as far as names and sizes tell.

        ``lost`` are names of files that were found damaged before, also in what a listing names.
        """
        found = [_absent(each, directory) for each in self.files if _lacks(each, directory, lost)]
        if lost and not found and self.snapshot is not None:
            content = stored_files(self.snapshot.file, directory)
            found = [_absent(each, directory / "files") for each in content if each.name in lost]
        return found


def chains_of(state: PartitionState) -> tuple[SnapshotChain, ...]:
    """Those that the state's own manifest names, the one first that is used first."""
    first = SnapshotChain("snapshot", state.snapshot, state.changelogs)
    base = SnapshotChain("base", state.base.snapshot, state.base.changelogs)
    # What the first release wrote has no base of its own.
    return (first,) if base.files == first.files or base.state != state.state else (first, base)


def older_chains(layout: Layout, number: int, state: PartitionState) -> Iterator[SnapshotChain]:
    """Those that older manifests make up, the shortest way first.

    A changelog that is missing where ``layout`` has its partitions' files ends the way.
    """
    snapshots, steps = _known(layout, number)
    known = {each.file.name for each in state.all_snapshots}
    path: tuple[ChangelogReference, ...] = ()
    at = state.state
    while True:
        for snapshot in snapshots.get(at, ()):
            if path or snapshot.file.name not in known:
                yield SnapshotChain("older version", snapshot, path)
        if at == EMPTY_STATE:
            yield SnapshotChain("older version", None, path)
            return
        if not steps.get(at):
            return
        at, changelog = _present(steps[at], layout, number)
        path = (changelog, *path)


def without_damage(
    state: PartitionState, whole: Collection[Kind], used: SnapshotChain | None
) -> PartitionState:
    """The same state, named by the chains of ``whole`` alone, or by the one that was ``used``."""
    if {"snapshot", "base"} <= set(whole):
        return state
    if "snapshot" in whole:
        base = CountedBase(state.snapshot, state.changelogs, state.base.written)
        return replace(state, base=base)
    if "base" in whole:
        return replace(state, snapshot=state.base.snapshot, changelogs=state.base.changelogs)
    if used is None:
        return state
    base = CountedBase(used.snapshot, used.changelogs, state.base.written)
    return replace(state, snapshot=used.snapshot, changelogs=used.changelogs, base=base)


_Steps = dict[str, list[tuple[str, ChangelogReference]]]


def _known(layout: Layout, number: int) -> tuple[dict[str, list[SnapshotReference]], _Steps]:
    """Snapshots by the state they hold; by a state, what leads to it from another one."""
    snapshots: dict[str, dict[str, SnapshotReference]] = {}
    changelogs: dict[str, ChangelogReference] = {}
    states = {EMPTY_STATE}
    for each in reversed(published(layout)):
        try:
            partitions = read_published(layout, each.version, each.epoch).partitions
        except (FileNotFoundError, CorruptFileError):
            # One that cannot be read has nothing to offer; others may.
            continue
        if number >= len(partitions):
            continue
        found = partitions[number]
        states.add(found.state)
        for snapshot in found.all_snapshots:
            states.add(snapshot.state)
            snapshots.setdefault(snapshot.state, {})[snapshot.file.name] = snapshot
        for changelog in found.all_changelogs:
            states.add(changelog.state)
            changelogs[changelog.file.name] = changelog
    steps: _Steps = {}
    for changelog in changelogs.values():
        for before in states:
            if state_after(before, changelog.file) == changelog.state:
                steps.setdefault(changelog.state, []).append((before, changelog))
    return {state: list(found.values()) for state, found in snapshots.items()}, steps


def _present(
    steps: list[tuple[str, ChangelogReference]], layout: Layout, number: int
) -> tuple[str, ChangelogReference]:
    """Of changelogs that do the same, as those of a batch that ran again, one that is there."""
    directory = layout.partition(number)
    there = [each for each in steps if not _lacks(each[1].file, directory, ())]
    return (there or steps)[0]


def _lacks(file: FileReference, directory: Path, lost: Collection[str]) -> bool:
    if file.name in lost:
        return True
    try:
        found = file.within(directory).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    return not stat.S_ISREG(found.st_mode) or found.st_size != file.size


def _absent(file: FileReference, directory: Path) -> CorruptFileError:
    path = file.within(directory)
    there = confined(path).is_file()
    return CorruptFileError(
        "SM-EMBEDDED-017",
        f"{path} is {'not what was written' if there else 'missing'}",
        expected=f"a file of {file.size} bytes with SHA-256 {file.sha256}",
        found="other bytes" if there else "no such file",
        next_action=RESTORE_COPY,
        path=str(path),
    )
