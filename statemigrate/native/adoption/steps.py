"""Carries out a plan, step by step."""

from __future__ import annotations

from collections.abc import Iterator

from statemigrate.native.adoption.backup import write_file
from statemigrate.native.adoption.plan import Change, Plan


def adopting(plan: Plan) -> Iterator[str]:
    """Adopt step by step; between any two, a crash leaves what the next run can finish."""
    if plan.relocation is not None:
        yield from plan.relocation.steps()
    backup = plan.backup
    if not (backup.directory / "record.json").exists():
        yield from backup.save(change.file for change in plan.changes)
        backup.write("adopting")
        yield f"wrote the record of {backup.directory}"
    for change in plan.changes:
        yield from _changing(change)
    backup.write("adopted")
    yield f"finished the record of {backup.directory}"


def undoing(plan: Plan) -> Iterator[str]:
    """Undo step by step; between any two, a crash leaves what the next run can finish."""
    backup = plan.backup.write("undoing")
    yield f"wrote the record of {backup.directory}"
    yield from backup.save((change.file for change in plan.changes), "undone")
    for change in plan.changes:
        yield from _changing(change)
    if plan.moved is not None:
        place = backup.free_place(plan.backup.record.sources)
        place.parent.mkdir()
        plan.moved.rename_to(place)
        yield f"moved {plan.moved} to {place}"
    backup.write("undone")
    yield f"finished the record of {backup.directory}"


def _changing(change: Change) -> Iterator[str]:
    # First of all, because a file without a checksum is read and one with a wrong one is not.
    change.file.checksum_file.unlink(missing_ok=True)
    yield f"removed {change.file.checksum_file}"
    write_file(change.file.path, change.after)
    yield f"replaced {change.file.path}"
    if change.checksum is not None:
        write_file(change.file.checksum_file, change.checksum)
        yield f"restored {change.file.checksum_file}"
