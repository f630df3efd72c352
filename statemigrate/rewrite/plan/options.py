"""What else a rewrite changes: settings that are pinned to the query, offsets, the watermark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from statemigrate.checkpoint.logs.commits import CommitEntry
from statemigrate.checkpoint.logs.entries import OffsetEntry
from statemigrate.checkpoint.logs.pinned import HDFS_PROVIDER, PARTITIONS, ROCKSDB_PROVIDER
from statemigrate.checkpoint.operators.shapes import CheckpointShape
from statemigrate.errors import RewriteError

PROVIDERS = {"rocksdb": ROCKSDB_PROVIDER, "hdfs": HDFS_PROVIDER}
"""By the word for each in the command line."""


@dataclass(frozen=True)
class RewriteOptions:
    """What is asked for beside the new code.

    ``conf`` has pinned settings that change, ``offsets`` the new offset of a source by its name or
    number, as its source writes it; ``watermark`` is in milliseconds since 1970.
    """

    partitions: int | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    offsets: Mapping[str, Any] = field(default_factory=dict)
    watermark: int | None = None

    def pinned(self, old: CheckpointShape) -> dict[str, str]:
        """The settings that the new checkpoint pins to the query."""
        changed = {**old.conf, **self.conf}
        if self.partitions is not None:
            changed[PARTITIONS] = str(self.partitions)
        return changed


def new_logs(
    old: CheckpointShape, options: RewriteOptions
) -> tuple[dict[int, OffsetEntry], dict[int, CommitEntry]]:
    """The last two entries of both logs, as the new checkpoint has them.

    Raises `RewriteError` for an offset of a source that there is not.
    """
    pinned = options.pinned(old)
    offsets = {
        batch: _with_watermark(_with_offsets(replace(entry, pinned=pinned), options), options)
        for batch, entry in old.offsets.items()
    }
    commits = {
        # Files of state without ids of their own are found by their version.
        batch: CommitEntry(entry.watermark if options.watermark is None else options.watermark)
        for batch, entry in old.commits.items()
    }
    return offsets, commits


def _with_watermark(entry: OffsetEntry, options: RewriteOptions) -> OffsetEntry:
    return entry if options.watermark is None else replace(entry, watermark=options.watermark)


def _with_offsets(entry: OffsetEntry, options: RewriteOptions) -> OffsetEntry:
    if not options.offsets:
        return entry
    sources = list(entry.offsets.by_source)
    unknown = sorted(set(options.offsets) - set(sources))
    if unknown:
        raise RewriteError(
            f"the query has no source {unknown[0]}",
            expected=f"one of {', '.join(sources)}",
            found=unknown[0],
            next_action="name the source as the offset log does: by its name, or else its number",
        )
    lines = [
        _line(source, options.offsets[source], named=entry.offsets.named)
        if source in options.offsets
        else line
        for source, line in zip(sources, entry.offsets.lines, strict=True)
    ]
    return replace(entry, offsets=replace(entry.offsets, lines=tuple(lines)))


def _line(source: str, offset: Any, *, named: bool) -> str:
    text = json.dumps(offset, separators=(",", ":"))
    return f"{source}:{text}" if named else text
