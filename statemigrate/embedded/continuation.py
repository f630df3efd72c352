"""Spark says which batch runs, the engine which versions there are: the two compared.

Spark's logs and the engine's versions lie in one checkpoint, and can be lost or brought back apart
from each other. A batch continues the newest version, or repeats it; everything else is refused.
"""

from __future__ import annotations

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.checkpoint.logs import batches_in, parse_offsets, unknown
from statemigrate.embedded.layout import PARTITIONS, VERSIONS, Layout, version_of
from statemigrate.embedded.manifest import Manifest
from statemigrate.embedded.versions import published, read_manifest, retained_versions
from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.files import parse_json

_LOOKS = 5
"""Looks at a checkpoint whose query goes on before what is found there is believed."""
_RESTORE = (
    "restore the whole checkpoint directory from one copy: Spark's logs (offsets, commits, "
    "sources) belong to the state next to them; without them, give the query its own checkpoint"
)


def next_batch(layout: Layout) -> int:
    """The batch that Spark will run first: the newest it began, or the one after, as Spark does."""
    # Commits first: of a query that still runs, what is begun may only get further meanwhile.
    committed = max(batches_in(_names(layout, "commits")), default=None)
    begun = max(batches_in(_names(layout, "offsets")), default=None)
    if begun is None:
        return 0
    return begun + 1 if committed == begun else begun


def next_start(layout: Layout) -> tuple[int, Manifest | None]:
    """The batch that Spark will run first, and the version that it starts from.

    Looked at again where a query that still runs has gone on in between: its checkpoint is whole.
    Raises as `continued`.
    """
    batch = next_batch(layout)
    for _ in range(_LOOKS - 1):
        try:
            return batch, continued(layout, batch)
        except CheckpointError:
            before, batch = batch, next_batch(layout)
            if before == batch:
                raise
    return batch, continued(layout, batch)


def continued(layout: Layout, batch: int, *, before: int | None = None) -> Manifest | None:
    """The version that ``batch`` starts from; None for the first batch of a checkpoint.

    ``before`` is the epoch of the query that goes on from it, see `read_manifest`.
    Raises `CheckpointError` unless ``batch`` continues the newest version or repeats it, and
    `CorruptFileError` where the version before it is missing or altered.
    """
    if batch > 0:
        require_versions(layout, batch)
    newest = max(published(layout), default=None)
    if newest is not None and newest.version > batch:
        raise CheckpointError(
            "SM-EMBEDDED-021",
            f"Spark is to run batch {batch} of {layout.files.location}, whose state is further",
            expected=f"state version {batch - 1}, or {batch} from a batch that was not committed",
            found=f"state version {newest.version}",
            next_action=_RESTORE,
            path=layout.location_of(newest.entry.name),
        )
    if batch > 0:
        return read_manifest(layout, batch - 1, before=before)
    _require_no_later_files(layout)
    return None


def _require_no_later_files(layout: Layout) -> None:
    """Raise `CheckpointError` where there is state, though neither logs nor versions tell of it.

    It would be taken for what a killed attempt has left, and removed.
    """
    for entry in layout.files.list(PARTITIONS, recursive=True):
        version = version_of(entry.base_name)
        if version is not None and version > 0:
            place = layout.location_of(entry.name)
            raise CheckpointError(
                "SM-EMBEDDED-021",
                f"Spark is to run batch 0 of {layout.files.location}, which holds state already",
                expected="no state, or what a first batch has left that was not committed",
                found=f"{place}, of version {version}, and no manifest that names it",
                next_action=_RESTORE,
                path=place,
            )


def require_versions(layout: Layout, batches: int) -> None:
    """Raise `CheckpointError` where Spark has run batches and the engine has no versions.

    And `CorruptFileError` where it has had some, which are lost.
    """
    if layout.files.find(VERSIONS) is not None:
        return
    if layout.files.find(PARTITIONS) is not None:
        raise CorruptFileError(
            "SM-EMBEDDED-022",
            f"the embedded engine's state in {layout.files.location} has lost what says what is "
            "in it",
            expected=f"manifests of versions in {layout.location_of(VERSIONS)}",
            found=f"{batches} committed batches, {layout.location_of(PARTITIONS)}, "
            f"and no {VERSIONS}",
            next_action=_RESTORE,
            path=layout.location_of(VERSIONS),
        )
    raise CheckpointError(
        "SM-EMBEDDED-023",
        f"{layout.files.location} belongs to a query that does not use the embedded engine",
        expected=f"state versions in {layout.location_of(VERSIONS)}",
        found=f"{batches} committed batches and no such directory",
        next_action="give this query a checkpoint of its own",
        path=layout.files.location,
    )


def batch_time(layout: Layout, batch: int) -> int:
    """When Spark began ``batch`` for the first time: milliseconds since the epoch.

    From Spark's own record of the batch, so that it is the same however often the batch runs.
    Raises `CheckpointError` where there is none that says it.
    """
    name = f"offsets/{batch}"
    path = layout.location_of(name)
    try:
        data = layout.files.get(name)
    except FileNotFoundError as error:
        raise unknown(path, "Spark's record of the batch", str(error)) from error
    parse_offsets(data, path)
    time = parse_json(data.decode().split("\n")[1]).get("batchTimestampMs")
    if not isinstance(time, int):
        raise unknown(path, "batchTimestampMs, a number, in line 2", repr(time))
    return time


def _names(layout: Layout, folder: str) -> list[str]:
    return [entry.base_name for entry in layout.files.list(folder)]


# Which version of a checkpoint is the last committed one.


def last_committed(layout: Layout, *, before: int | None = None) -> Manifest | None:
    """The manifest of the last batch Spark has committed, None before the first.

    ``before`` is the epoch of the query that goes on from it, see `read_manifest`.
    Raises `CheckpointError` for a checkpoint that holds batches of something else, and for one
    whose state is further than Spark's commits.
    """
    # Before the commits: of a running query they may only get further meanwhile.
    newest = max(retained_versions(layout), default=-1)
    numbers = batches_in([entry.base_name for entry in layout.files.list("commits")])
    committed = max(numbers, default=-1)
    if committed >= 0:
        require_versions(layout, len(numbers))
    if newest > committed + 1:
        raise CheckpointError(
            "SM-EMBEDDED-024",
            f"commits are missing in {layout.location_of('commits')}",
            expected=f"the commit of batch {newest - 1}, whose state is there",
            found=f"commits up to {committed}" if numbers else "none",
            next_action="start the query: it goes on from its offsets and the newest state; "
            "where offsets are lost too, restore the whole checkpoint directory from one copy",
            path=layout.location_of("commits"),
        )
    return read_manifest(layout, committed, before=before) if committed >= 0 else None


def require_committed(layout: Layout, *, before: int | None = None) -> Manifest:
    """The manifest of the last committed batch. Raises `CheckpointError` before the first."""
    manifest = last_committed(layout, before=before)
    if manifest is not None:
        return manifest
    raise CheckpointDirectory(layout.files).nothing_committed()
