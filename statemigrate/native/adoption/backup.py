"""What an adoption keeps of the checkpoint: the files as they were, and a record of what was done.

``<checkpoint>/statemigrate/adoption/<n>`` belongs to the n-th adoption. It holds ``record.json``,
``offsets/`` with the original files and their checksum files, ``undone/`` with the files as they
were before the adoption was undone, and ``sources/`` with what the removed source had kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from statemigrate.checkpoint.offsets import batches_in
from statemigrate.files import ConfinedPath
from statemigrate.native.adoption.offsets import OffsetFile
from statemigrate.native.backfill.adoptions import (
    FORMAT,
    Progress,
    Record,
    SavedFile,
    altered,
    parse_record,
)


@dataclass(frozen=True)
class Backup:
    """One adoption's directory and its record."""

    directory: ConfinedPath
    record: Record

    def covers(self, files: Iterable[OffsetFile]) -> bool:
        """Whether each file is here as it is in the checkpoint now."""
        known = {(each.batch, each.before) for each in self.record.files}
        return all((file.batch, sha256(file.data)) in known for file in files)

    def original(self, file: OffsetFile) -> tuple[bytes, bytes | None] | None:
        """What an adopted file and its checksum file were; None if it is not as adopted."""
        for each in self.record.files:
            if (each.batch, each.after) == (file.batch, sha256(file.data)):
                saved = self.directory / "offsets" / file.path.name
                data = saved.read_bytes()
                if sha256(data) != each.before:
                    raise altered(saved.path, f"SHA-256 {each.before}", sha256(data))
                checksum = saved.with_name(file.checksum_file.name)
                return data, checksum.read_bytes() if checksum.exists() else None
        return None

    def write(self, progress: Progress) -> Backup:
        """Record how far the adoption is."""
        record = replace(self.record, progress=progress, since=datetime.now(UTC).isoformat())
        document = json.dumps({"format": FORMAT, **asdict(record)}, indent=2)
        write_file(self.directory / "record.json", document.encode())
        return Backup(self.directory, record)

    def save(self, files: Iterable[OffsetFile], folder: str = "offsets") -> Iterator[str]:
        """Copy files with their checksum files, each a step."""
        for file in files:
            if file.checksum_file.exists():
                copy = self.directory / folder / file.checksum_file.name
                write_file(copy, file.checksum_file.read_bytes(), like=file.checksum_file)
            write_file(self.directory / folder / file.path.name, file.data, like=file.path)
            yield f"copied {file.path} to {self.directory / folder}"

    def free_place(self, source: int) -> ConfinedPath:
        """Where the directory of a removed source can go."""
        at = self.directory / "sources" / str(source)
        number = 1
        while at.exists():
            number += 1
            at = at.with_name(f"{source}-{number}")
        return at


def new_backup(checkpoint: Path, sources: int, files: Iterable[OffsetFile]) -> Backup:
    """The backup of an adoption that begins; nothing is written yet."""
    root = _root(checkpoint)
    number = max(batches_in(root.names() if root.is_dir() else []), default=0) + 1
    saved = tuple(
        SavedFile(file.batch, sha256(file.data), sha256(file.with_one_more())) for file in files
    )
    return Backup(root / str(number), Record("adopting", sources, saved, ""))


def last_backup(checkpoint: Path) -> Backup | None:
    """The newest adoption that got as far as its record."""
    root = _root(checkpoint)
    begun = (each for each in root.glob("*") if (each / "record.json").exists())
    numbers = batches_in(each.name for each in begun)
    if not numbers:
        return None
    directory = root / str(max(numbers))
    path = directory / "record.json"
    return Backup(directory, parse_record(path.read_bytes(), path.path))


def sha256(data: bytes) -> str:
    """The SHA-256 of a file's content, as hex."""
    return hashlib.sha256(data).hexdigest()


def write_file(path: ConfinedPath, data: bytes, like: ConfinedPath | None = None) -> None:
    """Write or replace a file: a crash leaves the old or the new one, whole and durable.

    It has the rights of the file ``like``, or else of the one it replaces.
    """
    path.parent.mkdir()
    rights = _rights(like or path)
    # Spark passes over names that begin with a dot.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            if rights is not None:
                os.fchmod(file.fileno(), rights)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename_to(path)
    finally:
        temporary.unlink(missing_ok=True)


def _rights(path: ConfinedPath) -> int | None:
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return None
    # A link that is replaced has no rights of its own.
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None


def _root(checkpoint: Path) -> ConfinedPath:
    return ConfinedPath(checkpoint) / "statemigrate/adoption"
