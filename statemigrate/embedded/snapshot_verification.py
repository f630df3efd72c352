"""Verifying a snapshot: its stored files are read back before what it replaces may go.

A snapshot read back whole, before anything it stands for may be removed.

Its stored files are read record by record, and what they add up to is compared with the contents
that the manifest has of that version: these follow what batches have written, whatever became of
the working copy that the snapshot was taken of. Where contents are not known, or differ, the files
that the snapshot replaces are read too: they decide.
"""

from __future__ import annotations

import logging
import shutil
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from time import monotonic

from statemigrate.embedded.content_hash import Contents, contents_of
from statemigrate.embedded.database import Database
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import CountedBase, Manifest, PartitionState, SnapshotReference
from statemigrate.embedded.replaced_values import contents_in, records
from statemigrate.embedded.restore import open_at, require_state
from statemigrate.embedded.snapshots import laid_out
from statemigrate.embedded.versions import differences
from statemigrate.errors import CheckpointError, CorruptFileError, without_credentials
from statemigrate.families import Span

_CHANGELOGS = 64
_LONGEST = 256
"""Changelogs since the base with which a snapshot is read in the batch that stores it."""
_SMALL = 10_000
"""Records of a state that is read in the batch: that takes as long as a few files."""
_log = logging.getLogger("statemigrate.embedded")


def is_wanted(state: PartitionState) -> bool:
    """Whether a snapshot of ``state`` should become the base, for which it is read whole.

    Not every one: the reading then costs less than the writes it comes after.
    """
    base = state.base
    if base.snapshot is None or base.snapshot.records is None:
        return True
    written = sum(base.snapshot.records.values()) <= 2 * base.written
    return written or len(base.changelogs) >= _CHANGELOGS


def is_due(state: PartitionState) -> bool:
    """Whether that is done in the batch that stores it.

    Of a large state it is left to what reads a piece after each batch; see `Proving`.
    """
    if state.contents is None or not state.base.is_counted:
        return is_wanted(state)
    if len(state.base.changelogs) >= _LONGEST:
        return True
    return is_wanted(state) and records_in(state) <= _SMALL


def records_in(state: PartitionState) -> int:
    """How many records a state has whose contents are known."""
    return sum(each.records for each in (state.contents or {}).values())


def proven(
    snapshot: SnapshotReference, base: CountedBase, directory: Path, working: Path
) -> SnapshotReference:
    """``snapshot`` with its contents and records by family, as its stored files have them.

    ``directory`` has the partition's durable files; what is made next to ``working`` is removed.
    Raises `CheckpointError` where the files that it replaces, those of ``base``, have others.
    """
    with _scratch(working) as scratch:
        found = _read(open_at(_alone(snapshot), directory, scratch / "found"))
        if found != snapshot.contents:
            replaced = PartitionState(snapshot.state, base.snapshot, base.changelogs)
            expected = _read(open_at(replaced, directory, scratch / "expected"))
            other = "the files that it replaces add up to"
            _require_same(found, expected, directory, other, "the working copy is made again")
            _warn_of_corrected_hash(snapshot, found, "snapshot and changelogs agree")
    return with_verified_contents(snapshot, found)


def with_verified_contents(
    snapshot: SnapshotReference, found: dict[str, Contents]
) -> SnapshotReference:
    """``snapshot``, read back whole with what was ``found`` in it."""
    counts = {name: each.records for name, each in found.items()}
    return replace(snapshot, records=counts, contents=found)


def compared(
    snapshot: SnapshotReference, original: Database, directory: Path, working: Path
) -> SnapshotReference:
    """``snapshot`` with its records by family, each of them the same as in the open ``original``.

    For a snapshot of the only copy that has a state, where no file is left to compare it with.
    Raises `CheckpointError` where a key or value is another one.
    """
    with _scratch(working) as scratch:
        found = _read(open_at(_alone(snapshot), directory, scratch / "found"))
    rest = "the proven copy from before it is kept"
    _require_same(found, contents_in(original), directory, "the working copy does", rest)
    _warn_of_corrected_hash(snapshot, found, "the proven working copy decides")
    return with_verified_contents(snapshot, found)


@contextmanager
def _scratch(working: Path) -> Iterator[Path]:
    """A folder next to the working copy, removed after the block."""
    scratch = working.with_name(f"{working.name}-copy-{uuid.uuid4().hex}")
    scratch.mkdir()
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _alone(snapshot: SnapshotReference) -> PartitionState:
    """A state known by its snapshot alone, which is read as it is."""
    return PartitionState(snapshot.state, replace(snapshot, contents=None))


def _read(database: Database) -> dict[str, Contents]:
    try:
        return contents_in(database)
    finally:
        database.close()


def _require_same(
    found: Mapping[str, Contents],
    expected: Mapping[str, Contents],
    directory: Path,
    other: str,
    rest: str,
) -> None:
    different = differences(found, expected)
    if not different:
        return
    raise CheckpointError(
        "SM-EMBEDDED-030",
        f"a snapshot in {directory} does not hold what {other}: {', '.join(different)}",
        expected="; ".join(f"{name}: {pair[1]}" for name, pair in different.items()),
        found="; ".join(f"{name}: {pair[0]}" for name, pair in different.items()),
        next_action="start the query again: nothing of this batch was written, nothing was "
        f"removed, and {rest}; please report this",
        path=str(directory),
        families=list(different),
    )


def _warn_of_corrected_hash(
    snapshot: SnapshotReference, found: Mapping[str, Contents], why: str
) -> None:
    different = {} if snapshot.contents is None else differences(found, snapshot.contents)
    if different:
        _log.warning(
            "the manifest had another hash of %s than the records of %s have; %s, and the hash is "
            "corrected; please report this", ", ".join(different), snapshot.file.name, why,
        )  # fmt: skip


# Snapshots of large states read back whole, a piece after each batch.
#
# Reading a state takes as long as it is large, and a batch is not to wait for it. A snapshot is
# therefore stored first, and stands for nothing: the base before it and all changelogs since make
# the same state, and are kept. Meanwhile the driver lays out the snapshot's stored files and reads
# them record by record, a sixty-fourth of them after each batch, more after one without rows. Once
# what it has read is what the manifest says, the snapshot becomes the base, with the next version.


_BATCHES = 64
"""Batches within which a snapshot is read."""
_RECORDS_A_STEP = 4_096


class Proving:
    """The snapshots that one driver is reading back, at most one of each partition."""

    def __init__(self, layout: Layout, working: Path) -> None:
        self._layout = layout
        self._working = working
        self._readings: dict[int, _SnapshotCopy] = {}
        self._later: dict[int, int] = {}
        self._version = -1
        # A query is ended from another thread than its batches run in.
        self._working_on = threading.RLock()
        self.doubtful: frozenset[int] = frozenset()

    @property
    def under_way(self) -> frozenset[int]:
        """The partitions whose snapshot is being read: they store no other one meanwhile."""
        return frozenset(self._readings)

    def committed(self, manifest: Manifest) -> None:
        """Take up what a version has that should be read, and leave what it does not name.

        Partitions that were ``doubtful`` have proven a snapshot in the batch.
        """
        with self._working_on:
            self._version = manifest.version
            self.doubtful = frozenset()
            for number, state in enumerate(manifest.partitions):
                self._take_up(number, state)

    def _take_up(self, number: int, state: PartitionState) -> None:
        reading = self._readings.get(number)
        if reading is not None and not reading.is_of(state):
            self._end(number)
        if number not in self._readings and self._should_read(number, state):
            copy = self._working / f"partition-{number}-copy-{uuid.uuid4().hex}"
            self._readings[number] = _SnapshotCopy(state, self._layout.partition(number), copy)

    def read(self, milliseconds: float = 0.0) -> None:
        """Read a sixty-fourth of each snapshot, and more as long as these milliseconds last."""
        with self._working_on:
            self._read(milliseconds)

    def _read(self, milliseconds: float) -> None:
        end = monotonic() + milliseconds / 1_000
        for number, reading in list(self._readings.items()):
            for _ in range(reading.quota):
                if number in self._readings and not reading.is_read:
                    self._step(number, reading)
        while monotonic() < end:
            unread = [each for each in self._readings.items() if not each[1].is_read]
            if not unread:
                return
            for number, reading in unread:
                self._step(number, reading)

    def applied(self, states: Sequence[PartitionState]) -> list[PartitionState]:
        """The states of a version to come, with the snapshots that were read as their bases."""
        found = list(states)
        for number, reading in list(self._readings.items()):
            if reading.is_read and reading.is_of(found[number]):
                found[number] = reading.based(found[number])
        return found

    def close(self) -> None:
        """Leave everything; the next driver begins again."""
        with self._working_on:
            for number in list(self._readings):
                self._end(number)

    def _should_read(self, number: int, state: PartitionState) -> bool:
        snapshot = state.snapshot
        if snapshot is None or snapshot.records is not None or snapshot.contents is None:
            return False
        return is_wanted(state) and self._version >= self._later.get(number, 0)

    def _step(self, number: int, reading: _SnapshotCopy) -> None:
        try:
            reading.step()
        except CorruptFileError as error:
            place = without_credentials(str(error.data["path"]))
            self._doubt(number, f"{place} is not what was written: {error.found}")
        except Exception:
            # Of the disk, mostly. It ends no batch: whatever stands for the state is kept.
            where = without_credentials(self._layout.files.location)
            _log.warning("a snapshot of %s cannot be read back now", where, exc_info=True)
            self._later[number] = self._version + _BATCHES
            self._end(number)
        else:
            if reading.is_read and reading.wrong:
                self._doubt(number, f"records of {', '.join(reading.wrong)} are other ones")

    def _doubt(self, number: int, why: str) -> None:
        _log.warning(
            "a snapshot of partition %d was read back and does not hold its version (%s); the "
            "next batch compares it with the files that it replaces", number, why,
        )  # fmt: skip
        self.doubtful |= {number}
        self._end(number)

    def _end(self, number: int) -> None:
        reading = self._readings.pop(number, None)
        if reading is not None:
            reading.close()


@dataclass
class _SnapshotCopy:
    """One snapshot being read, in a copy of its own whose files are second names."""

    state: PartitionState
    directory: Path
    copy: Path

    def __post_init__(self) -> None:
        assert self.state.snapshot is not None  # noqa: S101 - asked before
        self._snapshot: SnapshotReference = self.state.snapshot
        self._found: dict[str, Contents] = {}
        self._database: Database | None = None
        self._steps = self._read()
        self.is_read = False
        self.quota = 1 + records_in(self.state) // _RECORDS_A_STEP // _BATCHES

    @property
    def wrong(self) -> list[str]:
        """The families whose records are other ones than they should be."""
        return list(differences(self._found, self._snapshot.contents or {}))

    def is_of(self, state: PartitionState) -> bool:
        """Whether a state still has this snapshot to be read, and the base that it replaces."""
        return (
            state.snapshot is not None
            and state.snapshot.file == self._snapshot.file
            and state.snapshot.records is None
            and _name(state.base.snapshot) == _name(self.state.base.snapshot)
        )

    def step(self) -> None:
        """Read a piece. Raises `CorruptFileError` where a file is not what was written."""
        if not self.is_read and next(self._steps, None) is None:
            self.is_read = True
            self.close()

    def based(self, state: PartitionState) -> PartitionState:
        """A state that has the snapshot, now that it is read, as its base."""
        assert state.snapshot is not None  # noqa: S101 - as `is_of` says
        before = len(state.base.changelogs) - len(state.changelogs)
        step = state.base.changelogs[before - 1] if before > 0 else None
        proven = replace(with_verified_contents(state.snapshot, self._found), step=step)
        # Nobody has counted them apart: as many as their part of the changelogs.
        written = state.base.written * len(state.changelogs) // max(len(state.base.changelogs), 1)
        base = CountedBase(proven, state.changelogs, written)
        return replace(state, snapshot=proven, base=base)

    def close(self) -> None:
        """Remove the copy."""
        if self._database is not None:
            self._database.close()
            self._database = None
        shutil.rmtree(self.copy, ignore_errors=True)

    def _read(self) -> Iterator[bool]:
        directory, opened = self.directory, self.copy / "found"
        for _ in laid_out(self._snapshot.file, directory, directory / "files", opened):
            yield True
        self._database = database = Database(opened)
        require_state(database, self._snapshot, directory)
        yield True
        for family in sorted(database.families):
            found, last = Contents(), None
            while last is None or last:
                # Begun again each time: the thread that goes on may be another one.
                span = Span(lower=None if last is None else last + b"\x00")
                block = list(islice(records(database.column(family), span), _RECORDS_A_STEP))
                found += contents_of(block)
                last = block[-1][0] if len(block) == _RECORDS_A_STEP else b""
                yield True
            if found.records:
                self._found[family] = found


def _name(snapshot: SnapshotReference | None) -> str | None:
    return None if snapshot is None else snapshot.file.name
