"""`init`, `history`, `heads`, `show` and `edit`: the folder of scripts, and what is in it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from statemigrate.errors import ScriptError
from statemigrate.quoting import argument
from statemigrate.scripts import Details, Entry, ScriptFolder
from statemigrate.state import applied_by


def init(*, migrations: str | Path = "migrations") -> Path:
    """Make a folder for migration scripts, and return the folder of the scripts themselves.

    It has ``script.py.mako``, the template of new scripts, and ``versions/``. An existing folder of
    scripts stays unchanged. Raises `ScriptError` if the folder contains something else.
    """
    return ScriptFolder.create(migrations).versions


def history(
    store: str | None = None,
    *,
    migrations: str | Path = "migrations",
    checkpoint: str | Path | None = None,
) -> tuple[Entry, ...]:
    """The scripts of one store, or of every store in turn, newest first.

    The list includes broken and unfinished scripts, with their problems, and ends with scripts that
    name no store. With a ``checkpoint`` each entry shows whether the script was ``applied`` to it.
    Raises `LineageError` for a store without scripts, `ScriptError` if ``migrations`` is not a
    folder of scripts, and `CheckpointError` if ``checkpoint`` is not a checkpoint.
    """
    found = ScriptFolder(migrations).history(store)
    if checkpoint is None:
        return found
    applied = applied_by(str(checkpoint))
    return tuple(
        replace(each, applied=each.revision in applied.get(each.store or "", {})) for each in found
    )


def heads(*, migrations: str | Path = "migrations") -> tuple[Entry, ...]:
    """The newest script of every store: several if they form no chain.

    If each follows another, the result has all of them. Raises `ScriptError` like `history`.
    """
    return ScriptFolder(migrations).heads()


def show(revision: str, *, migrations: str | Path = "migrations") -> Details:
    """One script with a comparison of its formats, and its problems.

    ``revision`` is an id or the beginning of one, a store for its head, or ``STORE@`` followed by
    an id, ``head``, ``head-1``, ``base+1`` or ``-1``. Raises `LineageError` if it means no script,
    or several.
    """
    return ScriptFolder(migrations).show(revision)


EDITORS = ("editor", "nano", "vim", "vi", "emacs", "code --wait")
"""What is looked for where the environment names no editor."""


def edit(
    revision: str, *, migrations: str | Path = "migrations", editor: str | None = None
) -> Details:
    """Open a script in an editor, and return its content and problems after the editor has closed.

    ``revision`` is as in `show`. ``editor`` is a command with its arguments. The default is
    ``VISUAL``, else ``EDITOR``, else the first common editor that is installed. Raises
    `ScriptError` if there is no editor, if it cannot run or ends with an error, and the errors of
    `show`.
    """
    path = show(revision, migrations=migrations).path
    command = editor or os.environ.get("VISUAL") or os.environ.get("EDITOR") or _installed()
    again = (
        f"`EDITOR=nano statemigrate new --edit {argument(revision)}`, with the editor that you have"
    )
    if command is None:
        raise ScriptError(
            "SM-SCRIPT-002",
            "There is no editor to open the script with.",
            expected="an editor in VISUAL or EDITOR, or one of "
            f"{', '.join(each.split()[0] for each in EDITORS)}",
            found="none of them",
            next_action=f"change {argument(path)} with any program, then `statemigrate history "
            "--show "
            f"{argument(revision)}`; or {again}",
            path=path,
        )
    try:
        subprocess.run([*shlex.split(command), path], check=True)  # noqa: S603 - the user's own
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise ScriptError(
            "SM-SCRIPT-003",
            f"{path} could not be edited.",
            expected="an editor that opens it and ends well",
            found=f"{command}: {_ended(error)}",
            next_action=f"{again}; or change the file with any program, then `statemigrate "
            "history --show "
            f"{argument(revision)}`",
            path=path,
        ) from error
    return show(revision, migrations=migrations)


def _installed() -> str | None:
    return next((each for each in EDITORS if shutil.which(each.split()[0])), None)


def _ended(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"it ended with exit code {error.returncode}"
    if isinstance(error, FileNotFoundError):
        return "no such program"
    return str(error)
