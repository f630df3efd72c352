"""What the logs of a new checkpoint were when it was published."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.logs import (
    TakenFile,
    batches_in,
    file_offset,
    lines_of_folders,
    names_in,
    taken_until,
)
from statemigrate.checkpoint.operators import CheckpointShape
from statemigrate.files import Files, Maybe, Table

if TYPE_CHECKING:
    from statemigrate.rewrite.rewrite_plan import RewritePlan


_FOLDERS = ("offsets/", "commits/", "sources/")
SHAPE = {
    "files": Table(str),
    "taken": Table({"offset": int, "files": int, "checksum": str}),
    "settings": Table(str),
    "watermark": Maybe(int),
    "named": bool,
    "sources": [{"name": str, "old": Maybe(str), "offset": Maybe(str)}],
}


@dataclass(frozen=True)
class TakenFiles:
    """How many ``files`` a source has taken up to an ``offset`` of its log, and their checksum."""

    offset: int
    files: int
    checksum: str

    @classmethod
    def of(cls, offset: int, taken: Iterable[TakenFile]) -> TakenFiles:
        """Of the entries of a log, in any order."""
        lines = sorted(f"{each.offset} {each.timestamp} {each.path}" for each in taken)
        digest = hashlib.sha256("\n".join(lines).encode(errors="surrogatepass"))
        return cls(offset, len(lines), digest.hexdigest())


@dataclass(frozen=True)
class SourceRecord:
    """A source of the new checkpoint: the ``old`` one that it goes on with, None for a new one.

    ``offset`` is what was asked for, as the log has it, None where it stayed.
    """

    name: str
    old: str | None
    offset: str | None


@dataclass(frozen=True)
class LogRecord:
    """``files`` has the SHA-256 of each by its name, ``taken`` what each file source has taken.

    ``settings``, ``watermark`` (milliseconds since 1970) and ``sources`` are what was asked for:
    all else is as in the old logs. Sources are ``named`` or go by their number.
    """

    files: Mapping[str, str]
    taken: Mapping[str, TakenFiles] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None
    named: bool = False
    sources: tuple[SourceRecord, ...] = ()

    @classmethod
    def of(cls, plan: RewritePlan, new: Files, hashes: Mapping[str, str]) -> LogRecord:
        """Of what a rewrite has put into ``new``; ``hashes`` are those of all that it put there."""
        return cls(
            {name: each for name, each in hashes.items() if is_recorded(name)},
            {
                source: TakenFiles.of(offset, taken_until(new, source, offset))
                for source, offset in file_sources(new, plan.new).items()
            },
            plan.asked_settings,
            plan.asked_watermark,
            plan.sources.named,
            tuple(SourceRecord(each.name, each.old, each.offset) for each in plan.sources.sources),
        )

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LogRecord:
        """What `to_json` gave the document of, which has the `SHAPE`."""
        return cls(
            document["files"],
            {source: TakenFiles(**each) for source, each in document["taken"].items()},
            document["settings"],
            document["watermark"],
            document["named"],
            tuple(SourceRecord(**each) for each in document["sources"]),
        )

    def to_json(self) -> dict[str, Any]:
        """The document that is kept."""
        return {**asdict(self), "sources": [asdict(each) for each in self.sources]}


def is_recorded(name: str) -> bool:
    """Whether the hash of a file is kept: of the logs, of what sources keep, and of metadata."""
    return name == "metadata" or name.startswith(_FOLDERS)


def file_sources(files: Files, shape: CheckpointShape) -> dict[str, int]:
    """The offsets of the sources of files, as of the batch of a shape, by their folders' names."""
    offsets = shape.offsets[shape.batch].offsets
    found: dict[str, int] = {}
    for folder, line in lines_of_folders(files, offsets).items():
        text = offsets.by_source[line]
        offset = None if text is None else file_offset(text)
        if offset is not None and batches_in(names_in(files, f"sources/{folder}")):
            found[folder] = offset
    return found
