"""Whether places are one, or one within the other: as a file system has it, not by their names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol, runtime_checkable

from statemigrate.errors import StorageError
from statemigrate.files.descent import pointing_nowhere
from statemigrate.files.places import is_within, local_path
from statemigrate.files.protocol import Files


@runtime_checkable
class Resolving(Protocol):
    """Files whose file system says where they really are."""

    @property
    def real_location(self) -> str:
        """The place without links, mounts and ``..``."""


def check_reachable(files: Files) -> None:
    """Raise `StorageError` for a local place that a link on the way leaves without a place."""
    path = local_path(files.location)
    for each in () if path is None else (*reversed(path.parents), path):
        if each.is_symlink() and not each.exists():
            raise pointing_nowhere(each)


def is_same(first: Files, second: Files) -> bool:
    """Whether both are one place."""
    return _is_same(_real(first), _real(second))


def is_below(inner: Files, outer: Files) -> bool:
    """Whether a place is within another one, which it is not itself."""
    inside, outside = _real(inner), _real(outer)
    path, root = local_path(inside), local_path(outside)
    if path is None or root is None:
        return is_within(inside, outside) and inside != outside
    return any(_is_same(str(each), str(root)) for each in path.parents)


def _is_same(first: str, second: str) -> bool:
    if first == second:
        return True
    paths = local_path(first), local_path(second)
    if None in paths:
        return False
    try:
        # A directory may be mounted twice, and names may differ in their case alone.
        return os.path.samestat(*(each.stat() for each in paths if each is not None))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _real(files: Files) -> str:
    place = files.real_location if isinstance(files, Resolving) else files.location
    path = local_path(place)
    return place.rstrip("/") if path is None else str(_resolved(path))


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise StorageError(
            "SM-STORAGE-014",
            f"cannot follow the links to {path}",
            expected="links that lead to a directory",
            found=str(error),
            next_action="name the directory itself",
            path=str(path),
        ) from error
