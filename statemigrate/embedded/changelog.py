"""Changelogs: what one batch changed in one partition, as an Arrow IPC stream.

Columns: ``family`` (the family's name), ``key``, ``value`` (null for a delete), in the order of
the writes; a record of the family named "" drops the family its key names. The file grows with what
changed, not with the state. Its checksum is kept by the manifest that refers to it. A block is
bounded in records and in bytes, so that neither writing nor reading takes memory for more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO, Any, cast

from statemigrate.embedded.database import Run
from statemigrate.embedded.durable import DurableFile, FileReference, confined, unwritable, verify
from statemigrate.embedded.layout import file_name
from statemigrate.errors import CorruptFileError, StorageError
from statemigrate.files import RESTORE_COPY

# The messages of an Arrow IPC stream, each taken apart and measured before Arrow acts on it.
#
# Arrow believes the sizes that a message states: it asks for that memory, and finds out later that
# the bytes are not there. The layout is that of Arrow's ``Message.fbs``, a FlatBuffers document.


_CONTINUATION = 0xFFFFFFFF
_LARGEST_HEADER = 1 << 16
SCHEMA, RECORD_BATCH = 1, 3
_STORED_AS_IT_IS = -1
_LZ4, _BUFFER_BY_BUFFER = 0, 0
_HIGHEST_RATIO = 255
"""Output bytes that a byte of LZ4 can make, by its format."""


@dataclass(frozen=True)
class Message:
    """One message: its kind, all of its bytes, and where its header and its body begin in them."""

    kind: int
    data: bytes
    header: int
    body: int


def messages(file: IO[bytes], size: int) -> Iterator[Message]:
    """The messages of a stream of ``size`` bytes, up to its end mark.

    No more is read or allocated than the file has. Raises ValueError for what is no such stream.
    """
    left = size
    while True:
        prefix = file.read(8)
        left -= len(prefix)
        if len(prefix) < 8:
            raise ValueError("the stream ends without its end mark")
        mark, length = struct.unpack("<Ii", prefix)
        if mark != _CONTINUATION or not 0 <= length <= min(left, _LARGEST_HEADER):
            raise ValueError(f"a message header of {length} bytes")
        if length == 0:
            break
        message = _read(file, prefix, length, left)
        left -= len(message.data) - len(prefix)
        yield message
    if left:
        raise ValueError(f"{left} bytes after the end mark")


def check_buffers(message: Message) -> None:
    """Raise ValueError unless each buffer lies in the body and unpacks to no more than it can."""
    try:
        batch = _Table(message.data, message.header)
        body = len(message.data) - message.body
        compressed = batch.table(3)
        if compressed is not None and (compressed.byte(0), compressed.byte(1)) != (
            _LZ4,
            _BUFFER_BY_BUFFER,
        ):
            raise ValueError("a compression other than LZ4")
        for offset, length in batch.pairs(2):
            if not (0 <= offset <= body and 0 <= length <= body - offset):
                raise ValueError(f"a buffer of {length} bytes at {offset}, in {body} bytes")
            if compressed is not None and length:
                _check_ratio(message, offset, length)
    except struct.error as error:
        raise ValueError(f"a header that leads out of itself: {error}") from error


def _check_ratio(message: Message, offset: int, length: int) -> None:
    (stated,) = struct.unpack_from("<q", message.data, message.body + offset)
    stored = length - 8
    if stated != _STORED_AS_IT_IS and not 0 <= stated <= stored * _HIGHEST_RATIO:
        raise ValueError(f"{stored} bytes that state to be {stated}")


def _read(file: IO[bytes], prefix: bytes, length: int, left: int) -> Message:
    header = file.read(length)
    data = prefix + header
    try:
        (root,) = struct.unpack_from("<I", data, len(prefix))
        table = _Table(data, len(prefix) + root)
        kind, body = table.byte(1), table.long(3)
        at = table.follow(2)
    except struct.error as error:
        raise ValueError(f"a header that leads out of itself: {error}") from error
    if not 0 <= body <= left - length or at is None:
        raise ValueError(f"a message of {body} bytes, where {left - length} are left")
    return Message(kind, data + file.read(body), at, len(data))


class _Table:
    """A FlatBuffers table: fields by number, each at an offset or not there."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        (back,) = struct.unpack_from("<i", data, at)
        self._fields = self._checked(at - back)
        (self._size,) = struct.unpack_from("<H", data, self._fields)

    def byte(self, field: int) -> int:
        return self._number(field, "<b")

    def long(self, field: int) -> int:
        return self._number(field, "<q")

    def follow(self, field: int) -> int | None:
        """Where the field's own content is."""
        at = self._offset(field)
        return None if at is None else at + int(struct.unpack_from("<I", self._data, at)[0])

    def table(self, field: int) -> _Table | None:
        at = self.follow(field)
        return None if at is None else _Table(self._data, at)

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """A vector of two long numbers each."""
        at = self.follow(field)
        if at is None:
            return
        (number,) = struct.unpack_from("<I", self._data, at)
        for index in range(number):
            yield struct.unpack_from("<qq", self._data, at + 4 + 16 * index)

    def _number(self, field: int, form: str) -> int:
        at = self._offset(field)
        return 0 if at is None else int(struct.unpack_from(form, self._data, at)[0])

    def _offset(self, field: int) -> int | None:
        place = 4 + 2 * field
        if place + 2 > self._size:
            return None
        (offset,) = struct.unpack_from("<H", self._data, self._fields + place)
        return self._at + offset if offset else None

    def _checked(self, at: int) -> int:
        # A negative place would be counted from the end.
        if at < 0:
            raise struct.error(f"place {at}")
        return at


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
        # Cleared, not replaced: writers keep references to these lists.
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
