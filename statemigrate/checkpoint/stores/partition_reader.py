"""Opening the files of one partition of a store: changelogs, and what a snapshot says of itself."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from statemigrate.checkpoint.logs import codec_of
from statemigrate.checkpoint.rows import RowLayout
from statemigrate.checkpoint.stores.changelog import ChangelogRecords, read_changelog
from statemigrate.checkpoint.stores.files import Snapshot, StoreVersion, read_snapshot
from statemigrate.checkpoint.stores.integrity import verified
from statemigrate.files import Files


def read_changelogs(
    files: Files, names: Sequence[str], conf: Mapping[str, str]
) -> Iterator[ChangelogRecords]:
    """What some changelogs have, in their order, deleted keys without checksums.

    ``conf`` are the settings that are pinned to the query. Raises `CorruptFileError` for a damaged
    file, also where a row has another checksum.
    """
    layout = RowLayout.of(conf, rocksdb=True)
    with _scratch() as folder:
        for name in names:
            with _fetched(files, name, folder) as source:
                path = f"{files.location}/{name}"
                found = read_changelog(source, codec_of(conf), path).changes
                yield from without_checksums(found, layout, path)


def without_checksums(
    changes: Iterator[ChangelogRecords], layout: RowLayout, path: str
) -> Iterator[ChangelogRecords]:
    """The ``changes`` of the file ``path``, as `verified` gives them where they have checksums."""
    return verified(changes, layout, path) if layout.checksums else changes


def snapshot_of(files: Files, version: StoreVersion) -> Snapshot | None:
    """What the snapshot of a version says of itself; None where it has none."""
    if version.snapshot is None:
        return None
    with opened(files, version.snapshot) as source:
        return read_snapshot(source, f"{files.location}/{version.snapshot}")


@contextmanager
def opened(files: Files, name: str) -> Iterator[BinaryIO]:
    """A file below the checkpoint, from a local copy. Raises `FileNotFoundError`."""
    with _scratch() as folder, _fetched(files, name, folder) as source:
        yield source


def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="statemigrate-")


@contextmanager
def _fetched(files: Files, name: str, folder: str) -> Iterator[BinaryIO]:
    """A file below the checkpoint, from a copy in ``folder`` that is removed at the end."""
    found = files.find(name)
    if found is None:
        raise FileNotFoundError(f"{files.location}/{name}")
    target = Path(folder, "file")
    files.fetch(name, target, most=found.size, shared=True)
    try:
        with target.open("rb") as source:
            yield source
    finally:
        target.unlink()
