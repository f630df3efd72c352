"""What was applied to a checkpoint, of either engine, as it says itself."""

from __future__ import annotations

from typing import Any

from statemigrate.embedded.storage.layout import Layout
from statemigrate.errors import CheckpointError
from statemigrate.native.seen.record import read_record
from statemigrate.native.seen.seen import directory_of
from statemigrate.pages.record import records
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
    # Those of its pages' operators and of others; of one store name several may tell.
    found: dict[str, dict[str, str]] = {}
    for stores in (read_record(checkpoint), *(p.stores for p in records(directory.files).values())):
        for store, applied in _checksums(stores).items():
            found[store] = {**found.get(store, {}), **applied}
    if not (found or directory.has("offsets") or directory.has("commits")):
        raise CheckpointError(
            "SM-CHECKPOINT-001",
            f"{checkpoint} is not the checkpoint of a streaming query",
            expected="a directory with the folders offsets and commits",
            found="no such folders",
            next_action="name the directory that the query has as its checkpoint",
            path=checkpoint,
        )
    return found


def _checksums(stores: Any) -> Applied:
    return {store: dict(each.applied) for store, each in stores.items()}
