"""`adopt` on Spark's own state: the plan, its steps and the outcome.

What has to change in a checkpoint, from what is found in it now.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from statemigrate.checkpoint.logs import NO_OFFSET, reads_twice
from statemigrate.errors import CheckpointInUseError, StorageError
from statemigrate.files import Files, PathOrFiles
from statemigrate.native.adoption_checks import (
    Count,
    NewerValues,
    already_adopted,
    check_control_source,
    check_lines,
    check_older_code,
    check_path,
    check_sources,
    check_state,
    counting,
    half_undone,
    has_named_sources,
    has_room,
    native_log,
    newer_values,
    not_adopted,
    record_oldest,
)
from statemigrate.native.adoption_files import (
    KEPT,
    Backup,
    OffsetFile,
    OffsetLog,
    Relocation,
    last_backup,
    new_backup,
    plan_relocation,
)
from statemigrate.native.chunks import ChunkFiles

# What an adoption did, or would do.


State = Literal[
    "nothing needed",
    "would prepare",
    "prepared",
    "would relocate",
    "relocated",
    "would undo",
    "undone",
]


@dataclass(frozen=True)
class FileChange:
    """A file of the checkpoint that is changed, by its path below the checkpoint.

    ``added`` and ``removed`` are the lines at its end. ``checksum`` says what happens to its
    checksum file: ``"removed"``, ``"restored"``, or ``"none"`` where there is none.
    """

    path: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    checksum: Literal["removed", "restored", "none"]


@dataclass(frozen=True)
class Preparation:
    """The changes of an adoption, made or planned.

    ``sources`` is the number of the query's sources without the backfill source, 0 if sources have
    names. ``backup`` is the directory of the originals, ``moved`` the directory in which the
    removed source is kept, below the checkpoint. For a checkpoint that was moved, ``relocated`` has
    the files with other paths, and ``moved_from`` these paths; with the state of a relocation,
    nothing else changes. ``uncommitted`` means that the newest batch is not committed, so that
    applying needs the confirmation that the query is stopped.
    """

    checkpoint: str
    state: State
    sources: int = 0
    files: tuple[FileChange, ...] = ()
    moved: str | None = None
    backup: str | None = None
    relocated: tuple[str, ...] = ()
    moved_from: tuple[str, ...] = ()
    uncommitted: bool = False


@dataclass(frozen=True)
class AdoptedFile:
    """A file, what it becomes, and its checksum file's content from then on."""

    file: OffsetFile
    after: bytes
    checksum: bytes | None = None
    had_checksum: bool = False

    def described(self) -> FileChange:
        """The change as its user sees it."""
        before, after = len(self.file.data), len(self.after)
        more = after > before
        return FileChange(
            self.file.name,
            added=(NO_OFFSET,) if more else (),
            removed=() if more else self.file.offsets[-1:],
            checksum="restored" if self.checksum else "removed" if self.had_checksum else "none",
        )


@dataclass(frozen=True)
class Plan:
    """What is to be done to a checkpoint."""

    log: OffsetLog
    backup: Backup
    changes: tuple[AdoptedFile, ...]
    moved: str | None = None
    relocation: Relocation | None = None

    def described(self, state: State) -> Preparation:
        """The plan as its user sees it."""
        return Preparation(
            self.log.checkpoint,
            state,
            self.backup.record.sources,
            tuple(change.described() for change in self.changes),
            self.moved,
            self.backup.location,
            () if self.relocation is None else self.relocation.paths,
            () if self.relocation is None else self.relocation.roots,
        )


def plan_adoption(log: OffsetLog) -> Plan:
    """What is left to do until the log has room for the backfill source, in its present place."""
    check_path(log)
    check_state(log)
    files = log.read_on_restart()
    backup = last_backup(log.files)
    if backup is not None and _is_half_undone(backup, files):
        raise half_undone(log, backup)
    begun = None if backup is None or backup.record.progress == "undone" else backup
    sources = len(files[-1].offsets) if begun is None else begun.record.sources
    open_ = tuple(file for file in files if len(file.offsets) == sources)
    check_lines(log, files, sources, spare=begun is not None)
    if not open_ and begun is not None and begun.record.progress == "adopted":
        raise already_adopted(log, begun)
    if open_:
        check_control_source(log, begun)
        check_sources(log, sources)
    if begun is None or not begun.covers(open_):
        begun = new_backup(log.files, sources, open_)
    changes = tuple(_lengthened(file, log) for file in open_)
    return Plan(log, begun, changes, relocation=plan_relocation(log.files))


def plan_undoing(log: OffsetLog) -> Plan:
    """What is left to do until the log has no room for the backfill source."""
    files = log.read_on_restart()
    backup = last_backup(log.files)
    if backup is None or (
        backup.record.progress == "undone" and not _is_half_undone(backup, files)
    ):
        raise not_adopted(log, backup)
    sources = backup.record.sources
    check_lines(log, files, sources, spare=True)
    longer = (file for file in files if len(file.offsets) > sources)
    directory = _control_directory(log, sources)
    moved = directory if log.files.find(directory) is not None else None
    return Plan(log, backup, tuple(_shortened(file, backup, log) for file in longer), moved)


def _control_directory(log: OffsetLog, sources: int) -> str:
    """What the backfill source keeps; where a stream is read in several places it counts fewer."""
    chunks = ChunkFiles(log.files)
    newest = chunks.offsets()
    if newest is None or not reads_twice(log.files, newest):
        return log.source_directory(sources)
    used = reversed(log.used_sources())
    taken = (each for each in used if chunks.is_taken_by(str(each), newest))
    return log.source_directory(next(taken, sources))


def _is_half_undone(backup: Backup, files: tuple[OffsetFile, ...]) -> bool:
    # A query that was running after all has written the backfill source's line once more.
    again = any(len(file.offsets) > backup.record.sources for file in files)
    return backup.record.progress == "undoing" or (backup.record.progress == "undone" and again)


def _lengthened(file: OffsetFile, log: OffsetLog) -> AdoptedFile:
    return AdoptedFile(file, file.with_one_more(), had_checksum=_has_checksum(file, log))


def _shortened(file: OffsetFile, backup: Backup, log: OffsetLog) -> AdoptedFile:
    data, checksum = backup.original(file) or (file.without_last(), None)
    return AdoptedFile(file, data, checksum, _has_checksum(file, log))


def _has_checksum(file: OffsetFile, log: OffsetLog) -> bool:
    return log.files.find(file.checksum_file) is not None


# Carries out a plan, step by step.


def adopting(plan: Plan) -> Iterator[str]:
    """Adopt step by step; between any two, a crash leaves what the next run can finish."""
    if plan.relocation is not None:
        yield from plan.relocation.steps()
    backup = plan.backup
    if not backup.is_begun:
        yield from backup.save(change.file for change in plan.changes)
        backup.write("adopting")
        yield f"wrote the record of {backup.directory}"
    for change in plan.changes:
        yield from _changing(plan.log.files, change)
    backup.write("adopted")
    yield f"finished the record of {backup.directory}"


def undoing(plan: Plan) -> Iterator[str]:
    """Undo step by step; between any two, a crash leaves what the next run can finish."""
    backup = plan.backup.write("undoing")
    yield f"wrote the record of {backup.directory}"
    yield from backup.save((change.file for change in plan.changes), "undone")
    for change in plan.changes:
        yield from _changing(plan.log.files, change)
    if plan.moved is not None:
        yield from _moving(plan.log.files, plan.moved, backup.free_path(backup.record.sources))
    backup.write("undone")
    yield f"finished the record of {backup.directory}"


def _moving(files: Files, folder: str, place: str) -> Iterator[str]:
    """Copy a folder, and remove it once the copy is whole; Spark reads it no more by now."""
    for each in files.list(folder, recursive=True):
        copy = f"{place}{each.name.removeprefix(folder)}"
        files.replace(copy, files.get(each.name), like=each.name)
    yield f"copied {folder} to {place}"
    files.delete_folder(folder)
    yield f"removed {folder}"


def _changing(files: Files, change: AdoptedFile) -> Iterator[str]:
    # First of all, because a file without a checksum is read and one with a wrong one is not.
    files.delete([change.file.checksum_file])
    yield f"removed {change.file.checksum_file}"
    files.replace(change.file.name, change.after)
    yield f"replaced {change.file.name}"
    if change.checksum is not None:
        files.replace(change.file.checksum_file, change.checksum)
        yield f"restored {change.file.checksum_file}"


# Signs that a query is running on a checkpoint.
#
# Spark keeps no lock there. What can be seen is that files come and go, and that the newest batch
# was not committed; a query that waits for input looks like one that was stopped.


WATCHED = 5.0
"""Seconds for which a checkpoint is watched, by default."""

_STOP = "stop the query, and wait until its process has ended; then run the command again"


def require_stopped(log: OffsetLog, *, confirmed: bool, watched: float) -> None:
    """Raise `CheckpointInUseError` if the query runs, or may be running and nobody denies it.

    ``confirmed`` is the caller's word that it was stopped, asked for where the newest batch was not
    committed: it was killed, or is being processed now. ``watched`` is in seconds.
    """
    if log.last_commit != log.last_batch and not confirmed:
        raise CheckpointInUseError(
            "SM-ADOPT-001",
            f"batch {log.last_batch} in {log.checkpoint} was not committed",
            expected="a query that was stopped",
            found="a batch that is being processed now, or that was killed",
            next_action=f"{_STOP}, with --stopped (stopped=True)",
            path=log.checkpoint,
        )
    before = _present(log.files)
    time.sleep(watched)
    after = _present(log.files)
    folders = {name.rpartition("/")[0] for name, _ in before ^ after}
    changed = [f"{log.checkpoint}/{folder}" for folder in folders]
    if folders:
        raise CheckpointInUseError(
            "SM-ADOPT-002",
            f"a query is running on {log.checkpoint}",
            expected=f"no change within {watched:g} seconds",
            found=f"changes in {', '.join(sorted(set(changed))[:3])}",
            next_action=_STOP,
            path=log.checkpoint,
        )


def _present(files: Files) -> set[tuple[str, str]]:
    return {(each.name, each.tag) for each in files.list(recursive=True)}


# Adopting a query, and undoing it.


def adopt(
    checkpoint: PathOrFiles, *, apply: bool = False, stopped: bool = False, wait: float = WATCHED
) -> Preparation:
    """Make room for the backfill source behind the sources of a query that was stopped.

    A checkpoint that was moved or copied here is made to name its own files, which Spark needs to
    start it; where it has room for the backfill source already, that is all.

    Without ``apply`` nothing is changed. ``stopped`` confirms that a query whose newest batch was
    not committed is not running; ``wait`` is how many seconds the checkpoint is watched for changes
    first. A run that was interrupted is finished by the next one.

    Raises `CheckpointInUseError` if the query is or may be running, and `CheckpointError` where
    there is nothing to adopt, or what is found is not understood; then nothing was changed.
    """
    log = native_log(checkpoint)
    relocation = plan_relocation(log.files)
    if relocation.files and has_room(log):
        return _relocate(log, relocation, apply=apply, stopped=stopped, wait=wait)
    if has_named_sources(log):
        return Preparation(log.checkpoint, "nothing needed")
    plan = plan_adoption(log)
    if not apply:
        return replace(plan.described("would prepare"), uncommitted=_is_uncommitted(log))
    require_stopped(log, confirmed=stopped, watched=wait)
    # Read again: the query may have gone on before it was seen to stand still.
    plan = plan_adoption(native_log(checkpoint))
    done = plan.described("prepared")
    with _interrupted(log):
        for _ in adopting(plan):
            pass
    return done


def undo_adoption(
    checkpoint: PathOrFiles,
    *,
    apply: bool = False,
    stopped: bool = False,
    wait: float = WATCHED,
    declared: Collection[str] = (),
    count: Count | None = None,
) -> Preparation:
    """Take the backfill source out again, whether or not it has run since.

    The way to code without it is open then, and such code mostly declares the oldest family of
    each store alone: Spark would forget every other one. So all are read, also without ``apply``,
    and none may have a value but those that are ``declared`` by the code that starts next. They are
    read with ``count``, of the last committed batch; unless given, with the active session.

    Files that no batch has followed become what they were. The directory of the removed source goes
    to the backup, so that a later adoption starts afresh. Other arguments and errors as of `adopt`.
    """
    log = native_log(checkpoint)
    guard = partial(_guarded, declared, count or counting(log.checkpoint))
    if has_named_sources(log):
        found = guard(log)
        if apply:
            require_stopped(log, confirmed=stopped, watched=wait)
            _record(log, guard(log, found), declared)
        return Preparation(log.checkpoint, "nothing needed")
    plan, found = plan_undoing(log), guard(log)
    if not apply:
        return replace(plan.described("would undo"), uncommitted=_is_uncommitted(log))
    require_stopped(log, confirmed=stopped, watched=wait)
    # Read again: the query may have gone on before it was seen to stand still.
    log = native_log(checkpoint)
    plan, found = plan_undoing(log), guard(log, found)
    done = plan.described("undone")
    with _interrupted(log):
        _record(log, found, declared)
        for _ in undoing(plan):
            pass
    return done


def _guarded(
    declared: Collection[str], count: Count, log: OffsetLog, before: NewerValues | None = None
) -> NewerValues:
    """What was read; once for a batch. Raises `CheckpointError` where code would forget values."""
    if before is not None and before.batch == log.last_commit:
        return before
    found = newer_values(log, count)
    check_older_code(log, found, declared)
    return found


def _record(log: OffsetLog, found: NewerValues, declared: Collection[str]) -> None:
    if not declared:
        record_oldest(log, found)


def _relocate(
    log: OffsetLog, relocation: Relocation, *, apply: bool, stopped: bool, wait: float
) -> Preparation:
    described = partial(
        Preparation,
        log.checkpoint,
        backup=f"{log.checkpoint}/{KEPT}",
        relocated=relocation.paths,
        moved_from=relocation.roots,
    )
    if not apply:
        return described("would relocate", uncommitted=_is_uncommitted(log))
    require_stopped(log, confirmed=stopped, watched=wait)
    with _interrupted(log):
        for _ in plan_relocation(log.files).steps():
            pass
    return described("relocated")


def _is_uncommitted(log: OffsetLog) -> bool:
    return log.last_commit != log.last_batch


@contextmanager
def _interrupted(log: OffsetLog) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise StorageError(
            "SM-ADOPT-003",
            f"cannot change {log.checkpoint}: {error.summary}",
            expected=error.expected,
            found=error.found,
            next_action="correct that, then run the same command again: it finishes what it began",
            path=log.checkpoint,
        ) from error
