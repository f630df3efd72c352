"""Bringing a working copy to exactly one version, which its proof or durable files tell."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from statemigrate.embedded.storage.changelog import Columns, read_blocks, runs_of
from statemigrate.embedded.storage.database import META, Database, Run, translated
from statemigrate.embedded.storage.durable import unwritable
from statemigrate.embedded.storage.lock import DirectoryLock
from statemigrate.embedded.storage.snapshots import restore_snapshot
from statemigrate.embedded.versions.manifest import (
    EMPTY_STATE,
    ChangelogReference,
    PartitionState,
    SnapshotReference,
)
from statemigrate.embedded.working.last_writes import LastWrites
from statemigrate.embedded.working.proof import proven_state, remove, withdraw
from statemigrate.errors import CheckpointError, CheckpointInUseError, CorruptFileError
from statemigrate.files.documents.sealed import RESTORE_COPY

_AT_ONCE = 1_024
STATE = b"state"
UNCOMMITTED = b"uncommitted"


def open_at(wanted: PartitionState, directory: Path, working: Path) -> Database:
    """Open a working copy that holds exactly ``wanted``; nothing proves it from here on.

    ``directory`` has the partition's durable files. The copy under ``working`` is used as far as
    it is proven right: as it is, after replaying the changelogs it has not seen, or not at all.
    While another attempt of the same task holds it, here or in another
    process, a private copy is made instead.
    """
    with unwritable(working.parent):
        try:
            return _open_held(wanted, directory, working)
        except CheckpointInUseError:
            return _open_verified(wanted, directory, _private(working))


def open_keys_at(wanted: PartitionState, directory: Path, scratch: Path) -> Database:
    """A new copy in which what changelogs have written has its keys alone, to be counted.

    Every byte is checked as for `open_at`; a key that changelogs write again and again is written
    once.
    """
    with unwritable(scratch.parent):
        database = _rebuilt(replace(wanted, changelogs=()), directory, scratch)
        with _closed_on_failure(database), translated(database.path):
            writes = LastWrites(database)
            for changelog in wanted.changelogs:
                for block in read_blocks(changelog.file.within(directory), changelog.file):
                    writes.add(block)
            writes.write()
        return database


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
    state = proven_state(working)
    missing = None if state is None else _missing(wanted, state)
    if missing is not None:
        database = _open_proven(working)
        if database is not None:
            return _replayed(database, missing, directory)
    return _rebuilt(wanted, directory, working)


def _open_proven(working: Path) -> Database | None:
    # Opening writes already.
    withdraw(working)
    try:
        return Database(working)
    except CheckpointInUseError:
        raise
    except CheckpointError:
        # RocksDB can refuse a copy that was tampered with; the checkpoint is the truth.
        return None


def _missing(wanted: PartitionState, state: str) -> tuple[ChangelogReference, ...] | None:
    """The changelogs a copy in ``state`` lacks; None when it is not on the way at all."""
    base = wanted.snapshot.state if wanted.snapshot else EMPTY_STATE
    on_the_way = [base, *(each.state for each in wanted.changelogs)]
    if state not in on_the_way:
        return None
    return wanted.changelogs[on_the_way.index(state) :]


def _rebuilt(wanted: PartitionState, directory: Path, working: Path) -> Database:
    remove(working)
    if wanted.snapshot is not None:
        try:
            restore_snapshot(wanted.snapshot.file, directory, directory / "files", working)
        except BaseException:
            remove(working)
            raise
    database = Database(working)
    if wanted.snapshot is not None:
        _compare(database, wanted.snapshot, directory)
    return _replayed(database, wanted.changelogs, directory)


def _compare(database: Database, snapshot: SnapshotReference, directory: Path) -> None:
    """Raise `CorruptFileError` unless the restored snapshot says that it holds its state."""
    with translated(database.path):
        found = database.column(META).get(STATE)
    if found == snapshot.state.encode():
        return
    database.close()
    path = snapshot.file.within(directory)
    raise CorruptFileError(
        f"{path} holds another state than the manifest says",
        expected=snapshot.state,
        found=(found or b"none").decode(errors="replace"),
        next_action=RESTORE_COPY,
        path=str(path),
    )


def _replayed(
    database: Database, changelogs: tuple[ChangelogReference, ...], directory: Path
) -> Database:
    with _closed_on_failure(database):
        for changelog in changelogs:
            with translated(database.path):
                _replay(database, changelog, directory)
    return database


@contextmanager
def _closed_on_failure(database: Database) -> Iterator[None]:
    try:
        yield
    except BaseException:
        database.close()
        raise


def _replay(database: Database, changelog: ChangelogReference, directory: Path) -> None:
    meta = database.column(META)
    meta.put(STATE, UNCOMMITTED)
    path = changelog.file.within(directory)
    for families, keys, values in read_blocks(path, changelog.file):
        for start in range(0, len(keys), _AT_ONCE):
            end = start + _AT_ONCE
            _repeat(database, (families[start:end], keys[start:end], values[start:end]))
    meta.put(STATE, changelog.state.encode())


def _repeat(database: Database, block: Columns) -> None:
    for is_write, runs in groupby(runs_of(block), key=_is_write):
        if is_write:
            database.write(runs)
        else:
            for _, names, _ in runs:
                for name in names:
                    database.drop(name.decode())


def _is_write(run: Run) -> bool:
    # A family that is dropped has its name as the key.
    return run[0] != ""
