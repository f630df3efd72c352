"""The repair of a stopped query's state: what is damaged, what it is made from, and making it.

Every durable file of every version that is kept is compared with its checksum. Where the last
committed version is damaged, each partition of it is made from what is whole: a proven working
copy, the base, a chain that older manifests make up. The result is a snapshot that needs nothing of
what was damaged, compared key by key, and a manifest of the same version and a new epoch. Where a
partition cannot be made, the query can go back to an older version that is whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from statemigrate.budget import BackfillOptions, Tuner
from statemigrate.checkpoint.logs import batches_in
from statemigrate.embedded.chains import SnapshotChain, chains_of, older_chains
from statemigrate.embedded.continuation import last_committed
from statemigrate.embedded.layout import PARTITIONS, Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.mirror import Mirror
from statemigrate.embedded.offline import locked
from statemigrate.embedded.read_back import Readback
from statemigrate.embedded.restore import (
    missing_changelogs,
    other_contents,
    proven_state,
    saved_copy,
)
from statemigrate.embedded.task_plan import BatchPlan, opened_for, working_copy
from statemigrate.embedded.versions import (
    claim,
    differences,
    manifest_name,
    publish_manifest,
    published,
    same_contents,
)
from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.files import whole_number

Origin = Literal["snapshot", "base", "older version", "working copy", "copy from before a batch"]
SET_ASIDE = "statemigrate/set-aside"
"""Where a repair that goes back leaves what it takes out of Spark's logs and the versions."""


@dataclass(frozen=True)
class DamagedFile:
    """A durable file that is missing or altered: its place, and the partition it is of.

    ``partition`` is None for a manifest. ``is_needed`` tells whether the last committed version
    names it, ``origin`` what that partition's state can be made from all the same, if anything.
    """

    place: str
    found: Literal["missing", "altered"]
    partition: int | None
    is_needed: bool
    origin: Origin | None


@dataclass(frozen=True)
class Inspection:
    """What the durable files of a checkpoint and the working copies here are worth.

    ``version`` is the last committed batch. ``older`` is the newest version before it that is
    whole, None where there is none.
    """

    version: int
    files: tuple[DamagedFile, ...]
    older: int | None
    is_restorable: bool

    @property
    def is_damaged(self) -> bool:
        """Whether the last committed version needs a file that is damaged."""
        return any(each.is_needed for each in self.files)


@dataclass(frozen=True)
class Remade:
    """A partition whose state was stored again: from what, and the records by family."""

    partition: int
    origin: Origin
    records: Mapping[str, int]


class StoppedRepair:
    """The state of a query that does not run, held for the length of `locked_for_repair`."""

    def __init__(self, layout: Layout, working: Path) -> None:
        self._layout = layout.within(working)
        self._working = working
        self._readback = Readback(self._layout, warns=False)
        self._manifest: Manifest | None = None
        self._origins: dict[int, Origin | None] = {}

    def inspect(self, *, back_to: int | None = None) -> Inspection:
        """Read everything back.

        Raises `CheckpointError` where Spark's logs and the versions do not agree, unless it is
        looked at for going ``back_to`` a version, which is what leaves them so when interrupted.
        """
        self._readback = Readback(self._layout, warns=False)
        self._readback.begin()
        self._readback.read_all()
        version = _committed(self._layout)
        self._manifest = self._last() if back_to is None else None
        lost = {} if self._manifest is None else self._readback.lost_of(self._manifest)
        self._origins = {number: self._origin(number) for number in lost}
        needed = self._needed()
        files = [
            self._damaged(name, error, name in needed)
            for name, error in sorted(self._readback.lost.items())
        ]
        if (
            back_to is None
            and self._manifest is None
            and f"version {version}" not in self._readback.lost
        ):
            place = self._layout.location_of(manifest_name(version, 0).replace(".json", "-*.json"))
            files.append(DamagedFile(place, "missing", None, is_needed=True, origin=None))
        is_restorable = self._manifest is not None and None not in self._origins.values()
        return Inspection(version, tuple(files), self._older(version), is_restorable)

    def remake(self) -> tuple[Remade, ...]:
        """Store again each partition that `inspect` found damaged, and publish what they are now.

        Raises `CheckpointError` for one that nothing makes; nothing is published then.
        """
        manifest = self._manifest
        if manifest is None or None in self._origins.values():
            raise CheckpointError(
                "SM-REPAIR-002",
                f"nothing makes the last committed version of {self._layout.files.location} whole",
                expected="a proven working copy, or durable files that make every partition",
                found=f"partitions without either: {self._unmade()}",
                next_action="go back to the newest whole version, or restore the checkpoint "
                "directory from a copy",
                path=self._layout.files.location,
            )
        epoch = claim(self._layout)
        mirror = Mirror(self._layout)
        before = mirror.bring(manifest.partitions)
        plan = self._plan(manifest, before)
        states, remade = list(before), []
        for number, origin in sorted(self._origins.items()):
            assert origin is not None  # noqa: S101 - looked at above
            with opened_for(plan, number) as partition:
                after = partition.commit(snapshot=True)
            # The same content: what is known of it stays known.
            noted = manifest.partitions[number]
            _require_same_contents(noted, after, self._layout.partition(number))
            states[number] = replace(after, entries=noted.entries, quarantined=noted.quarantined)
            records = after.snapshot.records if after.snapshot else None
            remade.append(Remade(number, origin, records or {}))
        if remade:
            epoch.require_own()
            partitions = mirror.hand_over(manifest.version, before, states)
            publish_manifest(
                self._layout, replace(manifest, epoch=epoch.number, partitions=partitions)
            )
            epoch.require_newest()
        return tuple(remade)

    def go_back(self, version: int) -> tuple[str, ...]:
        """Make an older version the last committed one; the names of what was set aside.

        Batches after it run again: the first one with the offsets that Spark planned for it. What
        is taken out is copied to `SET_ASIDE` first. Interrupted, it is called again. Raises
        `CheckpointError` unless the version is whole.
        """
        self.require_whole(version)
        epoch = claim(self._layout)
        folder = f"{SET_ASIDE}/{epoch.number}"
        # Until the last of these is gone, a start is refused: logs and versions do not agree.
        names = [
            *_numbered(self._layout, "offsets", version + 1),
            *_numbered(self._layout, "commits", version),
        ]
        later = [each for each in published(self._layout) if each.version > version]
        names += [each.entry.name for each in reversed(later)]
        for name in names:
            epoch.require_newest()
            self._layout.files.put(f"{folder}/{name}", self._layout.files.get(name))
            # Spark refuses to write the file again where the checksum of the old one is left.
            log, _, number = name.rpartition("/")
            self._layout.files.delete([f"{log}/.{number}.crc", name])
        return tuple(names)

    def require_whole(self, version: int) -> None:
        """Raise `CheckpointError` unless it is one to go back to."""
        if not self._readback.is_whole(version) or version > _committed(self._layout):
            raise CheckpointError(
                "SM-REPAIR-003",
                f"version {version} of {self._layout.files.location} is not one to go back to",
                expected=f"one of the whole versions: {self._whole() or 'there is none'}",
                found=str(version),
                next_action="run repair without it: it says which version is the newest whole one",
                path=self._layout.files.location,
            )

    def _last(self) -> Manifest | None:
        try:
            return last_committed(self._layout)
        except CorruptFileError:
            # That is what is looked for; the manifest is among what was read back.
            return None

    def _needed(self) -> set[str]:
        version = _committed(self._layout)
        if self._manifest is None:
            return {f"version {version}"}
        found = self._readback.lost_of(self._manifest)
        return {
            name
            for name in self._readback.lost
            for number, names in found.items()
            if name.startswith(f"{PARTITIONS}/{number}/") and name.rpartition("/")[2] in names
        }

    def _damaged(self, name: str, error: CorruptFileError, is_needed: bool) -> DamagedFile:
        place = str(error.data["path"])
        is_there = self._layout.files.find(place.removeprefix(f"{self._layout.files.location}/"))
        number = whole_number(name.split("/")[2]) if name.startswith(PARTITIONS) else None
        origin = self._origins.get(number) if is_needed and number is not None else None
        return DamagedFile(place, "altered" if is_there else "missing", number, is_needed, origin)

    def _origin(self, number: int) -> Origin | None:
        """What makes a partition of the last committed version."""
        assert self._manifest is not None  # noqa: S101 - only of one that is there
        state = self._manifest.partitions[number]
        copy = Path(working_copy(str(self._working), number))
        if self._is_at(copy, number, state):
            return "working copy"
        for chain in (*chains_of(state), *older_chains(self._layout, number, state)):
            if self._is_sound(number, chain):
                return chain.kind
        return "copy from before a batch" if self._is_at(saved_copy(copy), number, state) else None

    def _is_at(self, copy: Path, number: int, state: PartitionState) -> bool:
        """Whether a copy here holds the state, or what whole changelogs lead to it from."""
        found = proven_state(copy) if copy.is_dir() else None
        missing = None if found is None else missing_changelogs(state, found)
        return missing is not None and self._is_sound(
            number, SnapshotChain("snapshot", None, missing)
        )

    def _is_sound(self, number: int, chain: SnapshotChain) -> bool:
        folder = f"{PARTITIONS}/{number}"
        names = {f"{folder}/{each.name}" for each in chain.files}
        return self._readback.are_whole(names)

    def _unmade(self) -> str:
        return ", ".join(str(each) for each, origin in self._origins.items() if origin is None)

    def _whole(self) -> str:
        known = [each for each in self._readback.versions if self._readback.is_whole(each)]
        return ", ".join(map(str, known))

    def _older(self, version: int) -> int | None:
        """The newest whole version before, whose batch after it Spark can run again."""
        begun = {
            whole_number(name.rpartition("/")[2]) for name in _numbered(self._layout, "offsets", -1)
        }
        whole = [
            each
            for each in self._readback.versions
            if each < version and each + 1 in begun and self._readback.is_whole(each)
        ]
        return max(whole, default=None)

    def _plan(self, manifest: Manifest, states: tuple[PartitionState, ...]) -> BatchPlan:
        options = BackfillOptions(enabled=False)
        return BatchPlan(
            version=manifest.version,
            layout=self._layout.here,
            working=str(self._working),
            partitions=states,
            stores={},
            retired=frozenset(),
            write_on_read=True,
            backfill=options,
            tuner=Tuner.start(options),
            snapshot_every=1,
            first_of_run=False,
            processing_time=time.time_ns() // 1_000_000,
            lost=self._readback.lost_of(manifest),
        )


@contextmanager
def locked_for_repair(
    layout: Layout, *, working_directory: Path | None = None
) -> Iterator[StoppedRepair]:
    """Hold a stopped query's state for the length of a block, whatever it is worth.

    Raises `CheckpointInUseError` while the query runs.
    """
    with locked(layout, working_directory) as working:
        yield StoppedRepair(layout, working)


def _require_same_contents(noted: PartitionState, after: PartitionState, directory: Path) -> None:
    if same_contents([noted], [after]) is False:
        pairs = differences(after.contents or {}, noted.contents or {})
        raise other_contents(pairs, directory)


def _committed(layout: Layout) -> int:
    entries = layout.files.list("commits")
    return max(batches_in([each.base_name for each in entries]), default=-1)


def _numbered(layout: Layout, folder: str, after: int) -> list[str]:
    """The files of batches after ``after`` in one of Spark's logs, the newest first."""
    entries = layout.files.list(folder)
    batches = sorted(batches_in([each.base_name for each in entries]), reverse=True)
    return [f"{folder}/{each}" for each in batches if each > after]
