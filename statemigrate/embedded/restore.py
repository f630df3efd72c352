"""Bringing a working copy to exactly one version, which its proof or durable files tell."""

from __future__ import annotations

import itertools
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from statemigrate.embedded.chains import SnapshotChain, chains_of, without_damage
from statemigrate.embedded.changelog import Columns, read_blocks, runs_of
from statemigrate.embedded.database import META, Database, Run, translated
from statemigrate.embedded.durable import (
    publish_document,
    read_document,
    sha256_of,
    sync_directory,
    unwritable,
)
from statemigrate.embedded.layout import DirectoryLock
from statemigrate.embedded.manifest import (
    EMPTY_STATE,
    ChangelogReference,
    PartitionState,
    SnapshotReference,
)
from statemigrate.embedded.replaced_values import contents_in, count
from statemigrate.embedded.snapshots import restore_snapshot
from statemigrate.embedded.versions import Pair, differences
from statemigrate.errors import CheckpointError, CheckpointInUseError, CorruptFileError
from statemigrate.files import RESTORE_COPY

# What proves that a working copy holds one version, and nothing else.
#
# RocksDB's files are several moments' state after a crash: each family is flushed by itself, and
# the order is nobody's promise. A copy is therefore trusted only by a document next to them, which
# says what the files are and what they hold. It is gone from disk before anything changes, and back
# only after everything is closed.


INTEGRITY_MARKER = "statemigrate-proof.json"
_DATA = re.compile(r"CURRENT|MANIFEST-\d+|\d+\.(sst|log|blob)")
_CONTENTS_COUNT = re.compile(r"CURRENT|MANIFEST-\d+")


def prove(copy: Path, state: str) -> None:
    """Say that the closed database in ``copy`` holds ``state``."""
    publish_document(copy / INTEGRITY_MARKER, {"state": state, "files": _files(copy)})


def proven_state(copy: Path) -> str | None:
    """The state that ``copy`` was proven to hold; None unless its files are still those."""
    if not (copy / INTEGRITY_MARKER).is_file():
        return None
    try:
        proof = read_document(copy / INTEGRITY_MARKER)
        state: str = proof["state"]
        return state if proof["files"] == _files(copy) else None
    except (CorruptFileError, KeyError):
        # A copy is disposable: what proves nothing is as good as nothing.
        return None


def keep(copy: Path) -> None:
    """Save the verified files of ``copy`` next to it, marker and all, while a task changes it.

    A batch that fails leaves a copy that proves nothing. Where durable files are damaged too, what
    is kept may be the last that has the state.
    """
    remove_saved_copy(copy)
    duplicate(copy, saved_copy(copy))


def remove_saved_copy(copy: Path) -> None:
    """Remove what `keep` kept; what is left of it after a crash proves all of itself, or nothing.

    Nothing is synced: an old copy that comes back after a loss of power is of an old state.
    """
    kept = saved_copy(copy)
    if kept.exists():
        with unwritable(kept.parent):
            shutil.rmtree(kept)


def duplicate(copy: Path, target: Path) -> None:
    """Give the proven files of ``copy`` a second place, which proves the same.

    SST files are second names. Nothing of it is made durable: what a loss of power leaves proves
    itself, or nothing.
    """
    with unwritable(target.parent):
        target.mkdir()
        for path in copy.iterdir():
            if not _DATA.fullmatch(path.name):
                continue
            if path.suffix != ".sst" or not _linked(path, target / path.name):
                shutil.copyfile(path, target / path.name)
        shutil.copyfile(copy / INTEGRITY_MARKER, target / INTEGRITY_MARKER)


def _linked(path: Path, target: Path) -> bool:
    # Both are in a directory that is this user's alone.
    try:
        target.hardlink_to(path)
    except OSError:
        return False
    return True


def saved_copy(copy: Path) -> Path:
    """Where `keep` keeps the files of a working copy."""
    return copy.with_name(f"{copy.name}-proven")


def withdraw(copy: Path) -> None:
    """Remove the marker, so that no crash leaves it next to files that changed."""
    try:
        (copy / INTEGRITY_MARKER).unlink()
    except FileNotFoundError:
        return
    sync_directory(copy)


def remove(copy: Path) -> None:
    """Remove a working copy; killed on the way, the rest of it proves nothing."""
    if not copy.exists():
        return
    with unwritable(copy.parent):
        withdraw(copy)
        shutil.rmtree(copy)


def _files(copy: Path) -> dict[str, Any]:
    """RocksDB's data files: sizes, and hashes of those that say which files count."""
    return {
        path.name: [
            path.stat().st_size,
            sha256_of(path) if _CONTENTS_COUNT.fullmatch(path.name) else None,
        ]
        for path in sorted(copy.iterdir())
        if _DATA.fullmatch(path.name)
    }


_AT_ONCE = 1_024
_REPAIR = (
    "stop the query and run `statemigrate doctor CHECKPOINT --repair`: it says what is left, and "
    "which "
    "version is whole; or restore the checkpoint directory from a copy; do not delete anything "
    "from it"
)
STATE = b"state"
UNCOMMITTED = b"uncommitted"


@dataclass(frozen=True)
class Damage:
    """A durable file that is missing or altered, and what was used in its place.

    ``instead`` is None where nothing was: its state is known from elsewhere.
    """

    path: str
    found: Literal["missing", "altered"]
    instead: str

    @classmethod
    def of(cls, error: CorruptFileError, instead: str) -> Damage:
        """That which an error is about."""
        path = Path(str(error.data["path"]))
        return cls(str(path), "altered" if path.exists() else "missing", instead)

    def __str__(self) -> str:
        return f"{self.path} is {self.found}; {self.instead}"


@dataclass(frozen=True)
class Restored:
    """An open working copy that holds exactly ``state``, and what was damaged on the way to it.

    ``state`` names durable files that are whole. Where there are none any more it is ``alone``: the
    copy was proven, and is the only one that has the state.
    """

    database: Database
    state: PartitionState
    damages: tuple[Damage, ...] = ()
    alone: bool = False


def _no_chains() -> Iterable[SnapshotChain]:
    return ()


def open_at(wanted: PartitionState, directory: Path, working: Path) -> Database:
    """Open a working copy that holds exactly ``wanted``: see `restored`."""
    return restored(wanted, directory, working).database


def restored(
    wanted: PartitionState,
    directory: Path,
    working: Path,
    *,
    older: Callable[[], Iterable[SnapshotChain]] = _no_chains,
    lost: Collection[str] = (),
) -> Restored:
    """Open a working copy that holds exactly ``wanted``; nothing proves it from here on.

    ``directory`` has the partition's durable files. The copy under ``working`` is used as far as
    it is proven right: as it is, after replaying the changelogs it has not seen, or not at all.
    While another attempt of the same task holds it, here or in another
    process, a private copy is made instead.

    A copy is made from the newest snapshot; where files of that are damaged from the base, from the
    chains that ``older`` gives, and last from the proven files that a failed batch has left.
    ``lost`` are names of files that are known to be damaged. Raises `CorruptFileError` where none
    of these is whole.
    """
    source = _Source(wanted, directory, older, lost)
    with unwritable(working.parent):
        try:
            return _open_locked(source, working)
        except CheckpointInUseError:
            return source.open(_private(working))


def is_private(path: Path) -> bool:
    """Whether a working copy was made for one task alone."""
    return "-private-" in path.name


def _private(working: Path) -> Path:
    return working.with_name(f"{working.name}-private-{uuid.uuid4().hex}")


def _open_locked(source: _Source, working: Path) -> Restored:
    # RocksDB's own lock lies inside the copy and is not held while the copy is made or replaced.
    lock = DirectoryLock(working.with_name(f"{working.name}.lock"), "the working copy in")
    try:
        found = source.open(working)
    except BaseException:
        lock.release()
        raise
    found.database.on_close(lock.release)
    return found


class _Source:
    """All that a partition's state may be made from."""

    def __init__(
        self,
        wanted: PartitionState,
        directory: Path,
        older: Callable[[], Iterable[SnapshotChain]],
        lost: Collection[str],
    ) -> None:
        self._wanted = wanted
        self._directory = directory
        self._older = older
        self._lost = lost
        self._chains = chains_of(wanted)

    def open(self, working: Path) -> Restored:
        """The proven copy, or one that is made from the first whole chain."""
        state = proven_state(working)
        missing = None if state is None else missing_changelogs(self._wanted, state)
        if missing is not None:
            if not is_private(working):
                keep(working)
            found = self._proven(working, missing)
            if found is not None:
                return found
        return self._made(working)

    def _proven(self, working: Path, missing: tuple[ChangelogReference, ...]) -> Restored | None:
        """The copy as it is, with what it has not seen; None where it cannot be used."""
        absent = {each.kind: each.absent(self._directory, self._lost) for each in self._chains}
        database = _open_proven(working)
        if database is None:
            return None
        try:
            _replayed(database, missing, self._directory)
        except CorruptFileError:
            # Reported again by the restore from files, with what is used instead.
            return None
        whole = [kind for kind, errors in absent.items() if not errors]
        found = {str(error.data["path"]): error for errors in absent.values() for error in errors}
        alone = not whole
        instead = "the proven working copy has" if alone else "other files have"
        damages = tuple(Damage.of(error, f"{instead} the state") for error in found.values())
        state = without_damage(self._wanted, whole, None) if damages else self._wanted
        return Restored(database, state, damages, alone)

    def _made(self, working: Path) -> Restored:
        errors: list[CorruptFileError] = []
        # Older manifests are read only where both chains of this one are broken.
        for chain in itertools.chain(self._chains, self._older_whole(errors)):
            try:
                database = _rebuilt(chain, self._directory, working)
            except CorruptFileError as error:
                # Its traceback holds on to the database, which would stay open with it.
                errors.append(error.with_traceback(None))
                continue
            if not errors:
                return Restored(database, self._wanted)
            with _closed_on_failure(database):
                _require_equal(database, chain, self._wanted, self._directory)
            own = chain in self._chains
            state = without_damage(
                self._wanted, [chain.kind] if own else (), None if own else chain
            )
            return Restored(database, state, _damages(errors, f"the {chain.kind} is used"))
        return self._restore_saved_copy(working, errors)

    def _older_whole(self, errors: list[CorruptFileError]) -> Iterator[SnapshotChain]:
        for chain in self._older():
            absent = chain.absent(self._directory, self._lost)
            errors += absent
            if not absent:
                yield chain

    def _restore_saved_copy(self, working: Path, errors: list[CorruptFileError]) -> Restored:
        """The copy as it was before the batch that failed. Raises where that has not the state."""
        kept = saved_copy(working)
        state = proven_state(kept)
        missing = None if state is None else missing_changelogs(self._wanted, state)
        if missing is not None and not is_private(working):
            remove(working)
            duplicate(kept, working)
            found = self._proven(working, missing)
            if found is not None:
                instead = "the proven copy from before a batch that failed is used"
                return replace(found, damages=_damages(errors, instead), alone=True)
        first = errors[0]
        others = {str(each.data["path"]) for each in errors} - {str(first.data["path"])}
        more = f"; also damaged: {', '.join(sorted(others))}" if others else ""
        raise first.but(found=f"{first.found}{more}", next_action=_REPAIR) from first


def _damages(errors: Iterable[CorruptFileError], instead: str) -> tuple[Damage, ...]:
    found = {str(error.data["path"]): Damage.of(error, instead) for error in errors}
    return tuple(found.values())


def _require_equal(
    database: Database, chain: SnapshotChain, wanted: PartitionState, directory: Path
) -> None:
    """Raise `CorruptFileError` unless what a chain has made is what ``wanted`` says of itself."""
    if wanted.contents is not None:
        different = differences(contents_in(database), wanted.contents)
        if different:
            raise other_contents(different, directory)
    counts = {
        name: count(database.column(name)) if name in database.families else 0
        for name, noted in wanted.entries.items()
        if noted is not None
    }
    expected = {name: noted for name, noted in wanted.entries.items() if noted is not None}
    if (chain.state, counts) == (wanted.state, expected):
        return
    raise CorruptFileError(
        "SM-EMBEDDED-031",
        f"the {chain.kind} in {directory} does not make the state that the manifest says",
        expected=f"state {wanted.state}, records by family: {expected}",
        found=f"state {chain.state}, records by family: {counts}",
        next_action=RESTORE_COPY,
        path=str(directory),
    )


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


def missing_changelogs(wanted: PartitionState, state: str) -> tuple[ChangelogReference, ...] | None:
    """The changelogs a copy in ``state`` lacks; None when it is not on the way at all."""
    for chain in chains_of(wanted):
        start = chain.snapshot.state if chain.snapshot else EMPTY_STATE
        on_the_way = [start, *(each.state for each in chain.changelogs)]
        if state in on_the_way:
            return chain.changelogs[on_the_way.index(state) :]
    return None


def _rebuilt(chain: SnapshotChain, directory: Path, working: Path) -> Database:
    remove(working)
    snapshot = chain.snapshot
    if snapshot is not None:
        try:
            restore_snapshot(snapshot.file, directory, directory / "files", working)
        except BaseException:
            remove(working)
            raise
    database = Database(working)
    if snapshot is not None:
        require_state(database, snapshot, directory)
        with _closed_on_failure(database):
            _require_contents(database, snapshot, directory)
    return _replayed(database, chain.changelogs, directory)


def require_state(database: Database, snapshot: SnapshotReference, directory: Path) -> None:
    """Raise `CorruptFileError` unless the restored snapshot says that it holds its state."""
    with translated(database.path):
        found = database.column(META).get(STATE)
    if found == snapshot.state.encode():
        return
    database.close()
    path = snapshot.file.within(directory)
    raise CorruptFileError(
        "SM-EMBEDDED-031",
        f"{path} holds another state than the manifest says",
        expected=snapshot.state,
        found=(found or b"none").decode(errors="replace"),
        next_action=RESTORE_COPY,
        path=str(path),
    )


def _require_contents(database: Database, snapshot: SnapshotReference, directory: Path) -> None:
    """Raise `CorruptFileError` unless a snapshot that nobody has read back holds its contents."""
    if snapshot.records is not None or snapshot.contents is None:
        return
    different = differences(contents_in(database), snapshot.contents)
    if different:
        raise other_contents(different, snapshot.file.within(directory))


def other_contents(different: dict[str, Pair], path: Path) -> CorruptFileError:
    """The error of files that are what was written, and hold other records than they should."""
    return CorruptFileError(
        "SM-EMBEDDED-031",
        f"{path} does not hold the records that the manifest says: {', '.join(different)}",
        expected="; ".join(f"{name}: {pair[1]}" for name, pair in different.items()),
        found="; ".join(f"{name}: {pair[0]}" for name, pair in different.items()),
        next_action=RESTORE_COPY,
        path=str(path),
        families=list(different),
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
