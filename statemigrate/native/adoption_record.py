"""The record of an adoption, ``statemigrate/adoption/<n>/record.json`` in the checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from statemigrate.errors import CorruptFileError
from statemigrate.files import parse_json

Progress = Literal["adopting", "adopted", "undoing", "undone"]

FORMAT = 1
"""The version of the record."""


@dataclass(frozen=True)
class SavedFile:
    """An offset file that was changed: its batch, and the SHA-256 (hex) before and after."""

    batch: int
    before: str
    after: str


@dataclass(frozen=True)
class AdoptionRecord:
    """An adoption: how far it is, the number of sources before it, the files, and when (UTC)."""

    progress: Progress
    sources: int
    files: tuple[SavedFile, ...]
    since: str


def parse_record(data: bytes, path: str) -> AdoptionRecord:
    """Read what `Backup.write` wrote. Raises `CorruptFileError`."""
    try:
        return _record(parse_json(data))
    except (ValueError, KeyError, TypeError) as error:
        raise altered(path, f"JSON of format {FORMAT}", str(error)) from error


def _record(document: Any) -> AdoptionRecord:
    if document["format"] != FORMAT or document["progress"] not in get_args(Progress):
        raise ValueError(f"format {document['format']}, progress {document['progress']}")
    files = tuple(
        SavedFile(int(each["batch"]), str(each["before"]), str(each["after"]))
        for each in document["files"]
    )
    return AdoptionRecord(
        document["progress"], int(document["sources"]), files, str(document["since"])
    )


def altered(path: str, expected: str, found: str) -> CorruptFileError:
    """A file of an adoption is not what was written."""
    return CorruptFileError(
        "SM-ADOPT-016",
        f"{path} is not what was written",
        expected=expected,
        found=found,
        next_action="restore the file from a copy of the checkpoint",
        path=path,
    )


def newest_adoption(records: dict[str, bytes]) -> AdoptionRecord | None:
    """The last of what `ChunkFiles.adoptions` gives."""
    if not records:
        return None
    newest = max(records, key=lambda path: int(path.split("/")[-2]))
    return parse_record(records[newest], newest)
