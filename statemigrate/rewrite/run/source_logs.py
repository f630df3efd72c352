"""The logs that sources keep in the new checkpoint: those of old ones, and of files taken before.

A file source takes no file twice that its log names. A new one whose state has come from elsewhere
begins with a log of the files that are in that state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from statemigrate.checkpoint.logs.offsets import NO_OFFSET, Offsets
from statemigrate.checkpoint.logs.sources import file_offset
from statemigrate.errors import RewriteError
from statemigrate.files import Files
from statemigrate.rewrite.forking.source_logs import offsets_in_log, source_files
from statemigrate.rewrite.plan.plan import RewritePlan
from statemigrate.rewrite.plan.sources import SourcePlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LARGEST = 1 << 30
"""Bytes of a source's log."""


def check_offsets(plan: RewritePlan, old: Files) -> None:
    """Raise `RewriteError` for an offset of a file source that its own log does not have.

    Spark would take every file after it for new, or miss those before it.
    """
    entry = plan.old.offsets[plan.old.batch]
    for each in plan.sources.sources:
        before = None if each.old is None else entry.offsets.by_source[each.old]
        is_asked = each.offset is not None and each.offset != NO_OFFSET
        if before is not None and is_asked and file_offset(before) is not None:
            known = offsets_in_log(old, str(each.old))
            if file_offset(each.offset) not in (-1, *known):
                raise _no_such_offset(each, known)


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


def _no_such_offset(source: SourcePlan, known: list[int]) -> RewriteError:
    begins, ends = (known[0], known[-1]) if known else (0, -1)
    whole = f"from -1 to {ends}" if begins == 0 else f"-1, or from {begins} to {ends}"
    return RewriteError(
        "SM-REWRITE-050",
        f"source {source.name} has no such offset",
        expected=f'{{"logOffset":N}} with N {whole}',
        found=f"--offsets {source.name}={source.offset}",
        next_action="name one that its log of files has; with -1 it takes all its files again",
        source=source.name,
    )


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
            "SM-REWRITE-051",
            f"there is no file in {source.taken}, which source {source.name} is not to take",
            expected="a folder, a file or a pattern with the files that the state has already",
            found="none",
            next_action=f"correct --taken {source.name}, or leave it out",
        )
    return entries


def _with_authority(path: str) -> str:
    """A path on the local disk as a file source writes it."""
    return path if path.startswith("file://") else path.replace("file:/", "file:///", 1)
