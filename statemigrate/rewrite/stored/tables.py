"""A snapshot of Spark's RocksDB provider, read through RocksDB itself."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa

from statemigrate.blocks import in_blocks
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.stores.reading import snapshot_of
from statemigrate.checkpoint.stores.versions import LARGEST_ZIP, StoreVersion
from statemigrate.errors import CorruptFileError
from statemigrate.files import Files

_MANY = 50_000
_METADATA = "metadata"
LARGEST_SMALL = 1 << 30
"""Bytes of the files in a zip together: RocksDB's manifest and options."""


def read_tables(
    files: Files, version: StoreVersion, prefix: bytes = b""
) -> Iterator[tuple[Rows, Rows]]:
    """The keys and values of a version's snapshot, in their order, a batch at a time.

    Only keys that begin with ``prefix``. Raises `CorruptFileError` for a snapshot that RocksDB does
    not open, or not read to its end.
    """
    with _opened(files, version) as database:
        start = {"from_key": prefix} if prefix else {}
        # Keys and values apart: pairs would be tracked, again and again, by Python's collector.
        all_keys, all_values = database.keys(**start), database.values(**start)
        if prefix:
            all_keys = takewhile(lambda key: key.startswith(prefix), all_keys)
        while keys := list(islice(all_keys, _MANY)):
            first = 0
            for values in in_blocks(islice(all_values, len(keys)), _MANY, len):
                end = first + len(values)
                yield _rows(keys[first:end]), _rows(values)
                first = end


def _rows(found: list[bytes]) -> Rows:
    return Rows.from_arrow(pa.array(found, pa.large_binary()))


@contextmanager
def _opened(files: Files, version: StoreVersion) -> Iterator[Any]:
    """A private copy of the database, whose large files are shared with the store."""
    from rocksdict import AccessType, Options, Rdict

    with tempfile.TemporaryDirectory(prefix="statemigrate-tables-") as folder:
        _lay_out(files, version, Path(folder))
        try:
            database: Any = Rdict(
                folder, Options(raw_mode=True), access_type=AccessType.read_only()
            )
            try:
                yield database
            finally:
                database.close()
        except CorruptFileError:
            raise
        except Exception as error:
            # rocksdict has no types of its own for its failures.
            raise _unreadable(files, version, error) from error


def _lay_out(files: Files, version: StoreVersion, folder: Path) -> None:
    """Everything where RocksDB looks for it, by the names that it knows."""
    assert version.snapshot is not None, "asked before"  # noqa: S101
    archive = folder / "snapshot.zip"
    files.fetch(version.snapshot, archive, most=LARGEST_ZIP, shared=True)
    try:
        _unzip(archive, folder)
    except (ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise _unreadable(files, version, error) from error
    archive.unlink()
    told = snapshot_of(files, version)
    assert told is not None, "it has one"  # noqa: S101
    for each in told.shared:
        source = f"{version.folder}/{each.name}"
        files.fetch(source, folder / each.local_name, most=each.size, shared=True)


def _unzip(archive: Path, folder: Path) -> None:
    """RocksDB's small files. Raises ValueError where they are not small."""
    with zipfile.ZipFile(archive) as small:
        wanted = [
            each
            for each in small.infolist()
            if each.filename != _METADATA and not {"/", "\\"} & set(each.filename)
        ]
        size = sum(each.file_size for each in wanted)
        if size > LARGEST_SMALL:
            raise ValueError(f"{size:,} bytes in a zip for at most {LARGEST_SMALL:,}")
        for each in wanted:
            # No more than it says comes out of an entry.
            with small.open(each) as content, (folder / each.filename).open("xb") as file:
                shutil.copyfileobj(content, file)


def _unreadable(files: Files, version: StoreVersion, error: Exception) -> CorruptFileError:
    return CorruptFileError(
        "SM-CHECKPOINT-031",
        f"{files.location}/{version.snapshot} is not a snapshot that RocksDB reads",
        expected="RocksDB's files, whole, as the snapshot's metadata name them",
        found=str(error)[:300],
        next_action="restore the folder of this partition from a copy of the checkpoint; the query "
        "could not go on from it either",
        path=f"{files.location}/{version.snapshot}",
    )
