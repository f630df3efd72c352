"""What an adoption did, or would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal[
    "nothing needed",
    "would adopt",
    "adopted",
    "would relocate",
    "relocated",
    "would undo",
    "undone",
]


@dataclass(frozen=True)
class FileChange:
    """A file of the checkpoint that is changed, by its path below the checkpoint.

    ``added`` and ``removed`` are the lines at its end. ``checksum`` says what happens to its
    checksum file: ``"removed"``, ``"restored"``, or ``"none"`` where there is none.
    """

    path: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    checksum: Literal["removed", "restored", "none"]


@dataclass(frozen=True)
class Adoption:
    """What was done to a checkpoint, or would be.

    ``sources`` is the number of the query's sources without the control source, 0 where sources
    have names. ``backup`` is the directory of the originals, ``moved`` the directory that the
    removed source kept, below the checkpoint. Of a checkpoint that was moved, ``relocated`` has the
    files that named another place, which ``moved_from`` has; nothing else is changed where the
    state is one of the relocation. ``uncommitted`` says that the newest batch is not committed, so
    that applying asks for the word that the query was stopped.
    """

    checkpoint: str
    state: State
    sources: int = 0
    files: tuple[FileChange, ...] = ()
    moved: str | None = None
    backup: str | None = None
    relocated: tuple[str, ...] = ()
    moved_from: tuple[str, ...] = ()
    uncommitted: bool = False
