"""Bringing a working copy to exactly one version, verified by what is in it."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import Any

from statemigrate.embedded.changelog import read_changelog
from statemigrate.embedded.database import META, Database
from statemigrate.embedded.lock import DirectoryLock
from statemigrate.embedded.manifest import EMPTY_STATE, ChangelogReference, PartitionState
from statemigrate.embedded.snapshots import restore_snapshot
from statemigrate.errors import CheckpointError, CheckpointInUseError

STATE = b"state"
UNCOMMITTED = b"uncommitted"


def open_at(wanted: PartitionState, directory: Path, working: Path) -> Database:
    """Open a working copy that holds exactly ``wanted``.

    ``directory`` has the partition's durable files. The copy under ``working`` is used as far as
    the identity stored inside it proves it right: as it is, after replaying the changelogs it has
    not seen, or not at all. While another attempt of the same task holds it, here or in another
    process, a private copy is made instead.
    """
    try:
        return _open_held(wanted, directory, working)
    except CheckpointInUseError:
        return _open_verified(wanted, directory, _private(working))


def is_private(path: Path) -> bool:
    """Whether a working copy was made for one task alone."""
    return "-private-" in path.name


def _private(working: Path) -> Path:
    return working.with_name(f"{working.name}-private-{uuid.uuid4().hex}")


def _open_held(wanted: PartitionState, directory: Path, working: Path) -> Database:
    # RocksDB's own lock lies inside the copy and is not held while the copy is made or replaced.
    held = DirectoryLock(working.with_name(f"{working.name}.lock"), "the working copy in")
    try:
        database = _open_verified(wanted, directory, working)
    except BaseException:
        held.release()
        raise
    database.on_close(held.release)
    return database


def _open_verified(wanted: PartitionState, directory: Path, working: Path) -> Database:
    database = _open_existing(working)
    if database is not None:
        missing = _missing(wanted, database.column(META).get(STATE))
        if missing is not None:
            return _replayed(database, missing, directory)
        database.close()
    return _rebuilt(wanted, directory, working)


def _open_existing(working: Path) -> Database | None:
    if not (working / "CURRENT").exists():
        return None
    try:
        return Database(working)
    except CheckpointInUseError:
        raise
    except CheckpointError:
        # A crash can leave a copy RocksDB refuses; it is disposable, the checkpoint is the truth.
        return None


def _missing(wanted: PartitionState, found: bytes | None) -> tuple[ChangelogReference, ...] | None:
    """The changelogs a copy in state ``found`` lacks; None when it is not on the way at all."""
    state = (found or b"").decode()
    base = wanted.snapshot.state if wanted.snapshot else EMPTY_STATE
    on_the_way = [base, *(each.state for each in wanted.changelogs)]
    if state not in on_the_way:
        return None
    return wanted.changelogs[on_the_way.index(state) :]


def _rebuilt(wanted: PartitionState, directory: Path, working: Path) -> Database:
    shutil.rmtree(working, ignore_errors=True)
    if wanted.snapshot is not None:
        try:
            restore_snapshot(wanted.snapshot.file, directory, directory / "files", working)
        except BaseException:
            # What is there may look whole, and it carries the wanted state's marker.
            shutil.rmtree(working, ignore_errors=True)
            raise
    database = Database(working)
    if wanted.snapshot is None:
        database.column(META).put(STATE, EMPTY_STATE.encode())
    return _replayed(database, wanted.changelogs, directory)


def _replayed(
    database: Database, changelogs: tuple[ChangelogReference, ...], directory: Path
) -> Database:
    try:
        for changelog in changelogs:
            _replay(database, changelog, directory)
    except BaseException:
        database.close()
        raise
    return database


def _replay(database: Database, changelog: ChangelogReference, directory: Path) -> None:
    meta = database.column(META)
    meta.put(STATE, UNCOMMITTED)
    path = changelog.file.within(directory)
    for family, key, value in read_changelog(path, changelog.file):
        _apply(database, family, key, value)
    meta.put(STATE, changelog.state.encode())


def _apply(database: Database, family: str, key: bytes, value: bytes | None) -> None:
    if not family:
        database.drop(key.decode())
        return
    column: Any = database.column(family)
    if value is None:
        column.delete(key)
    else:
        column.put(key, value)
