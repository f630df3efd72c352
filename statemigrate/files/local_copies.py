"""Many files copied from one directory on a disk to another, and made durable together.

A disk that is asked after each file and each name waits for itself again and again: here contents
are written and made durable side by side, then all are named, and each folder once at the end.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from statemigrate.files.at_once import done_at_once
from statemigrate.files.confined import ConfinedPath
from statemigrate.files.local import LocalFiles, reading, writing

_BLOCK = 1 << 20


def copy_local(source: LocalFiles, target: LocalFiles, names: Mapping[str, str]) -> Iterator[str]:
    """Copy each file of ``source`` to the name that ``names`` has for it, over any there.

    Each name is given when its content is written; all are durable and have their names at the
    end. Raises `FileNotFoundError` for a file that is gone, and `StorageError`.
    """
    pairs = {
        name: (ConfinedPath(source.root) / name, ConfinedPath(target.root) / new)
        for name, new in names.items()
    }
    with _unfinished([new for _, new in pairs.values()]) as beside:
        tasks = {name: partial(_copy, old, beside[new]) for name, (old, new) in pairs.items()}
        yield from done_at_once(tasks)
        _name(beside)


@contextmanager
def _unfinished(targets: list[ConfinedPath]) -> Iterator[dict[ConfinedPath, ConfinedPath]]:
    """New names beside targets, which nothing has after the block; Spark passes over them."""
    beside = {each: each.with_name(f".{each.name}.{uuid.uuid4().hex}.tmp") for each in targets}
    for folder in {each.parent for each in targets}:
        with writing(folder):
            folder.mkdir()
    try:
        yield beside
    finally:
        for target, each in beside.items():
            with writing(target):
                each.unlink(missing_ok=True)


def _copy(old: ConfinedPath, new: ConfinedPath) -> None:
    with reading(old):
        content = old.open()
    with content, writing(new), new.open("xb") as file:
        shutil.copyfileobj(content, file, _BLOCK)
        file.flush()
        # Several at a time are one wait.
        os.fsync(file.fileno())


def _name(beside: Mapping[ConfinedPath, ConfinedPath]) -> None:
    for target, each in beside.items():
        with writing(target):
            each.rename_to(target, durably=False)
    for target in {each.parent: each for each in beside}.values():
        with writing(target):
            target.sync_parent()
