"""Checkpoints that Spark cannot read as they are: odd paths, copies, and moved ones."""

from __future__ import annotations

import shutil
import tempfile
import uuid
import weakref
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.checkpoint.operators import (
    OperatorFile,
    is_at,
    operator_files,
)
from statemigrate.errors import CheckpointError
from statemigrate.files import Files, local_path
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Paths of checkpoints that Spark itself cannot work with.


_ESCAPED = frozenset(' "<>\\^`{|}%#?[]')
"""What Java's ``URI`` escapes in a path."""


def check_readable(path: str) -> None:
    """Raise `CheckpointError` for a path that Spark's own state readers cannot open.

    They escape the path as a URI, and then look for a directory of the escaped name.
    """
    escaped = sorted(_ESCAPED & set(path))
    if escaped:
        raise CheckpointError(
            "SM-STATE-027",
            f"Spark's state readers cannot open {path}",
            expected="a checkpoint path without characters that a URI escapes",
            found=", ".join(map(repr, escaped)),
            next_action="move the stopped query's checkpoint to a directory of another name, or "
            "migrate by touch, without checkpoint=",
            path=path,
        )


def check_source_path(checkpoint: str) -> None:
    """Raise `CheckpointError` for a path below which no file source can look."""
    found = sorted(set("*?[]{}\\") & set(checkpoint))
    if found:
        raise CheckpointError(
            "SM-BACKFILL-015",
            f"the backfill source cannot be below {checkpoint}",
            expected="a path without any of * ? [ ] { } and backslash, which Spark's file source "
            "takes as a pattern",
            found=" ".join(found),
            next_action="move the checkpoint of the stopped query to a directory without them",
            path=checkpoint,
        )


# A checkpoint that was copied or moved, shown to Spark's state reader with paths that are right.
#
# Spark's own metadata names schema files by absolute path, so that of a copy Spark reads the
# original's, or fails where that is gone. The copy is never changed for reading. What Spark is
# given instead is a place of Hadoop's view file system: everything in it is the copy's own, but for
# the operators' metadata, which come from a private temporary directory where the paths are
# rewritten. So are metadata shown that Spark before 4.0 did not write and its reader cannot do
# without. Only the driver reads those; tasks read the copy, wherever they run.


_SETTING = "fs.viewfs.mounttable"
_METADATA = "/_metadata"
Named = tuple[str, bytes]
"""A file's path below the checkpoint, and its content."""


def readable_uri(
    files: Files,
    checkpoint: str,
    spark: SparkSession,
    added: Mapping[str, bytes] | None = None,
) -> str:
    """Where Spark's state reader finds the checkpoint's own files: at itself, or in a view of it.

    ``checkpoint`` is what its user calls it; ``added`` are operators' metadata that the reader
    needs and a checkpoint of Spark before 4.0 lacks, by their paths. Raises `CheckpointError` for
    metadata that are not understood.
    """
    described = operator_files(files)
    uri = uri_of(files)
    named = tuple((added or {}).items())
    if not named and all(is_at(each, uri) for file in described for each in file.roots):
        return checkpoint
    view = _view(uri, tuple(described), named)
    view.mount(spark)
    return view.location


def uri_of(files: Files) -> str:
    """The checkpoint's place as Spark writes it into metadata."""
    place = local_path(files.location)
    return files.location if place is None else f"file:{place}"


def moved(checkpoint: str, place: str, schema: str) -> CheckpointError:
    """Spark finds the schemas of the state only where the checkpoint was written."""
    return CheckpointError(
        "SM-CHECKPOINT-027",
        f"{checkpoint} was moved, and Spark would start no query on it",
        expected=f"{schema} in {place}, which the operators' metadata name",
        found="no such file there",
        next_action=f"`statemigrate backfill {argument(checkpoint)} --prepare --apply` makes it "
        "name its own "
        "files",
        path=checkpoint,
    )


class _View:
    """Its directory goes with the process, or earlier: only finding the schemas needs it."""

    def __init__(
        self, checkpoint: str, files: Sequence[OperatorFile], added: Sequence[Named]
    ) -> None:
        name = f"statemigrate-{uuid.uuid4().hex}"
        self.location = f"viewfs://{name}/"
        self._table = f"{_SETTING}.{name}"
        self._checkpoint = checkpoint
        directory = Path(tempfile.mkdtemp(prefix="statemigrate-view-"))
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        self._links: dict[str, str] = {}
        mended = [(each.path, each.rooted_at(checkpoint).data) for each in files]
        for name, data in [*mended, *added]:
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            below = name[: name.index(_METADATA) + len(_METADATA)]
            self._links[below] = (directory / below).as_uri()

    def mount(self, spark: SparkSession) -> None:
        """Tell the session of it; its settings travel with every read."""
        spark.conf.set(f"{self._table}.linkFallback", self._checkpoint)
        for below, uri in self._links.items():
            spark.conf.set(f"{self._table}.link./{below}", uri)


@lru_cache(maxsize=64)
def _view(checkpoint: str, files: tuple[OperatorFile, ...], added: tuple[Named, ...]) -> _View:
    """One view for each state of the metadata, however often it is asked for."""
    return _View(checkpoint, files, added)
