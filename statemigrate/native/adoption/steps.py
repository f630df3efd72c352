"""Carries out a plan, step by step."""

from __future__ import annotations

from collections.abc import Iterator

from statemigrate.files import Files
from statemigrate.native.adoption.plan import Change, Plan


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
        yield from _moving(plan.log.files, plan.moved, backup.free_place(backup.record.sources))
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


def _changing(files: Files, change: Change) -> Iterator[str]:
    # First of all, because a file without a checksum is read and one with a wrong one is not.
    files.delete([change.file.checksum_file])
    yield f"removed {change.file.checksum_file}"
    files.replace(change.file.name, change.after)
    yield f"replaced {change.file.name}"
    if change.checksum is not None:
        files.replace(change.file.checksum_file, change.checksum)
        yield f"restored {change.file.checksum_file}"
