"""A snapshot read back, before anything it stands for may be removed.

Its records are compared with those of the files that it replaces: the snapshot before it, and the
changelogs since. Neither number comes from the working copy that the snapshot was taken of.
"""

from __future__ import annotations

import shutil
import uuid
from dataclasses import replace
from pathlib import Path

from statemigrate.embedded.storage.database import Database
from statemigrate.embedded.versions.manifest import CountedBase, PartitionState, SnapshotReference
from statemigrate.embedded.working.records import count
from statemigrate.embedded.working.restore import open_at, open_keys_at
from statemigrate.errors import CheckpointError

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
            f"a snapshot in {directory} does not hold what the files that it replaces add up to",
            expected=f"records by family: {expected}",
            found=found,
            next_action="start the query again: nothing of this batch was written, nothing was "
            "removed, and the working copy is made anew; please report this",
            path=str(directory),
        )
    return replace(snapshot, records=found)


def _counts(database: Database) -> dict[str, int]:
    try:
        counts = {name: count(database.column(name)) for name in sorted(database.families)}
    finally:
        database.close()
    # Opening a family creates it, also where nothing is ever written to it.
    return {name: number for name, number in counts.items() if number}
