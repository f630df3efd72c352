"""A snapshot read back, before anything it stands for may be removed.

Its records are compared with those of the files that it replaces: the snapshot before it, and the
changelogs since. Neither number comes from the working copy that the snapshot was taken of.
"""

from __future__ import annotations

import hashlib
import shutil
import uuid
from dataclasses import replace
from pathlib import Path

from statemigrate.embedded.storage.database import Database
from statemigrate.embedded.versions.manifest import CountedBase, PartitionState, SnapshotReference
from statemigrate.embedded.working.records import count, records
from statemigrate.embedded.working.restore import open_at, open_keys_at
from statemigrate.errors import CheckpointError
from statemigrate.families import Span

_CHANGELOGS = 64


def is_due(base: CountedBase) -> bool:
    """Whether a new snapshot should become the base, for which the whole state is read twice.

    Not for every one: the reading then costs less than the writes it comes after.
    """
    if base.snapshot is None or base.snapshot.records is None:
        return True
    records = sum(base.snapshot.records.values())
    return 2 * base.written >= records or len(base.changelogs) >= _CHANGELOGS


def recounted(
    snapshot: SnapshotReference, base: CountedBase, directory: Path, working: Path
) -> SnapshotReference:
    """``snapshot`` with its records by family, each of them read from its stored files.

    ``directory`` has the partition's durable files; what is made beside ``working`` is removed.
    Raises `CheckpointError` where they are not as many as ``base`` adds up to.
    """
    scratch = working.with_name(f"{working.name}-copy-{uuid.uuid4().hex}")
    try:
        stored = PartitionState(snapshot.state, snapshot)
        found = _counts(open_at(stored, directory, scratch / "found"))
        replaced = PartitionState(snapshot.state, base.snapshot, base.changelogs)
        expected = _counts(open_keys_at(replaced, directory, scratch / "expected"))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if found != expected:
        raise CheckpointError(
            "SM-EMBEDDED-030",
            f"a snapshot in {directory} does not hold what the files that it replaces add up to",
            expected=f"records by family: {expected}",
            found=found,
            next_action="start the query again: nothing of this batch was written, nothing was "
            "removed, and the working copy is made anew; please report this",
            path=str(directory),
        )
    return replace(snapshot, records=found)


def compared(
    snapshot: SnapshotReference, original: Database, directory: Path, working: Path
) -> SnapshotReference:
    """``snapshot`` with its records by family, each of them the same as in the open ``original``.

    For a snapshot of the only copy that has a state, where no file is left to count by. Raises
    `CheckpointError` where a key or value is another one.
    """
    scratch = working.with_name(f"{working.name}-copy-{uuid.uuid4().hex}")
    scratch.mkdir()
    try:
        stored = PartitionState(snapshot.state, snapshot)
        copy = open_at(stored, directory, scratch / "found")
        try:
            found = _contents(copy)
        finally:
            copy.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    expected = _contents(original)
    if found != expected:
        raise CheckpointError(
            "SM-EMBEDDED-030",
            f"a snapshot in {directory} does not hold what the working copy does",
            expected=f"records and checksum by family: {expected}",
            found=found,
            next_action="start the query again: nothing of this batch was written, and the proven "
            "copy from before it is kept; please report this",
            path=str(directory),
        )
    return replace(snapshot, records={name: count for name, (count, _) in found.items() if count})


def _contents(database: Database) -> dict[str, tuple[int, str]]:
    """By family that holds anything, how many records it has, and a hash of all of them."""
    found = {}
    for name in sorted(database.families):
        number, digest = 0, hashlib.sha256()
        for key, value in records(database.column(name), Span()):
            number += 1
            digest.update(len(key).to_bytes(8, "big") + key + len(value).to_bytes(8, "big"))
            digest.update(value)
        if number:
            found[name] = (number, digest.hexdigest())
    return found


def _counts(database: Database) -> dict[str, int]:
    try:
        counts = {name: count(database.column(name)) for name in sorted(database.families)}
    finally:
        database.close()
    # Opening a family creates it, also where nothing is ever written to it.
    return {name: number for name, number in counts.items() if number}
