"""Recording next to the scripts what was applied to a checkpoint."""

from __future__ import annotations

from pathlib import Path

from statemigrate.scripts import ScriptFolder, read_applied, write_applied
from statemigrate.state import applied_by


def record_applied(checkpoint: str | Path, *, migrations: str | Path = "migrations") -> Path:
    """Add the scripts that were applied to ``checkpoint`` to ``applied.json``, and return its path.

    If both have a revision, the checkpoint's checksum is used. Raises `CheckpointError` and
    `ScriptError`.
    """
    directory = ScriptFolder(migrations).directory
    applied = dict(read_applied(directory))
    for store, checksums in applied_by(str(checkpoint)).items():
        applied[store] = {**applied.get(store, {}), **checksums}
    return write_applied(directory, applied)
