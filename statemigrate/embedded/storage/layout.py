"""Where the embedded engine keeps its files inside a query's checkpoint directory."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.files import Files, LocalFiles
from statemigrate.files.opening import open_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS = "statemigrate/versions"
"""The manifests: ``<n>-<e>.json`` is the commit point of state version n, by epoch e."""
PARTITIONS = "statemigrate/partitions"
"""A folder for each partition, with what the manifests refer to."""
HEARTBEAT = "statemigrate/heartbeat"
"""The files that make an idle stream run batches while a backfill is under way."""
_MIRROR = "mirror"
_FILE = re.compile(r"([0-9]{12})-[0-9a-f]{32}\.(changelog|snapshot|content|pack)")


@dataclass(frozen=True)
class Layout:
    """The places below ``<checkpoint>/statemigrate``.

    What the driver reads and writes goes through ``files``. Tasks find a partition's changelogs
    and snapshots in ``partitions/<p>``, and the content of snapshots in ``partitions/<p>/files``:
    below ``checkpoint`` itself where that is a local directory. Of one that is ``remote``,
    ``checkpoint`` is this machine's mirror, which the driver keeps.
    """

    checkpoint: Path
    remote: Files | None = None

    @classmethod
    def of(cls, checkpoint: str | Path, spark: SparkSession | None = None) -> Layout:
        """The layout of a checkpoint given as a path or URI, as `open_files` takes it."""
        return cls.over(open_files(checkpoint, spark))

    @classmethod
    def over(cls, files: Files) -> Layout:
        """The layout of the checkpoint at a place; of a remote one this machine has a mirror."""
        if isinstance(files, LocalFiles):
            return cls(files.root)
        return cls(_of_this_machine(files.location) / _MIRROR, files)

    def within(self, working: Path) -> Layout:
        """The same, what this machine has of a remote checkpoint in a working directory."""
        return self if self.remote is None else Layout(working / _MIRROR, self.remote)

    @property
    def here(self) -> Layout:
        """What tasks know of it: the directory on this machine."""
        return Layout(self.checkpoint)

    @property
    def location(self) -> str:
        """The checkpoint as Spark takes it, which takes the escapes of a proper URI literally."""
        return f"file://{self.checkpoint}" if self.remote is None else self.remote.location

    @property
    def files(self) -> Files:
        """The checkpoint, by the one way to its files."""
        return LocalFiles(self.checkpoint) if self.remote is None else self.remote

    def place(self, name: str) -> str:
        """The whole path or URI of a file, for messages."""
        return f"{self.files.location}/{name}"

    @property
    def root(self) -> Path:
        """The engine's own directory in the checkpoint."""
        return self.checkpoint / "statemigrate"

    @property
    def versions(self) -> Path:
        """The manifests, on a local disk."""
        return self.root / "versions"

    @property
    def heartbeat(self) -> Path:
        """The files that make an idle stream run batches while a backfill is under way."""
        return self.root / "heartbeat"

    @property
    def lock(self) -> Path:
        """Held by the running query."""
        return self.root / "lock"

    def partition(self, number: int) -> Path:
        """The durable files of one partition."""
        return self.root / "partitions" / str(number)

    def contents(self, number: int) -> Path:
        """The content of one partition's snapshots."""
        return self.partition(number) / "files"

    def default_working_directory(self) -> Path:
        """A directory of this machine and user for the disposable working copies."""
        local = str(self.checkpoint.resolve())
        return _of_this_machine(local if self.remote is None else self.remote.location)


def _of_this_machine(checkpoint: str) -> Path:
    name = hashlib.sha256(checkpoint.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"statemigrate-{os.getuid()}" / name


def file_name(version: int, ending: str) -> str:
    """A name that no other file has, for a file of a version: a ``changelog``, ``snapshot``..."""
    return f"{version:012d}-{uuid.uuid4().hex}.{ending}"


def version_of(name: str) -> int | None:
    """The version of a file that `file_name` named; None of any other."""
    found = _FILE.fullmatch(name)
    return None if found is None else int(found[1])
