"""What was applied to a checkpoint, of either engine, as it says itself."""

from __future__ import annotations

from typing import Any

from statemigrate.embedded.storage.layout import Layout
from statemigrate.errors import CheckpointError
from statemigrate.native.seen.record import read_record
from statemigrate.native.seen.seen import directory_of
from statemigrate.pages.record import read_record as read_pages
from statemigrate.scripts.applied import Applied


def applied_by(checkpoint: str) -> Applied:
    """By store and revision, the checksum that the script had.

    Raises `CheckpointError` for what is not a checkpoint, `CorruptFileError` for a damaged one.
    """
    directory = directory_of(checkpoint)
    if directory.is_embedded:
        from statemigrate.embedded.versions.last import last_committed

        manifest = last_committed(Layout.of(checkpoint))
        return _checksums(manifest.stores if manifest else {})
    pages = read_pages(directory.files)
    record: Any = read_record(checkpoint) if pages is None else pages.stores
    if not (record or directory.has("offsets") or directory.has("commits")):
        raise CheckpointError(
            "SM-CHECKPOINT-001",
            f"{checkpoint} is not the checkpoint of a streaming query",
            expected="a directory with the folders offsets and commits",
            found="no such folders",
            next_action="name the directory that the query has as its checkpoint",
            path=checkpoint,
        )
    return _checksums(record)


def _checksums(stores: Any) -> Applied:
    return {store: dict(each.applied) for store, each in stores.items()}
