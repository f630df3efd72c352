"""Where the embedded engine keeps its files inside a query's checkpoint directory."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from statemigrate.errors import CheckpointError
from statemigrate.files import local_path

_FILE = re.compile(r"([0-9]{12})-[0-9a-f]{32}\.(changelog|snapshot)")


@dataclass(frozen=True)
class Layout:
    """Paths below ``<checkpoint>/statemigrate``.

    ``versions/<n>.json`` is the commit point of state version n; ``partitions/<p>`` holds the
    changelogs and snapshots it refers to, ``partitions/<p>/files`` the snapshots' content by hash.
    """

    checkpoint: Path

    @classmethod
    def of(cls, checkpoint: str | Path) -> Layout:
        """The layout of a checkpoint given as a path or a ``file:`` URI."""
        text = str(checkpoint)
        path = local_path(text)
        if path is not None:
            return cls(path)
        raise CheckpointError(
            f"the embedded engine cannot keep state in {text}",
            expected="a directory of a file system that every worker sees",
            found=f"a {text.partition(':')[0]} URI",
            next_action="use a local or mounted directory as the checkpoint, "
            "or run the processor on Spark's own state store",
            path=text,
        )

    @property
    def root(self) -> Path:
        """The engine's own directory in the checkpoint."""
        return self.checkpoint / "statemigrate"

    @property
    def versions(self) -> Path:
        """The manifests, one a committed state version."""
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
        """The content-addressed files of one partition's snapshots."""
        return self.partition(number) / "files"

    def default_working_directory(self) -> Path:
        """A directory of this machine and user for the disposable working copies."""
        name = hashlib.sha256(str(self.checkpoint.resolve()).encode()).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"statemigrate-{os.getuid()}" / name


def file_name(version: int, ending: str) -> str:
    """A new name for a partition's file of a version, ``changelog`` or ``snapshot``."""
    return f"{version:012d}-{uuid.uuid4().hex}.{ending}"


def version_of(name: str) -> int | None:
    """The version of a file that `file_name` named; None of any other."""
    found = _FILE.fullmatch(name)
    return None if found is None else int(found[1])


def spark_path(path: Path) -> str:
    """A local path as Spark takes it: it would take the escapes of a proper URI literally."""
    return f"file://{path}"
