"""What has to change in a checkpoint, from what is found in it now."""

from __future__ import annotations

from dataclasses import dataclass

from statemigrate.checkpoint.logs.offsets import NO_OFFSET
from statemigrate.native.adoption.backup import Backup, last_backup, new_backup
from statemigrate.native.adoption.offsets import OffsetFile, OffsetLog
from statemigrate.native.adoption.outcome import Adoption, FileChange, State
from statemigrate.native.adoption.refusals import (
    already_adopted,
    check_control_source,
    check_lines,
    check_path,
    check_sources,
    check_state,
    half_undone,
    not_adopted,
)
from statemigrate.native.adoption.relocation import Relocation, plan_relocation


@dataclass(frozen=True)
class Change:
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
    changes: tuple[Change, ...]
    moved: str | None = None
    relocation: Relocation | None = None

    def described(self, state: State) -> Adoption:
        """The plan as its user sees it."""
        return Adoption(
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
    """What is left to do until the log has room for the control source, in its present place."""
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
    """What is left to do until the log has no room for the control source."""
    files = log.read_on_restart()
    backup = last_backup(log.files)
    if backup is None or (
        backup.record.progress == "undone" and not _is_half_undone(backup, files)
    ):
        raise not_adopted(log, backup)
    sources = backup.record.sources
    check_lines(log, files, sources, spare=True)
    longer = (file for file in files if len(file.offsets) > sources)
    directory = log.source_directory(sources)
    moved = directory if log.files.find(directory) is not None else None
    return Plan(log, backup, tuple(_shortened(file, backup, log) for file in longer), moved)


def _is_half_undone(backup: Backup, files: tuple[OffsetFile, ...]) -> bool:
    # A query that was running after all has written the control source's line once more.
    again = any(len(file.offsets) > backup.record.sources for file in files)
    return backup.record.progress == "undoing" or (backup.record.progress == "undone" and again)


def _lengthened(file: OffsetFile, log: OffsetLog) -> Change:
    return Change(file, file.with_one_more(), had_checksum=_has_checksum(file, log))


def _shortened(file: OffsetFile, backup: Backup, log: OffsetLog) -> Change:
    data, checksum = backup.original(file) or (file.without_last(), None)
    return Change(file, data, checksum, _has_checksum(file, log))


def _has_checksum(file: OffsetFile, log: OffsetLog) -> bool:
    return log.files.find(file.checksum_file) is not None
