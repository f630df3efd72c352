"""Files of a checkpoint copied as they are, several at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from statemigrate.errors import CheckpointError
from statemigrate.files import Files, LocalFiles
from statemigrate.files.at_once import done_at_once
from statemigrate.files.local_copies import copy_local

_WHOLE = 16 << 20
"""Bytes of a file that are copied through memory; a larger one goes over a local file."""


def copy_files(
    source: Files,
    target: Files,
    names: Mapping[str, str],
    progress: Callable[[int, int | None], None] | None = None,
) -> int:
    """Copy each file of ``source`` to the name that ``names`` has for it; how many bytes they have.

    ``progress`` is called with the bytes that are copied and those to be copied. Raises
    `CheckpointError` for a file that is gone.
    """
    sizes = _sizes(source, names)
    total, done = sum(sizes.values()), 0
    if isinstance(source, LocalFiles) and isinstance(target, LocalFiles):
        copied = copy_local(source, target, names)
    else:
        copied = done_at_once(
            {
                name: partial(_copy, source, target, name, new, sizes[name])
                for name, new in names.items()
            }
        )
    try:
        for name in copied:
            done += sizes[name]
            if progress:
                progress(done, total)
    except FileNotFoundError as error:
        raise _gone(str(error.filename)) from error
    return total


def _copy(source: Files, target: Files, name: str, new: str, size: int) -> None:
    try:
        if size <= _WHOLE:
            target.put(new, source.get(name, most=_WHOLE))
        else:
            with tempfile.TemporaryDirectory(prefix="statemigrate-") as folder:
                source.fetch(name, Path(folder, "file"), most=size)
                target.put(new, Path(folder, "file"))
    except FileNotFoundError as error:
        raise _gone(f"{source.location}/{name}") from error


def _sizes(source: Files, names: Mapping[str, str]) -> dict[str, int]:
    folders = {name.rpartition("/")[0] for name in names}
    there = {each.name: each.size for folder in folders for each in source.list(folder)}
    for name in names:
        if name not in there:
            raise _gone(f"{source.location}/{name}")
    return {name: there[name] for name in names}


def _gone(path: str) -> CheckpointError:
    return CheckpointError(
        "SM-FORK-001",
        f"{path} is gone",
        expected="a file of a batch whose state is kept",
        found="no such file: the query runs on, and has removed what it keeps no longer",
        next_action="fork a later batch, or stop the query first; remove what was copied",
        path=path,
    )
