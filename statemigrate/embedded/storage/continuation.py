"""Spark says which batch runs, the engine which versions there are: the two compared.

Spark's logs and the engine's versions lie in one checkpoint, and can be lost or brought back apart
from each other. A batch continues the newest version, or repeats it; everything else is refused.
"""

from __future__ import annotations

from statemigrate.checkpoint.offsets import batches_in, parse_offsets, unknown
from statemigrate.embedded.storage.confined import confined
from statemigrate.embedded.storage.durable import unwritable
from statemigrate.embedded.storage.layout import Layout, version_of
from statemigrate.embedded.storage.manifest import (
    Manifest,
    kept_versions,
    manifest_path,
    read_manifest,
)
from statemigrate.errors import CheckpointError
from statemigrate.files import ConfinedPath, parse_json

_RESTORE = (
    "restore the whole checkpoint directory from one copy: Spark's logs (offsets, commits, "
    "sources) belong to the state beside them; without them, give the query a checkpoint of its own"
)


def next_batch(layout: Layout) -> int:
    """The batch that Spark will run first: the newest it began, or the one after, as Spark does."""
    begun = max(batches_in(_names(layout, "offsets")), default=None)
    if begun is None:
        return 0
    committed = max(batches_in(_names(layout, "commits")), default=None)
    return begun + 1 if committed == begun else begun


def continued(layout: Layout, batch: int) -> Manifest | None:
    """The version that ``batch`` starts from; None for the first batch of a checkpoint.

    Raises `CheckpointError` unless ``batch`` continues the newest version or repeats it, and
    `CorruptFileError` where the version before it is missing or altered.
    """
    if batch > 0:
        require_versions(layout, batch)
    newest = max(kept_versions(layout), default=-1)
    if newest > batch:
        raise CheckpointError(
            f"Spark is to run batch {batch} of {layout.checkpoint}, whose state is further",
            expected=f"state version {batch - 1}, or {batch} from a batch that was not committed",
            found=f"state version {newest}",
            next_action=_RESTORE,
            path=str(manifest_path(layout, newest)),
        )
    if batch > 0:
        return read_manifest(layout, batch - 1)
    _require_no_later_files(layout)
    return None


def _require_no_later_files(layout: Layout) -> None:
    """Raise `CheckpointError` where there is state, though neither logs nor versions tell of it.

    It would be taken for what a killed attempt has left, and removed.
    """
    for partition in (ConfinedPath(layout.checkpoint) / "statemigrate/partitions").glob("*"):
        for path in partition.glob("*"):
            version = version_of(path.name)
            if version is not None and version > 0:
                raise CheckpointError(
                    f"Spark is to run batch 0 of {layout.checkpoint}, which holds state already",
                    expected="no state, or what a first batch has left that was not committed",
                    found=f"{path}, of version {version}, and no manifest that names it",
                    next_action=_RESTORE,
                    path=str(path),
                )


def require_versions(layout: Layout, batches: int) -> None:
    """Raise `CheckpointError` where Spark has run batches and the engine has no versions."""
    if confined(layout.versions).is_dir():
        return
    raise CheckpointError(
        f"{layout.checkpoint} belongs to a query that does not use the embedded engine",
        expected=f"state versions in {layout.versions}",
        found=f"{batches} committed batches and no such directory",
        next_action="give this query a checkpoint of its own",
        path=str(layout.checkpoint),
    )


def batch_time(layout: Layout, batch: int) -> int:
    """When Spark began ``batch`` for the first time: milliseconds since the epoch.

    From Spark's own record of the batch, so that it is the same however often the batch runs.
    Raises `CheckpointError` where there is none that says it.
    """
    path = ConfinedPath(layout.checkpoint) / f"offsets/{batch}"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unknown(str(path), "Spark's record of the batch", str(error)) from error
    parse_offsets(data, str(path))
    time = parse_json(data.decode().split("\n")[1]).get("batchTimestampMs")
    if not isinstance(time, int):
        raise unknown(str(path), "batchTimestampMs, a number, in line 2", repr(time))
    return time


def _names(layout: Layout, folder: str) -> list[str]:
    with unwritable(layout.checkpoint):
        return [path.name for path in (ConfinedPath(layout.checkpoint) / folder).glob("*")]
