"""One partition's RocksDB database: opening, families, errors. The only importer of rocksdict.

The database is a disposable working copy, so its write-ahead log is off. What a crash leaves of it
is worth nothing: `proof` tells which copies may be believed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

from statemigrate.errors import CheckpointError, CheckpointInUseError

META = "(meta)"
"""The engine's own column family; no store can have this name."""
Run = tuple[str, Sequence[bytes], Sequence[bytes | None]]
"""Records of one family: their keys, and their values, None for a delete."""
_PREFIX = "family:"
_LOCKED = ("While lock file", "lock hold by current process")
_MEGABYTE = 1 << 20
_cache: Any = None


def _options() -> Any:
    from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options

    global _cache  # noqa: PLW0603 - one block cache a process bounds its memory
    if _cache is None:
        _cache = Cache(8 * _MEGABYTE)
    table = BlockBasedOptions()
    # Most probes of a source family miss once its keys are migrated; the filter answers those.
    table.set_bloom_filter(10, False)
    table.set_block_cache(_cache)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(8 * _MEGABYTE)
    options.set_skip_stats_update_on_db_open(True)
    options.set_keep_log_file_num(2)
    # For a few files, sixteen threads a column family take longer to start than to open them.
    options.set_max_file_opening_threads(1)
    return options


class Database:
    """An open database with one column family for each family, and one for `META`."""

    def __init__(self, path: Path) -> None:
        from rocksdict import Rdict, WriteOptions

        self.path = path
        self._on_close: list[Callable[[], None]] = []
        self._handles: dict[str, Any] = {}
        # The stub has a method here; the extension has a property.
        options: Any = WriteOptions()
        options.disable_wal = True
        self._write_options = options
        with translated(path):
            # Without its parents: a command that ends removes those under a task that still works.
            path.mkdir(exist_ok=True)
            known = Rdict.list_cf(str(path), _options()) if (path / "CURRENT").exists() else []
            names = {META, "default", *known}
            self._database = Rdict(
                str(path), _options(), column_families={name: _options() for name in names}
            )
            self._columns = {
                name.removeprefix(_PREFIX): self._column(name) for name in names - {"default"}
            }

    def _column(self, name: str) -> Any:
        column = self._database.get_column_family(name)
        column.set_write_options(self._write_options)
        return column

    @property
    def families(self) -> frozenset[str]:
        """The names of the families that exist here."""
        return frozenset(self._columns) - {META}

    def column(self, family: str) -> Any:
        """The column family of ``family``, created when it does not exist."""
        if family not in self._columns:
            with translated(self.path):
                self._database.create_column_family(_PREFIX + family, _options())
                self._columns[family] = self._column(_PREFIX + family)
        return self._columns[family]

    def write(self, runs: Iterable[Run]) -> None:
        """Write many records at once."""
        from rocksdict import WriteBatch

        with translated(self.path):
            batch = WriteBatch(raw_mode=True)
            put, delete, handles = batch.put, batch.delete, self._handles
            for family, keys, values in runs:
                if family not in handles:
                    handles[family] = self._handle(family)
                handle = handles[family]
                if None not in values and len(keys) == len(values):
                    # In a third less of the time than one by one.
                    deque(map(put, keys, values, repeat(handle)), maxlen=0)
                    continue
                if values.count(None) == len(keys) == len(values):
                    deque(map(delete, keys, repeat(handle)), maxlen=0)
                    continue
                for key, value in zip(keys, values, strict=True):
                    if value is None:
                        delete(key, handle)
                    else:
                        put(key, value, handle)
            self._database.write(batch, self._write_options)

    def _handle(self, family: str) -> Any:
        self.column(family)
        return self._database.get_column_family_handle(_stored_name(family))

    def drop(self, family: str) -> None:
        """Drop ``family`` with everything in it, on disk and at once."""
        self._handles.pop(family, None)
        if self._columns.pop(family, None) is not None:
            with translated(self.path):
                self._database.drop_column_family(_PREFIX + family)

    def copy_to(self, directory: Path) -> None:
        """Write a consistent copy: SST files as hard links, the few others as copies."""
        from rocksdict import Checkpoint

        with translated(self.path):
            Checkpoint(self._database).create_checkpoint(str(directory))

    def on_close(self, release: Callable[[], None]) -> None:
        """Call ``release`` once the files are released."""
        self._on_close.append(release)

    def flush(self) -> None:
        """Bring every family to disk. Raises `CheckpointError` where closing would keep silent."""
        with translated(self.path):
            for family in sorted(self._columns):
                self._columns[family].flush()

    def close(self, closed: Callable[[Path], None] = lambda _: None) -> None:
        """Close, let ``closed`` look at the files while nobody else can, and release them."""
        # RocksDB refuses to close while handles of column families are alive.
        self._columns, self._handles = {}, {}
        try:
            with translated(self.path):
                self._database.close()
            closed(self.path)
        finally:
            for release in self._on_close:
                release()


def _stored_name(family: str) -> str:
    return META if family == META else _PREFIX + family


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn rocksdict's bare exceptions into errors of this package."""
    try:
        yield
    except Exception as error:
        failure = _failure(error, path)
        if failure is None:
            raise
        raise failure from error


def named(call: Callable[..., Any], path: Path) -> Callable[..., Any]:
    """``call`` with its failures translated; called for every key, so as short as it can be."""

    def called(*arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            failure = _failure(error, path)
            if failure is None:
                raise
            raise failure from error

    return called


def _failure(error: Exception, path: Path) -> CheckpointError | None:
    """What a failure of RocksDB means to a user; None for an exception that is none of its."""
    # rocksdict has no types of its own for most failures: the reason is in the text alone.
    if type(error) is not Exception and not isinstance(error, OSError):
        return None
    text = str(error)
    if any(reason in text for reason in _LOCKED):
        return CheckpointInUseError(
            "SM-EMBEDDED-014",
            f"the working copy {path} is in use",
            expected="a directory no other process has open",
            found=text,
            next_action="stop the other query, or give this one a working_directory of its own",
            path=str(path),
        )
    return CheckpointError(
        "SM-EMBEDDED-015",
        f"RocksDB failed on the working copy {path}",
        found=text,
        next_action="check free space and permissions; the working copy may be removed while "
        "the query is stopped, it is restored from the checkpoint",
        path=str(path),
    )
