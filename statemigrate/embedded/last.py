"""Which version of a checkpoint is the last committed one."""

from __future__ import annotations

from statemigrate.embedded.durable import unwritable
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, read_manifest
from statemigrate.errors import CheckpointError
from statemigrate.files import whole_number


def last_committed(layout: Layout) -> Manifest | None:
    """The manifest of the last batch Spark has committed, None before the first.

    Raises `CheckpointError` for a checkpoint that holds batches of something else.
    """
    with unwritable(layout.checkpoint):
        names = [path.name for path in (layout.checkpoint / "commits").glob("*")]
    numbers = [number for name in names if (number := whole_number(name)) is not None]
    if not numbers:
        return None
    if not layout.versions.is_dir():
        raise CheckpointError(
            f"{layout.checkpoint} belongs to a query that does not use the embedded engine",
            expected=f"state versions in {layout.versions}",
            found=f"{len(numbers)} committed batches and no such directory",
            next_action="give this query a checkpoint of its own",
            path=str(layout.checkpoint),
        )
    return read_manifest(layout, max(numbers))


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
