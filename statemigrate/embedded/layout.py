"""Where the embedded engine keeps its files inside a query's checkpoint directory."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from statemigrate.errors import CheckpointError


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
        parsed = urlparse(text)
        if parsed.scheme == "file":
            return cls(Path(unquote(parsed.path)))
        if "://" in text:
            raise CheckpointError(
                f"the embedded engine cannot keep state in {text}",
                expected="a directory of a file system that every worker sees",
                found=f"a {parsed.scheme} URI",
                next_action="use a local or mounted directory as the checkpoint, "
                "or run the processor on Spark's own state store",
                path=text,
            )
        return cls(Path(text).absolute())

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


def spark_path(path: Path) -> str:
    """A local path as Spark takes it: it would take the escapes of a proper URI literally."""
    return f"file://{path}"
