"""The directory of disposable working copies on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from statemigrate.embedded.durable import unwritable
from statemigrate.embedded.layout import Layout
from statemigrate.errors import CheckpointError


def private_directory(layout: Layout) -> Path:
    """The default directory, made for this user alone.

    Its name in the shared temporary directory can be guessed. Raises `CheckpointError` if somebody
    else made it first: they could replace the state that is worked on.
    """
    directory = layout.default_working_directory()
    parent = directory.parent
    with unwritable(parent):
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        stat = parent.lstat()
    if parent.is_symlink() or stat.st_uid != os.getuid() or stat.st_mode & 0o022:
        raise CheckpointError(
            f"{parent} is not this user's alone",
            expected=f"a directory owned by user {os.getuid()} that no one else can write to",
            found=f"owner {stat.st_uid}, mode {stat.st_mode & 0o777:o}",
            next_action="remove it, or set EngineOptions(working_directory=...)",
            path=str(parent),
        )
    return directory


def remove_leftovers(working: Path) -> None:
    """Remove what killed tasks left: copies made for one task, and half-made snapshots.

    Called by the holder of the directory's lock, before any task runs.
    """
    for pattern in ("partition-*-private-*", "partition-*-copy-*"):
        for path in working.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
