"""Which version of a checkpoint is the last committed one."""

from __future__ import annotations

from statemigrate.checkpoint.offsets import batches_in
from statemigrate.embedded.storage.continuation import require_versions
from statemigrate.embedded.storage.durable import unwritable
from statemigrate.embedded.storage.layout import Layout
from statemigrate.embedded.storage.manifest import Manifest, kept_versions, read_manifest
from statemigrate.errors import CheckpointError
from statemigrate.files import ConfinedPath


def last_committed(layout: Layout) -> Manifest | None:
    """The manifest of the last batch Spark has committed, None before the first.

    Raises `CheckpointError` for a checkpoint that holds batches of something else, and for one
    whose state is further than Spark's commits.
    """
    # Before the commits: of a running query they may only get further meanwhile.
    newest = max(kept_versions(layout), default=-1)
    with unwritable(layout.checkpoint):
        commits = ConfinedPath(layout.checkpoint) / "commits"
        names = [path.name for path in commits.glob("*")]
    numbers = batches_in(names)
    committed = max(numbers, default=-1)
    if committed >= 0:
        require_versions(layout, len(numbers))
    if newest > committed + 1:
        raise CheckpointError(
            f"commits are missing in {layout.checkpoint / 'commits'}",
            expected=f"the commit of batch {newest - 1}, whose state is there",
            found=f"commits up to {committed}" if numbers else "none",
            next_action="start the query: it goes on from its offsets and the newest state; "
            "where offsets are lost too, restore the whole checkpoint directory from one copy",
            path=str(layout.checkpoint / "commits"),
        )
    return read_manifest(layout, committed) if committed >= 0 else None


def require_committed(layout: Layout) -> Manifest:
    """The manifest of the last committed batch. Raises `CheckpointError` before the first."""
    manifest = last_committed(layout)
    if manifest is not None:
        return manifest
    exists = layout.checkpoint.is_dir()
    raise CheckpointError(
        f"nothing is committed in the checkpoint {layout.checkpoint}",
        expected="at least one committed batch",
        found="none" if exists else "no such directory",
        next_action="check the path; a query writes its state with its first batch",
        path=str(layout.checkpoint),
    )
