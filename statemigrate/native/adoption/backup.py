"""What an adoption keeps of the checkpoint: the files as they were, and a record of what was done.

``<checkpoint>/statemigrate/adoption/<n>`` belongs to the n-th adoption. It holds ``record.json``,
``offsets/`` with the original files and their checksum files, ``undone/`` with the files as they
were before the adoption was undone, and ``sources/`` with what the removed source had kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from statemigrate.checkpoint.logs.offsets import batches_in, names_in
from statemigrate.files import Files
from statemigrate.native.adoption.offsets import OffsetFile, checksum_of
from statemigrate.native.backfill.adoptions import (
    FORMAT,
    Progress,
    Record,
    SavedFile,
    altered,
    parse_record,
)
from statemigrate.native.backfill.chunk_files import ADOPTIONS

_RECORD = "record.json"


@dataclass(frozen=True)
class Backup:
    """One adoption's directory, as a name below the checkpoint, and its record."""

    files: Files
    directory: str
    record: Record

    @property
    def location(self) -> str:
        """The directory as a path or URI."""
        return f"{self.files.location}/{self.directory}"

    @property
    def is_begun(self) -> bool:
        """Whether its record is there."""
        return self.files.find(f"{self.directory}/{_RECORD}") is not None

    def covers(self, found: Iterable[OffsetFile]) -> bool:
        """Whether each file is here as it is in the checkpoint now."""
        known = {(each.batch, each.before) for each in self.record.files}
        return all((file.batch, sha256(file.data)) in known for file in found)

    def original(self, file: OffsetFile) -> tuple[bytes, bytes | None] | None:
        """What an adopted file and its checksum file were; None if it is not as adopted."""
        for each in self.record.files:
            if (each.batch, each.after) == (file.batch, sha256(file.data)):
                saved = f"{self.directory}/offsets/{file.base_name}"
                data = self.files.get(saved)
                if sha256(data) != each.before:
                    path = f"{self.files.location}/{saved}"
                    raise altered(path, f"SHA-256 {each.before}", sha256(data))
                return data, _content(self.files, checksum_of(saved))
        return None

    def write(self, progress: Progress) -> Backup:
        """Record how far the adoption is."""
        record = replace(self.record, progress=progress, since=datetime.now(UTC).isoformat())
        document = json.dumps({"format": FORMAT, **asdict(record)}, indent=2)
        self.files.replace(f"{self.directory}/{_RECORD}", document.encode())
        return replace(self, record=record)

    def save(self, found: Iterable[OffsetFile], folder: str = "offsets") -> Iterator[str]:
        """Copy files with their checksum files, each a step."""
        for file in found:
            copy = f"{self.directory}/{folder}/{file.base_name}"
            checksum = _content(self.files, file.checksum_file)
            if checksum is not None:
                self.files.replace(checksum_of(copy), checksum, like=file.checksum_file)
            self.files.replace(copy, file.data, like=file.name)
            yield f"copied {file.name} to {self.directory}/{folder}"

    def free_place(self, source: int) -> str:
        """Where the directory of a removed source can go."""
        at = f"{self.directory}/sources/{source}"
        number = 1
        while self.files.find(at if number == 1 else f"{at}-{number}") is not None:
            number += 1
        return at if number == 1 else f"{at}-{number}"


def new_backup(files: Files, sources: int, found: Iterable[OffsetFile]) -> Backup:
    """The backup of an adoption that begins; nothing is written yet."""
    number = max(batches_in(names_in(files, ADOPTIONS)), default=0) + 1
    saved = tuple(
        SavedFile(file.batch, sha256(file.data), sha256(file.with_one_more())) for file in found
    )
    return Backup(files, f"{ADOPTIONS}/{number}", Record("adopting", sources, saved, ""))


def last_backup(files: Files) -> Backup | None:
    """The newest adoption that got as far as its record."""
    for number in sorted(batches_in(names_in(files, ADOPTIONS)), reverse=True):
        directory = f"{ADOPTIONS}/{number}"
        data = _content(files, f"{directory}/{_RECORD}")
        if data is not None:
            path = f"{files.location}/{directory}/{_RECORD}"
            return Backup(files, directory, parse_record(data, path))
    return None


def before_adoptions(files: Files, batch: int, data: bytes) -> Iterator[bytes]:
    """What the offset file of a batch, which has this ``data``, was before each adoption, back.

    Raises `CorruptFileError` for a copy that is not what was saved.
    """
    for number in sorted(batches_in(names_in(files, ADOPTIONS)), reverse=True):
        directory = f"{ADOPTIONS}/{number}"
        record = _content(files, f"{directory}/{_RECORD}")
        if record is None:
            continue
        path = f"{files.location}/{directory}/{_RECORD}"
        saved = Backup(files, directory, parse_record(record, path))
        # Of the file itself its batch and its content count.
        original = saved.original(OffsetFile(f"offsets/{batch}", data, named=False, offsets=()))
        if original is not None:
            data = original[0]
            yield data


def _content(files: Files, name: str) -> bytes | None:
    try:
        return files.get(name)
    except FileNotFoundError:
        return None


def sha256(data: bytes) -> str:
    """The SHA-256 of a file's content, as hex."""
    return hashlib.sha256(data).hexdigest()
