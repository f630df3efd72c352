"""`check`: scripts, the code they are for, and what was applied, without any state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from statemigrate.commands.applied import record_applied
from statemigrate.errors import StatemigrateError
from statemigrate.inspect.check import check as check_folder
from statemigrate.inspect.check_report import CheckReport


def check(
    *,
    code: Iterable[str] = (),
    checkpoint: str | Path | None = None,
    record: bool = False,
    made_up: bool = True,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
) -> CheckReport:
    """Check all migration scripts, and the code that needs them; report everything that is wrong.

    Each script must be complete and the scripts of a store one chain; its examples must migrate;
    no question may be open. What was applied, by ``applied.json`` and by ``checkpoint``, must be
    unchanged. ``code`` names processors and functions, ``MODULE:OBJECT``, whose schemas must be
    those of their targets: by store the revision that the code is written for, as `migrated` was
    given it, else as ``targets`` say, else the head. With ``made_up``, each script is also tried on
    values made up from its formats.

    With ``record`` what was applied to ``checkpoint`` is written to ``applied.json`` first, for
    checks without it. Neither state nor Java is needed. Raises `ScriptError` for what is not a
    folder of scripts and `CheckpointError` for what is not a checkpoint.
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
    return check_folder(
        migrations, code=code, targets=targets, checkpoint=checkpoint, made_up=made_up
    )
