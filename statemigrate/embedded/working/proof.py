"""What proves that a working copy holds one version, and nothing besides.

RocksDB's files are several moments' state after a crash: each family is flushed by itself, and the
order is nobody's promise. A copy is therefore believed only by a document beside them, which says
what the files are and what they hold. It is gone from disk before anything changes, and back only
after everything is closed.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from statemigrate.embedded.storage.durable import (
    publish_document,
    read_document,
    sha256_of,
    sync_directory,
    unwritable,
)
from statemigrate.errors import CorruptFileError

PROOF = "statemigrate-proof.json"
_DATA = re.compile(r"CURRENT|MANIFEST-\d+|\d+\.(sst|log|blob)")
_CONTENTS_COUNT = re.compile(r"CURRENT|MANIFEST-\d+")


def prove(copy: Path, state: str) -> None:
    """Say that the closed database in ``copy`` holds ``state``."""
    publish_document(copy / PROOF, {"state": state, "files": _files(copy)})


def proven_state(copy: Path) -> str | None:
    """The state that ``copy`` was proven to hold; None unless its files are still those."""
    if not (copy / PROOF).is_file():
        return None
    try:
        proof = read_document(copy / PROOF)
        state: str = proof["state"]
        return state if proof["files"] == _files(copy) else None
    except (CorruptFileError, KeyError):
        # A copy is disposable: what proves nothing is as good as nothing.
        return None


def keep(copy: Path) -> None:
    """Keep the proven files of ``copy`` beside it, proof and all, while it is worked on.

    A batch that fails leaves a copy that proves nothing. Where durable files are damaged too, what
    is kept may be the last that has the state.
    """
    drop_kept(copy)
    duplicate(copy, kept_copy(copy))


def drop_kept(copy: Path) -> None:
    """Remove what `keep` kept; what is left of it after a crash proves all of itself, or nothing.

    Nothing is synced: an old copy that comes back after a loss of power is of an old state.
    """
    kept = kept_copy(copy)
    if kept.exists():
        with unwritable(kept.parent):
            shutil.rmtree(kept)


def duplicate(copy: Path, target: Path) -> None:
    """Give the proven files of ``copy`` a second place, which proves the same.

    SST files are second names. Nothing of it is made durable: what a loss of power leaves proves
    itself, or nothing.
    """
    with unwritable(target.parent):
        target.mkdir()
        for path in copy.iterdir():
            if not _DATA.fullmatch(path.name):
                continue
            if path.suffix != ".sst" or not _linked(path, target / path.name):
                shutil.copyfile(path, target / path.name)
        shutil.copyfile(copy / PROOF, target / PROOF)


def _linked(path: Path, target: Path) -> bool:
    # Both are in a directory that is this user's alone.
    try:
        target.hardlink_to(path)
    except OSError:
        return False
    return True


def kept_copy(copy: Path) -> Path:
    """Where `keep` keeps the files of a working copy."""
    return copy.with_name(f"{copy.name}-proven")


def withdraw(copy: Path) -> None:
    """Take the proof away, so that no crash leaves it beside files that changed."""
    try:
        (copy / PROOF).unlink()
    except FileNotFoundError:
        return
    sync_directory(copy)


def remove(copy: Path) -> None:
    """Remove a working copy; killed on the way, the rest of it proves nothing."""
    if not copy.exists():
        return
    with unwritable(copy.parent):
        withdraw(copy)
        shutil.rmtree(copy)


def _files(copy: Path) -> dict[str, Any]:
    """RocksDB's data files: sizes, and hashes of those that say which files count."""
    return {
        path.name: [
            path.stat().st_size,
            sha256_of(path) if _CONTENTS_COUNT.fullmatch(path.name) else None,
        ]
        for path in sorted(copy.iterdir())
        if _DATA.fullmatch(path.name)
    }
