"""The logs that sources keep in the new checkpoint: those of old ones, and of files taken before.

A file source takes no file twice that its log names. A new one whose state has come from elsewhere
begins with a log of the files that are in that state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from statemigrate.checkpoint.logs.offsets import NO_OFFSET, Offsets
from statemigrate.errors import RewriteError
from statemigrate.files import Files
from statemigrate.rewrite.forking.source_logs import source_files
from statemigrate.rewrite.plan.plan import RewritePlan
from statemigrate.rewrite.plan.sources import SourcePlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LARGEST = 1 << 30
"""Bytes of a source's log."""


def kept_logs(plan: RewritePlan, old: Files, new: Files) -> Iterator[tuple[str, bytes]]:
    """What the old sources keep that new ones go on with, below the names of these.

    As far as the offsets of the plan: a source that is set back takes its files again.
    """
    kept = {each.old: each for each in plan.sources.sources if each.old is not None}
    found = source_files(old, new, _reached(plan, kept), is_last=True)
    for name in (*found.copied, *found.written):
        _, source, *rest = name.split("/")
        if source in kept:
            data = found.written.get(name) or old.get(name, most=_LARGEST)
            yield "/".join(["sources", kept[source].name, *rest]), data


def taken_logs(plan: RewritePlan, spark: SparkSession) -> Iterator[tuple[str, bytes]]:
    """Logs with the files that new sources are not to take.

    Raises `RewriteError` for a place without files.
    """
    for source in plan.sources.sources:
        if source.taken:
            entries = sorted(_files(source, spark))
            lines = [
                json.dumps({"path": path, "timestamp": moment, "batchId": 0}, separators=(",", ":"))
                for path, moment in entries
            ]
            yield f"sources/{source.name}/0", "\n".join(["v1", *lines]).encode()


def _reached(plan: RewritePlan, kept: dict[str, SourcePlan]) -> Offsets:
    """The offsets of the plan, by the names of the old sources."""
    entry = plan.old.offsets[plan.old.batch]
    lines = [
        kept[name].line(entry) if name in kept else NO_OFFSET for name in entry.offsets.by_source
    ]
    if entry.offsets.named:
        names = entry.offsets.by_source
        lines = [f"{name}:{line}" for name, line in zip(names, lines, strict=True)]
    return Offsets(entry.offsets.named, tuple(lines))


def _files(source: SourcePlan, spark: SparkSession) -> list[tuple[str, int]]:
    """The path, as a file source writes it, and the time of change in milliseconds of each file."""
    from pyspark.sql import functions as F  # noqa: N812

    # Of a folder with partitions Spark's reader passes over files beside them; a stream does not.
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    found = reader.load(source.taken).select(
        "_metadata.file_path",
        F.unix_millis("_metadata.file_modification_time").alias("changed"),
    )
    entries = [(_with_authority(row.file_path), row.changed) for row in found.collect()]
    if not entries:
        raise RewriteError(
            f"there is no file in {source.taken}, which source {source.name} is not to take",
            expected="a folder, a file or a pattern with the files that the state has already",
            found="none",
            next_action=f"correct --taken {source.name}, or leave it out",
        )
    return entries


def _with_authority(path: str) -> str:
    """A path on the local disk as a file source writes it."""
    return path if path.startswith("file://") else path.replace("file:/", "file:///", 1)
