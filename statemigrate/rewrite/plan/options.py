"""What else a rewrite changes: settings that are pinned to the query, offsets, the watermark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from statemigrate.checkpoint.logs.commits import CommitEntry
from statemigrate.checkpoint.logs.entries import OffsetEntry
from statemigrate.checkpoint.logs.pinned import (
    FILE_IDS,
    HDFS_PROVIDER,
    PARTITIONS,
    ROCKSDB_PROVIDER,
)
from statemigrate.checkpoint.operators.shapes import CheckpointShape
from statemigrate.rewrite.plan.sources import AskedOfSources, SourcesPlan

PROVIDERS = {"rocksdb": ROCKSDB_PROVIDER, "hdfs": HDFS_PROVIDER}
"""By the word for each in the command line."""


@dataclass(frozen=True)
class RewriteOptions:
    """What is asked for beside the new code.

    ``conf`` has pinned settings that change, ``offsets`` the new offset of a source by its name or
    number, as its source writes it, None for none; ``watermark`` is in milliseconds since 1970.
    ``sources`` has the new source of an old one, None for one that goes; ``taken`` a path, by the
    source that is new, with the files that it is not to take. ``pages`` is the number of pages
    that variables go into, 0 for none: then Spark keeps each by itself. ``paged`` is the operator
    that is meant, by Spark's number or by its name, and ``paged_name`` the name that it gets;
    without that it keeps its own, or has none.
    """

    partitions: int | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    offsets: Mapping[str, Any] = field(default_factory=dict)
    watermark: int | None = None
    sources: Mapping[str, str | None] = field(default_factory=dict)
    taken: Mapping[str, str] = field(default_factory=dict)
    pages: int | None = None
    paged: int | str | None = None
    paged_name: str | None = None

    @property
    def of_sources(self) -> AskedOfSources:
        """What is asked for of the sources."""
        return AskedOfSources(self.sources, self.offsets, self.taken)

    def pinned(self, before: Mapping[str, str]) -> dict[str, str]:
        """The settings that the new checkpoint pins to the query, of those ``before``."""
        changed = {**before, **{name: v for name, v in self.conf.items() if name != FILE_IDS}}
        if self.partitions is not None:
            changed[PARTITIONS] = str(self.partitions)
        return changed


def new_logs(
    old: CheckpointShape, options: RewriteOptions, sources: SourcesPlan
) -> tuple[dict[int, OffsetEntry], dict[int, CommitEntry]]:
    """The last two entries of both logs, as the new checkpoint has them, without ids of files."""
    pinned = options.pinned(old.conf)
    offsets = {
        batch: _with_watermark(sources.entry(replace(entry, pinned=pinned)), options)
        for batch, entry in old.offsets.items()
    }
    commits = {
        batch: CommitEntry(
            entry.watermark if options.watermark is None else options.watermark,
            3 if entry.sinks else 1,
            sinks=entry.sinks,
        )
        for batch, entry in old.commits.items()
    }
    return offsets, commits


def _with_watermark(entry: OffsetEntry, options: RewriteOptions) -> OffsetEntry:
    return entry if options.watermark is None else replace(entry, watermark=options.watermark)
