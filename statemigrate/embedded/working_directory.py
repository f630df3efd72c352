"""The directory of disposable working copies on this machine."""

from __future__ import annotations

import os
import shutil
import stat
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
        found = parent.lstat()
    if parent.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o022:
        advice = "remove it, or set EmbeddedOptions(working_directory=...) to one that is"
        raise _not_private(parent, found, advice)
    _close_to_others(parent, found)
    return directory


def given_directory(directory: Path) -> Path:
    """A directory that the user has named, made if it is missing, closed to other users.

    One that belongs to another user, as a volume of a container does, is taken as it is. Raises
    `CheckpointError` for the user's own if everybody can write to it, or if others can read it and
    it holds other things, which closing it would take from them.
    """
    with unwritable(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    if found.st_uid == os.getuid():
        if found.st_mode & 0o002 or (found.st_mode & 0o077 and _has_other_files(directory)):
            advice = f"name one of its own, such as {directory / 'statemigrate'}, which is made"
            raise _not_private(directory, found, advice)
        _close_to_others(directory, found)
    return directory


def _close_to_others(directory: Path, found: os.stat_result) -> None:
    # State is somebody's data, also in a copy of it.
    if found.st_mode & 0o077:
        with unwritable(directory):
            directory.chmod(stat.S_IMODE(found.st_mode) & ~0o077)


def _has_other_files(directory: Path) -> bool:
    names = [path.name for path in directory.iterdir()]
    own = ("lock", "mirror")
    return not all(name in own or name.startswith(("partition-", ".")) for name in names)


def _not_private(directory: Path, found: os.stat_result, advice: str) -> CheckpointError:
    return CheckpointError(
        "SM-EMBEDDED-029",
        f"{directory} is not this user's alone",
        expected=f"a directory of user {os.getuid()} for this alone, that no one else can write to",
        found=f"owner {found.st_uid}, mode {found.st_mode & 0o777:o}",
        next_action=advice,
        path=str(directory),
    )


def remove_stale_copies(working: Path) -> None:
    """Remove what killed tasks left: copies made for one task, and half-made snapshots.

    Called by the holder of the directory's lock, before any task runs.
    """
    for pattern in ("partition-*-private-*", "partition-*-copy-*"):
        for path in working.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
