"""Versions of a checkpoint copied to another directory, with Spark's logs of their batches.

Files are copied, never given a second name, and each is compared with its checksum as it comes: a
version that cannot be restored is found before anybody computes with it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from statemigrate.checkpoint.logs import Offsets
from statemigrate.embedded.batches import NAME
from statemigrate.embedded.committed import hold
from statemigrate.embedded.content_hash import Contents
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.mirror import Mirror
from statemigrate.embedded.versions import publish_manifest, read_manifest, retained_versions
from statemigrate.errors import UnsupportedError, without_credentials
from statemigrate.files import Files, LocalFiles

_log = logging.getLogger("statemigrate.embedded")


def heartbeat_line(offsets: Offsets) -> str:
    """The line of an offset log that is the engine's own source, which has no rows."""
    # It is united with the stream, behind whatever that reads.
    return NAME if offsets.named else next(reversed(offsets.by_source))


def removed_versions(files: Files, batches: Sequence[int]) -> list[int]:
    """Those of some ``batches`` whose state is retained no longer.

    Raises `UnsupportedError` for a query that has state of Spark's too.
    """
    if files.list("state"):
        raise UnsupportedError(
            "SM-EMBEDDED-032",
            f"the query of {files.location} has state of Spark's and of the embedded engine",
            expected="a stream without stateful operators in front of the processor",
            found=f"{files.location}/state",
            next_action="nothing here copies both together; let the processor do what the "
            "operator does",
            path=files.location,
        )
    there = set(retained_versions(Layout.over(files)))
    return [batch for batch in batches if batch not in there]


def fork_versions(old: Files, new: Path, batches: Sequence[int]) -> None:
    """Copy the state after each of some ``batches``, and the logs of these, to a directory.

    The new place has the query's id. What its sources keep is left out. Raises `CorruptFileError`
    for a version whose files do not make it.
    """
    layout, copied = Layout.over(old), Layout(new)
    mirror = Mirror(Layout(new, old))
    target = LocalFiles(new)
    for batch in batches:
        manifest = read_manifest(layout, batch)
        brought = mirror.bring(manifest.partitions)
        if mirror.lost:
            mirror.require_whole(brought)
        states = tuple(each.standalone for each in brought)
        publish_manifest(copied, replace(manifest, partitions=states))
        for name in (f"offsets/{batch}", f"commits/{batch}"):
            target.put(name, old.get(name))
    for each in mirror.lost:
        _log.warning(
            "%s (%s); other files make the version", without_credentials(each.headline), each.found
        )
    target.put("metadata", old.get("metadata"))


def fork_version(old: Files, new: Path, batch: int) -> None:
    """Copy the state after a ``batch`` to a directory, for a query with an id of its own.

    Raises as `fork_versions`.
    """
    fork_versions(old, new, [batch])
    target = LocalFiles(new)
    target.replace("metadata", f'{{"id":"{uuid.uuid4()}"}}'.encode())
    if batch > 0:
        # A query that starts reads the offsets of the batch before, and goes on from the last.
        target.put(f"offsets/{batch - 1}", old.get(f"offsets/{batch}"))


def contents_at(files: Files, batch: int) -> dict[str, Contents]:
    """By family what the state after a ``batch`` holds, every record of it read.

    Raises as `hold`.
    """
    found: dict[str, Contents] = {}
    with closing(hold(Layout.over(files), batch=batch, deadline=0.0)) as version:
        for number in range(len(version.manifest.partitions)):
            with version.partition(number) as partition:
                for name, each in partition.contents().items():
                    found[name] = found.get(name, Contents()) + each
    return found
