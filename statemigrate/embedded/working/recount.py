"""A snapshot read back whole, before anything it stands for may be removed.

Its stored files are read record by record, and what they add up to is compared with the contents
that the manifest has of that version: these follow what batches have written, whatever became of
the working copy that the snapshot was taken of. Where contents are not known, or differ, the files
that the snapshot replaces are read too: they decide.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from statemigrate.embedded.storage.content_hash import Contents
from statemigrate.embedded.storage.database import Database
from statemigrate.embedded.versions.contents import differences
from statemigrate.embedded.versions.manifest import CountedBase, PartitionState, SnapshotReference
from statemigrate.embedded.working.records import contents_in
from statemigrate.embedded.working.restore import open_at
from statemigrate.errors import CheckpointError

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

    ``directory`` has the partition's durable files; what is made beside ``working`` is removed.
    Raises `CheckpointError` where the files that it replaces, those of ``base``, have others.
    """
    scratch = working.with_name(f"{working.name}-copy-{uuid.uuid4().hex}")
    try:
        stored = _alone(snapshot)
        found = _read(open_at(stored, directory, scratch / "found"))
        if found != snapshot.contents:
            replaced = PartitionState(snapshot.state, base.snapshot, base.changelogs)
            expected = _read(open_at(replaced, directory, scratch / "expected"))
            other = "the files that it replaces add up to"
            _require_same(found, expected, directory, other, "the working copy is made anew")
            _tell(snapshot, found, "snapshot and changelogs agree")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return with_proof(snapshot, found)


def with_proof(snapshot: SnapshotReference, found: dict[str, Contents]) -> SnapshotReference:
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
    scratch = working.with_name(f"{working.name}-copy-{uuid.uuid4().hex}")
    scratch.mkdir()
    try:
        stored = _alone(snapshot)
        found = _read(open_at(stored, directory, scratch / "found"))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    rest = "the proven copy from before it is kept"
    _require_same(found, contents_in(original), directory, "the working copy does", rest)
    _tell(snapshot, found, "the proven working copy decides")
    return with_proof(snapshot, found)


def _alone(snapshot: SnapshotReference) -> PartitionState:
    """A state of which nothing is known but its snapshot, which is read as it is."""
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


def _tell(snapshot: SnapshotReference, found: Mapping[str, Contents], why: str) -> None:
    different = {} if snapshot.contents is None else differences(found, snapshot.contents)
    if different:
        _log.warning(
            "the manifest had another hash of %s than the records of %s have; %s, and the hash is "
            "corrected; please report this", ", ".join(different), snapshot.file.name, why,
        )  # fmt: skip
