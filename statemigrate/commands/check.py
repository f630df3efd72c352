"""`check`: scripts, the code they are for, and what was applied, without any state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from statemigrate.commands.applied import record_applied
from statemigrate.errors import StatemigrateError
from statemigrate.inspect import CheckReport
from statemigrate.inspect import check as check_folder
from statemigrate.scripts import ScriptFolder
from statemigrate.scripts import write_heads as record_heads


def check(
    *,
    code: Iterable[str] = (),
    checkpoint: str | Path | None = None,
    record: bool = False,
    write_heads: bool = False,
    made_up: bool = True,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
) -> CheckReport:
    """Check all migration scripts, and the code that needs them, and report every problem.

    Each script must be complete and the scripts of a store must form one chain. Its examples must
    migrate, and no question may be open. Applied scripts, as in ``applied.json`` and in
    ``checkpoint``, must be unchanged. ``code`` names processors and functions, ``MODULE:OBJECT``,
    whose schemas must be those of their targets. The target of a store is the one passed to
    `migrated`, else the one in ``targets``, else the head. With ``made_up``, each script is also
    tried on values made up from its formats.

    With ``record`` this first writes the scripts that were applied to ``checkpoint`` to
    ``applied.json``, for checks without the checkpoint. With ``write_heads`` it first writes
    ``heads.txt``, which has the newest script of each store. It needs neither state nor Java.

    Raises `ScriptError` if ``migrations`` is not a folder of scripts and `CheckpointError` if
    ``checkpoint`` is not a checkpoint.
    """
    if record:
        if checkpoint is None:
            raise StatemigrateError(
                "SM-CLI-001",
                "what was applied is to be recorded, and no checkpoint is named",
                expected="the checkpoint of a query",
                found="none",
                next_action="name it, or leave record out",
            )
        record_applied(checkpoint, migrations=migrations)
    if write_heads:
        folder = ScriptFolder(migrations)
        record_heads(folder.directory, folder.survey())
    return check_folder(
        migrations, code=code, targets=targets, checkpoint=checkpoint, made_up=made_up
    )
