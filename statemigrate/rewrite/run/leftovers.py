"""What ended attempts have left beside what they made: harmless, and removed all the same.

A task that is tried again makes tables of its own under new names, and a process that ends leaves
the file that it was writing under a name that nobody reads.
"""

from __future__ import annotations

import io
from collections.abc import Iterable

from statemigrate.checkpoint.stores.rocksdb_files import read_snapshot
from statemigrate.files import Entry, Files, local_path

_TABLES = "/SSTs/"


def remove_leftovers(files: Files) -> None:
    """Remove files that nothing refers to from a new checkpoint, before it is one.

    There are none on file systems that only the driver reaches: what it is handed is of one
    attempt, and nothing has another name there while it is written. Raises `CorruptFileError` for
    a snapshot that cannot be read.
    """
    if local_path(files.location) is None:
        return
    found = files.list(recursive=True)
    unfinished = [each.name for each in found if _is_unfinished(each.base_name)]
    tables = [each.name for each in found if _TABLES in each.name]
    used = _used(files, found) if tables else set()
    files.delete([*unfinished, *(name for name in tables if name not in used)])


def _is_unfinished(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")


def _used(files: Files, found: Iterable[Entry]) -> set[str]:
    """The tables that snapshots refer to."""
    used = set()
    for each in found:
        if each.name.startswith("state/") and each.name.endswith(".zip"):
            snapshot = read_snapshot(io.BytesIO(files.get(each.name)), each.name)
            folder = each.name.rpartition("/")[0]
            used |= {f"{folder}/{shared.name}" for shared in snapshot.shared}
    return used
