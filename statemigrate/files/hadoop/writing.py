"""How a file appears whole on one of Hadoop's file systems.

Where a file can be seen only once it is closed (buckets), it is written under its name. Elsewhere
it is written beside it, and renamed, which HDFS and its like do at once or not at all. To make one
that is not there S3A has a conditional write, and Google's connector; where renaming never writes
over a file that is enough. Of any other file system that is not known, and the user decides.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from statemigrate.files.conditional import create_once, no_create, races_allowed
from statemigrate.files.hadoop.failures import translated
from statemigrate.files.hadoop.jvm import Java

_SEEN_WHEN_CLOSED = {"s3a", "s3n", "s3", "gs", "oss", "cosn", "obs"}
_RENAMED_AT_ONCE = {"hdfs", "viewfs", "webhdfs", "swebhdfs", "abfs", "abfss", "ofs", "o3fs"}
_CREATED_AT_ONCE = {"gs"}
_CONDITIONAL = "fs.option.create.conditional.overwrite"
_UNCHECKED = "fs.s3a.create.performance"
_ABORTABLE = "fs.capability.outputstream.abortable"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Writing:
    """Makes files of ``system``, a Java ``FileSystem``; ``root`` is where its options are asked."""

    java: Java
    system: Any
    root: Any

    def put(self, path: Any, data: bytes | Path) -> None:
        """Write a file, in the place of one that is there, so that a reader sees either."""
        with translated("writing", str(path)):
            if self._scheme in _SEEN_WHEN_CLOSED:
                builder = self.system.createFile(path).overwrite(True).recursive()
                # Nobody has made a folder of the name, so S3A need not look.
                self._write(builder.opt(_UNCHECKED, "true"), data)
            else:
                self._beside(path, data, self._rename.OVERWRITE)

    def replace(self, path: Any, data: bytes, like: Any) -> None:
        """As `put`, with the rights of the file ``like`` where it is there."""
        if self._scheme in _SEEN_WHEN_CLOSED:
            return self.put(path, data)
        rights = None
        with suppress(FileNotFoundError), translated("looking at", str(like)):
            rights = self.system.getFileStatus(like).getPermission()
        with translated("writing", str(path)):
            self._beside(path, data, self._rename.OVERWRITE, rights)
        return None

    def create(self, path: Any, data: bytes, read: Callable[[], bytes]) -> None:
        """Write a file that is not there. Raises `FileExistsError`, `UnsupportedError`."""
        attempt = self._creation(path, data)

        def translating() -> None:
            with translated("creating", str(path)):
                attempt()

        create_once(data, translating, read)

    def _creation(self, path: Any, data: bytes) -> Callable[[], None]:
        if self._has_conditional:
            builder = self.system.createFile(path).overwrite(True).recursive()
            return lambda: self._write(builder.must(_CONDITIONAL, "true"), data)
        if self._scheme in _RENAMED_AT_ONCE or (
            races_allowed() and self._scheme not in _SEEN_WHEN_CLOSED
        ):
            return lambda: self._beside(path, data, self._rename.NONE)
        if self._scheme in _CREATED_AT_ONCE or races_allowed():
            return lambda: self._write(self.system.createFile(path).recursive(), data)
        version = self.java.hadoop.util.VersionInfo.getVersion()
        raise no_create(str(self.root), f"{self.system.getClass().getName()} of Hadoop {version}")

    @cached_property
    def _scheme(self) -> str:
        return str(self.system.getUri().getScheme() or "").lower()

    @cached_property
    def _has_conditional(self) -> bool:
        with translated("looking at", str(self.root)):
            return bool(self.system.hasPathCapability(self.root, _CONDITIONAL))

    @property
    def _rename(self) -> Any:
        return self.java.hadoop.fs.Options.Rename

    def _beside(self, path: Any, data: bytes | Path, how: Any, rights: Any = None) -> None:
        # Spark passes over names that begin with a dot.
        name = f".{path.getName()}.{uuid.uuid4().hex}.tmp"
        unfinished = self.java.hadoop.fs.Path(path.getParent(), name)
        options = self.java.gateway.new_array(self._rename, 1)
        options[0] = how
        context = self.java.hadoop.fs.FileContext.getFileContext(
            self.system.getUri(), self.java.configuration
        )
        try:
            self._write(self.system.createFile(unfinished).recursive(), data)
            if rights is not None:
                self.system.setPermission(unfinished, rights)
            context.rename(unfinished, path, options)
        except BaseException:
            self.system.delete(unfinished, False)
            raise

    def _write(self, builder: Any, data: bytes | Path) -> None:
        stream = builder.build()
        try:
            if isinstance(data, Path):
                source = self.java.jvm.java.io.FileInputStream(str(data))
                self.java.hadoop.io.IOUtils.copyBytes(source, stream, _BLOCK, False)
                source.close()
            else:
                stream.write(data)
            if stream.hasCapability("hsync"):
                stream.hsync()
        except BaseException:
            # To close a stream of a bucket would make a file of what it has so far.
            if stream.hasCapability(_ABORTABLE):
                stream.abort()
            elif self._scheme not in _SEEN_WHEN_CLOSED:
                stream.close()
            raise
        stream.close()
