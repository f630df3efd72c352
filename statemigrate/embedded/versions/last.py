"""Which version of a checkpoint is the last committed one."""

from __future__ import annotations

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.checkpoint.logs.offsets import batches_in
from statemigrate.embedded.storage.layout import Layout
from statemigrate.embedded.versions.continuation import require_versions
from statemigrate.embedded.versions.manifest import Manifest
from statemigrate.embedded.versions.versions import kept_versions, read_manifest
from statemigrate.errors import CheckpointError


def last_committed(layout: Layout, *, before: int | None = None) -> Manifest | None:
    """The manifest of the last batch Spark has committed, None before the first.

    ``before`` is the epoch of whoever is to go on from it, see `read_manifest`.
    Raises `CheckpointError` for a checkpoint that holds batches of something else, and for one
    whose state is further than Spark's commits.
    """
    # Before the commits: of a running query they may only get further meanwhile.
    newest = max(kept_versions(layout), default=-1)
    numbers = batches_in([entry.base_name for entry in layout.files.list("commits")])
    committed = max(numbers, default=-1)
    if committed >= 0:
        require_versions(layout, len(numbers))
    if newest > committed + 1:
        raise CheckpointError(
            "SM-EMBEDDED-024",
            f"commits are missing in {layout.place('commits')}",
            expected=f"the commit of batch {newest - 1}, whose state is there",
            found=f"commits up to {committed}" if numbers else "none",
            next_action="start the query: it goes on from its offsets and the newest state; "
            "where offsets are lost too, restore the whole checkpoint directory from one copy",
            path=layout.place("commits"),
        )
    return read_manifest(layout, committed, before=before) if committed >= 0 else None


def require_committed(layout: Layout, *, before: int | None = None) -> Manifest:
    """The manifest of the last committed batch. Raises `CheckpointError` before the first."""
    manifest = last_committed(layout, before=before)
    if manifest is not None:
        return manifest
    raise CheckpointDirectory(layout.files).nothing_committed()
