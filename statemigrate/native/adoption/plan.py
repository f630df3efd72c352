"""What has to change in a checkpoint, from what is found in it now."""

from __future__ import annotations

from dataclasses import dataclass

from statemigrate.checkpoint.offsets import NO_OFFSET
from statemigrate.files import ConfinedPath
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

    def described(self) -> FileChange:
        """The change as its user sees it."""
        before, after = len(self.file.data), len(self.after)
        more = after > before
        has_checksum = self.file.checksum_file.exists()
        return FileChange(
            "/".join(self.file.path.parts),
            added=(NO_OFFSET,) if more else (),
            removed=() if more else self.file.offsets[-1:],
            checksum="restored" if self.checksum else "removed" if has_checksum else "none",
        )


@dataclass(frozen=True)
class Plan:
    """What is to be done to a checkpoint."""

    log: OffsetLog
    backup: Backup
    changes: tuple[Change, ...]
    moved: ConfinedPath | None = None
    relocation: Relocation | None = None

    def described(self, state: State) -> Adoption:
        """The plan as its user sees it."""
        root = self.log.checkpoint
        return Adoption(
            str(root),
            state,
            self.backup.record.sources,
            tuple(change.described() for change in self.changes),
            None if self.moved is None else "/".join(self.moved.parts),
            str(self.backup.directory),
            () if self.relocation is None else self.relocation.paths,
            () if self.relocation is None else self.relocation.roots,
        )


def plan_adoption(log: OffsetLog) -> Plan:
    """What is left to do until the log has room for the control source, in its present place."""
    check_path(log)
    check_state(log)
    files = log.read_on_restart()
    backup = last_backup(log.checkpoint)
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
        begun = new_backup(log.checkpoint, sources, open_)
    changes = tuple(Change(file, file.with_one_more()) for file in open_)
    return Plan(log, begun, changes, relocation=plan_relocation(log.checkpoint))


def plan_undoing(log: OffsetLog) -> Plan:
    """What is left to do until the log has no room for the control source."""
    files = log.read_on_restart()
    backup = last_backup(log.checkpoint)
    if backup is None or (
        backup.record.progress == "undone" and not _is_half_undone(backup, files)
    ):
        raise not_adopted(log, backup)
    sources = backup.record.sources
    check_lines(log, files, sources, spare=True)
    longer = (file for file in files if len(file.offsets) > sources)
    directory = log.source_directory(sources)
    moved = directory if directory.exists() else None
    return Plan(log, backup, tuple(_shortened(file, backup) for file in longer), moved)


def _is_half_undone(backup: Backup, files: tuple[OffsetFile, ...]) -> bool:
    # A query that was running after all has written the control source's line once more.
    again = any(len(file.offsets) > backup.record.sources for file in files)
    return backup.record.progress == "undoing" or (backup.record.progress == "undone" and again)


def _shortened(file: OffsetFile, backup: Backup) -> Change:
    original = backup.original(file)
    return Change(file, file.without_last()) if original is None else Change(file, *original)
