"""Changelogs: what one batch changed in one partition, as an Arrow IPC stream.

Columns: ``family`` (the family's name), ``key``, ``value`` (null for a delete), in the order of
the writes; a record of the family named "" drops the family its key names. The file grows with what
changed, not with the state. Its checksum is kept by the manifest that refers to it. A block is
bounded in records and in bytes, so that neither writing nor reading takes memory for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import IO, Any, cast

from statemigrate.embedded.storage.arrow_messages import (
    RECORD_BATCH,
    SCHEMA,
    check_buffers,
    messages,
)
from statemigrate.embedded.storage.confined import confined
from statemigrate.embedded.storage.database import Run
from statemigrate.embedded.storage.durable import (
    DurableFile,
    FileReference,
    unwritable,
    verify,
)
from statemigrate.embedded.storage.layout import file_name
from statemigrate.errors import CorruptFileError, StorageError
from statemigrate.files.documents.sealed import RESTORE_COPY

_ROWS_A_BLOCK = 16_384
_BYTES_A_BLOCK = 32 << 20
_LARGEST_BLOCK = 1 << 30
"""Bytes of large records that a block may have; it has more for one such record alone."""
_LARGE = 4_096
"""Bytes from which on a record counts towards a block's; a block of smaller ones is full before."""
Columns = tuple[list[str], list[bytes], list[bytes | None]]
"""Family, key and value of each record of a block."""


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("family", pa.string()), ("key", pa.binary()), ("value", pa.binary())])


class ChangelogWriter:
    """Collects a batch's writes; the file comes into being with the first block."""

    def __init__(self, directory: Path, version: int) -> None:
        self._directory = directory
        self._version = version
        self._file: DurableFile | None = None
        self._stream: Any = None
        self._families: list[bytes] = []
        self._keys: list[bytes] = []
        self._values: list[bytes | None] = []
        self._large = 0
        self.records = 0

    def add(self, family: str, key: bytes, value: bytes | None) -> None:
        """Record that ``key`` of ``family`` now has ``value``, or none."""
        self.adding(family)(key, value)

    def adding(self, family: str) -> Callable[[bytes, bytes | None], None]:
        """`add` for one family: called for every write, so as short as it can be."""
        name, keys = family.encode(), self._keys
        add_family, add_key = self._families.append, self._keys.append
        add_value = self._values.append

        def add(key: bytes, value: bytes | None) -> None:
            add_family(name)
            add_key(key)
            add_value(value)
            if value is not None and len(value) >= _LARGE:
                self._large += len(value)
            if len(key) >= _LARGE:
                self._large += len(key)
            if len(keys) >= _ROWS_A_BLOCK or self._large >= _BYTES_A_BLOCK:
                self._write_block()

        return add

    def add_many(self, family: str, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """`add` for several keys."""
        size = _large(keys) + _large([each for each in values if each])
        if size >= _BYTES_A_BLOCK:
            add = self.adding(family)
            for key, value in zip(keys, values, strict=True):
                add(key, value)
            return
        self._families += [family.encode()] * len(keys)
        self._keys += keys
        self._values += values
        self._large += size
        if len(self._keys) >= _ROWS_A_BLOCK or self._large >= _BYTES_A_BLOCK:
            self._write_block()

    @property
    def pending(self) -> int:
        """The records of the file to be published so far, those in it and those not yet."""
        return len(self._keys) + (0 if self._file is None else self.records)

    def publish(self) -> FileReference | None:
        """Make the changelog durable; None when nothing was recorded. What follows is another."""
        self._write_block()
        if self._file is None:
            return None
        self._stream.close()
        published = self._file.publish()
        self._file = None
        return published

    def abandon(self) -> None:
        """Leave nothing behind."""
        if self._file is not None:
            self._file.abandon()

    def _write_block(self) -> None:
        import pyarrow as pa

        if not self._keys:
            return
        if self._large >= _LARGEST_BLOCK:
            raise _too_large(self._families[-1].decode(), self._keys[-1], self._values[-1])
        schema = _schema()
        columns: tuple[list[Any], ...] = (self._families, self._keys, self._values)
        arrays = [column_of(each, field.type) for each, field in zip(columns, schema, strict=True)]
        block = pa.RecordBatch.from_arrays(arrays, schema=schema)
        with unwritable(self._directory):
            self._open().write_batch(block)
        self.records += len(self._keys)
        # Cleared, not replaced: whoever adds holds on to these lists.
        for each in columns:
            each.clear()
        self._large = 0

    def _open(self) -> Any:
        import pyarrow as pa

        if self._file is None:
            self._file = DurableFile(self._directory / file_name(self._version, "changelog"))
            self.records = 0
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            sink = pa.PythonFile(self._file.stream, mode="w")
            self._stream = pa.ipc.new_stream(sink, _schema(), options=options)
        return self._stream


def _too_large(family: str, key: bytes, value: bytes | None) -> StorageError:
    return StorageError(
        "SM-EMBEDDED-012",
        f"a value of {family} is larger than one may be",
        expected=f"key and value of less than {_LARGEST_BLOCK - _BYTES_A_BLOCK:,} bytes",
        found=f"{len(key) + len(value or b''):,} bytes",
        next_action="keep it in pieces: a map with a running number for its key; nothing of this "
        "batch was written",
        family=family,
    )


def _large(data: Iterable[bytes]) -> int:
    if max(map(len, data), default=0) < _LARGE:
        return 0
    return sum([size for size in map(len, data) if size >= _LARGE])


def column_of(values: Sequence[bytes | None], data_type: Any) -> Any:
    """An array of bytes or of encoded strings; none of them may be larger than a block.

    Made of its buffers: Arrow converts value by value, and imports pandas before the first one.
    """
    import numpy as np
    import pyarrow as pa

    if None not in values:
        validity, held = None, cast("Sequence[bytes]", values)
    else:
        # The lowest bit is the first value's.
        text = "".join(["0" if value is None else "1" for value in reversed(values)])
        validity = pa.py_buffer(int(text, 2).to_bytes((len(values) + 7) // 8, "little"))
        held = [b"" if value is None else value for value in values]
    offsets = np.zeros(len(held) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, held), np.int32, len(held)), out=offsets[1:])
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(b"".join(held))]
    return pa.Array.from_buffers(data_type, len(values), buffers)


def runs_of(block: Columns) -> Iterator[Run]:
    """The records of a block, one family after the other, in their order."""
    families, keys, values = block
    if families and families.count(families[0]) == len(families):
        yield families[0], keys, values
        return
    start = 0
    for family, same in groupby(families):
        end = start + sum(1 for _ in same)
        yield family, keys[start:end], values[start:end]
        start = end


def read_changelog(
    path: Path, reference: FileReference
) -> Iterator[tuple[str, bytes, bytes | None]]:
    """The records of a changelog, in order; see `read_blocks`."""
    for columns in read_blocks(path, reference):
        yield from zip(*columns, strict=True)


def read_blocks(path: Path, reference: FileReference) -> Iterator[Columns]:
    """The blocks of a changelog, in order; each is checked in full before it is handed out.

    Checksums do not help against who can write the file that holds them. Raises `CorruptFileError`.
    """
    verify(path, reference)
    try:
        with confined(path).open() as file:
            yield from _blocks(file, reference.size)
    except ValueError as error:
        raise CorruptFileError(
            "SM-EMBEDDED-013",
            f"{path} is not a changelog",
            expected="an Arrow IPC stream of family, key and value",
            found=str(error),
            next_action=RESTORE_COPY,
            path=str(path),
        ) from error


def _blocks(file: IO[bytes], size: int) -> Iterator[Columns]:
    stream = messages(file, size)
    first = next(stream, None)
    if first is None or first.kind != SCHEMA:
        raise ValueError("no schema")
    _check_schema(first.data)
    for message in stream:
        if message.kind != RECORD_BATCH:
            raise ValueError(f"a message of kind {message.kind}")
        check_buffers(message)
        yield _columns(message.data)


def _check_schema(data: bytes) -> None:
    import pyarrow as pa

    with _understood():
        found = pa.ipc.read_schema(pa.py_buffer(data))
    if found != _schema():
        raise ValueError(f"another schema: {str(found)[:200]}")


def _columns(data: bytes) -> Columns:
    import pyarrow as pa

    with _understood():
        block = pa.ipc.read_record_batch(pa.py_buffer(data), _schema())
        # Arrow itself trusts the offsets of a block; a wrong one shows the memory around it.
        block.validate(full=True)
    if block.column(0).null_count or block.column(1).null_count:
        raise ValueError("a record without family or key")
    families, keys, values = (column.to_pylist() for column in block.columns)
    if "" in families:
        for family, key in zip(families, keys, strict=True):
            # Its name is its key.
            if not family and not key.decode():
                raise ValueError("a family dropped that has no name")
    return families, keys, values


@contextmanager
def _understood() -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        # Arrow says OSError of bytes in memory too.
        raise ValueError(str(error)) from error
