"""State as tables: the stores of a checkpoint at any batch that is there, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from statemigrate.errors import (
    CheckpointError,
    CorruptFileError,
    MissingPackageError,
    StatemigrateError,
    ValueMismatchError,
    require_word,
    rows_hidden,
    shown,
)
from statemigrate.files import Remembered, files_to_read
from statemigrate.formats import Mask, NamedColumn, columns_in, plain_rows
from statemigrate.native import is_missing
from statemigrate.quoting import html_text
from statemigrate.state.open import engine_of, require_scripted
from statemigrate.state.project import Project
from statemigrate.state.protocol import Entry
from statemigrate.state.sql_tables import SqlError
from statemigrate.state.table_changes import StoreAt, changes_between, life_of, rows_between
from statemigrate.state.table_columns import TableColumns
from statemigrate.state.table_spark import SparkCatalog
from statemigrate.state.table_stores import Catalog, StoreRows
from statemigrate.state.target_entries import StoreEntries, keys_from_texts

if TYPE_CHECKING:
    import pyarrow as pa

    from statemigrate.native import Spark

T = TypeVar("T")
ReadOnError = Literal["raise", "null"]
"""What becomes of a value that does not migrate."""
_SHOWN = 20
"""Rows that a notebook shows."""
_IN_BATCH = 50_000
"""Rows of a difference that are given at once."""


def open_state(  # noqa: PLR0913 - all but one by name
    checkpoint: str | Path,
    *,
    batch: int | None = None,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    mask: Sequence[str] = (),
    on_error: ReadOnError = "raise",
    spark: Spark = None,
) -> StateTables:
    """The state of a checkpoint as tables, read from its files without Spark.

    It is the state of the last committed batch, or of a committed ``batch`` that is still there.
    The query may be running. A store is a table with the columns of its keys and values, and with
    those that begin with an underscore: ``_partition``, ``_revision``, ``_expires_at``, ``_batch``,
    and ``_index`` where a key has several rows. Values are in the format of the store's target, by
    the scripts in ``migrations``; without scripts they are as they are stored. ``mask`` names
    columns that have a hash in place of each value, as a column does in which a field has such a
    name; ``orders.customer`` is a column of one store alone. ``targets`` names, by store, the
    revision to read in, the head by default; ``accept_edited`` names scripts that were edited after
    they were applied, which `StateTable.entries` refuses otherwise. ``operator`` is the number or
    name of the operator, if there are several, and ``stores`` has the project's names for the
    stores of operators, as in ``{"orders": "aggregation-0"}``. A value that does not migrate raises
    `TransformError` when its row is read. With ``on_error="null"`` it is null in the columns of
    values instead, and the columns ``_error`` and ``_stored`` have the reason and the stored value
    as JSON. ``spark`` is for a checkpoint on a remote file system: a session, or a function that
    makes one. A copy of the embedded engine's state goes with the tables, or at the end of a
    ``with`` block.

    Raises `CheckpointError` for what is no checkpoint, a batch that is not there, and a name in
    ``mask`` that no column has.
    """
    project = Project(
        migrations, dict(targets or {}), stores or {}, spark, operator, tuple(accept_edited)
    )
    state = StateTables(str(checkpoint), project, batch, Mask.of(mask), on_error)
    require_masked(state)
    return state


class StateTables:
    """The stores of a checkpoint at a ``batch``, by name; see `open_state`."""

    def __init__(
        self,
        checkpoint: str,
        project: Project,
        batch: int | None,
        mask: Mask,
        on_error: ReadOnError = "raise",
    ) -> None:
        require_word("on_error", on_error, get_args(ReadOnError))
        self.checkpoint, self.on_error = checkpoint, on_error
        self._project = project
        self._chosen = batch
        self._mask = mask
        if project.survey is not None:
            require_scripted(project.targets, project.survey.lineages)
        self._catalog = self.catalog_at(batch)
        self.failure: Exception | None = None
        """What reading rows raised for somebody who could not hand it on, such as DuckDB."""

    def __enter__(self) -> StateTables:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what reading has copied."""
        self._catalog.close()

    @property
    def engine(self) -> str:
        """The kind of state: "embedded", "native", or "paged"."""
        return self._catalog.state.engine

    @property
    def batch(self) -> int:
        """The batch whose state it is."""
        return self._catalog.batch

    @property
    def batches(self) -> tuple[int, ...]:
        """The committed batches whose state may still be there, the oldest first."""
        return self._catalog.batches

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of the stores."""
        return self._catalog.stores

    @property
    def internal(self) -> tuple[str, ...]:
        """The names of what Spark keeps for itself, such as timers; each is a table too."""
        return self._catalog.internal

    def at(self, batch: int) -> StateTables:
        """The same at another batch. Raises `CheckpointError` where it is not there."""
        return StateTables(self.checkpoint, self._project, batch, self._mask, self.on_error)

    def duckdb(self) -> Any:
        """A connection of DuckDB in which each store is a table.

        It can open no file, and its settings are locked. Needs ``pip install statemigrate[sql]``.
        """
        from statemigrate.state.sql_tables import connected

        return connected(self.tables)

    def sql(self, query: str) -> pa.Table:
        """The rows that one SELECT gives, as a table of Arrow; each store is a table of its name.

        Raises `SqlError` for a statement that writes, or that DuckDB refuses.
        """
        return selected(query, self, {})

    @property
    def tables(self) -> dict[str, StateTable]:
        """All tables by their names, those that Spark keeps for itself too."""
        return {name: self[name] for name in (*self.stores, *self.internal)}

    def __getitem__(self, name: str) -> StateTable:
        """A store. Raises `CheckpointError` for a name that is none."""
        if name not in self._catalog.names:
            from statemigrate.state.protocol import no_such_store

            raise no_such_store(self.checkpoint, name, self.stores)
        return StateTable(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self._catalog.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.stores)

    def __len__(self) -> int:
        return len(self.stores)

    def __repr__(self) -> str:
        return f"<state of {self.checkpoint!r} at batch {self.batch}: {', '.join(self.stores)}>"

    def _repr_html_(self) -> str:
        rows = [[name, ", ".join(self[name].columns)] for name in self.stores]
        return _html(f"{self.checkpoint}, batch {self.batch}", ["store", "columns"], rows)

    def catalog_at(self, batch: int | None) -> Catalog:
        """What the checkpoint has at a batch, the newest for None."""
        if engine_of(self.checkpoint) == "embedded":
            from statemigrate.state.table_embedded import EmbeddedCatalog

            return EmbeddedCatalog(self.checkpoint, self._project, batch)
        given = self._project.spark
        # A remote file system starts a session by itself, if none is active.
        files = files_to_read(self.checkpoint, None if callable(given) else given)
        return SparkCatalog(Remembered(files), self._project, batch)

    def fields(self) -> Iterator[NamedColumn]:
        """All columns of all stores, in every format that has values, and the fields in them.

        Raises what `rows_of` raises, after the columns that can be known without it.
        """
        yield from self._catalog.fields()
        for name in self._catalog.names:
            rows = self.rows_of(name)
            for place in self._project.store_names(name):
                for kind in (rows.key, rows.user_key, rows.value):
                    yield from columns_in(kind, place)

    def rows_of(self, name: str) -> StoreRows:
        """The rows of a store. Raises `StartupError` where its scripts do not fit it."""
        return self._catalog.rows(name)

    def mask_of(self, name: str) -> Mask:
        """The columns of a store that have a hash in place of each value."""
        return self._mask.at(*self._project.store_names(name))

    @property
    def mask(self) -> Mask:
        """The columns that have a hash in place of each value."""
        return self._mask

    def entries_of(self, name: str) -> StoreEntries:
        """The entries of a store. Raises `StartupError` where its scripts do not fit it."""
        return StoreEntries.of(self._catalog.state, name, self._project)

    def read(self, name: str, look: Callable[[StoreRows], T]) -> T:
        """What ``look`` makes of a store's rows.

        It is called again at the newest batch where no batch was asked for and the running query
        has removed the one that was the newest.
        """
        try:
            return look(self.rows_of(name))
        except (FileNotFoundError, CorruptFileError) as error:
            if self._chosen is not None or not is_missing(error):
                raise
            newer = self.catalog_at(None)
            if newer.batch == self.batch:
                raise
            self._catalog = newer
            return look(self.rows_of(name))


class StateTable:
    """A store at a batch, as a table; see `open_state`."""

    def __init__(self, state: StateTables, name: str) -> None:
        self._state = state
        self.name = name

    @property
    def batch(self) -> int:
        """The batch whose state it is."""
        return self._state.batch

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types, as Arrow has them."""
        return self._columns.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.schema.names)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The names of the columns of a key."""
        return self._columns.key_names

    def at(self, batch: int) -> StateTable:
        """The same store at another batch. Raises `CheckpointError` where it is not there."""
        return self._state.at(batch)[self.name]

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, partition by partition and some thousands at a time.

        With ``columns``, names, the rows have these alone, and of Spark's own rows no other field
        of a value is decoded. Raises `ValueMismatchError` for a name of no column.
        """
        rows, layout = self._rows, self._columns
        if columns is not None:
            layout.schema_of(columns)
            rows = rows.reading(layout.fields_of(columns))
        for partition in range(rows.partitions):
            for part, found in rows.batches(partition):
                yield layout.batch(part, found, columns)

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows as a table of Arrow; ``columns`` as in `batches`."""
        import pyarrow as pa

        def look(_: StoreRows) -> pa.Table:
            schema = self.schema if columns is None else self._columns.schema_of(columns)
            return pa.Table.from_batches(list(self.batches(columns)), schema)

        return self._state.read(self.name, look)

    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """All rows as a frame of pandas; ``columns`` as in `batches`."""
        return self.to_arrow(columns).to_pandas(maps_as_pydicts="strict")

    def to_polars(self, columns: Sequence[str] | None = None) -> Any:
        """All rows as a frame of polars, which has to be installed; ``columns`` as in `batches`."""
        try:
            import polars
        except ImportError as error:
            raise MissingPackageError(
                "SM-PACKAGES-006",
                "polars is not installed, which this needs",
                expected="polars 1.20 or newer",
                found="a Python without it",
                next_action="pip install polars",
                package="polars",
            ) from error
        return polars.from_arrow(self.to_arrow(columns))

    def count(self) -> int:
        """How many rows there are."""
        return self._state.read(self.name, lambda rows: rows.count())

    def get(self, *key: Any) -> Any | None:
        """The value under a whole key, given column by column; None where there is none.

        A value is a dictionary by column; where a key has several rows, a list of them. One
        partition is read. Raises `ValueMismatchError` for a key of other types.
        """
        columns = self._columns
        if len(key) != len(columns.key_names):
            raise _key_width(columns.key_names, key)
        found = self.under(*key)
        values = [columns.value_of(row) for row in plain_rows(found)]
        if columns.has_several:
            return values or None
        return values[0] if values else None

    def entries(self, *key: Any) -> Iterator[Entry]:
        """Every key once, with its value, as a processor for the target would get it.

        A key is a tuple of the grouping columns' values, for map state followed by those of the
        map's key; with ``key`` only keys that begin with it are read. A value is a dictionary by
        field name, for list state a list of them. Masks do not count. Raises `StartupError` if
        scripts and state do not fit, `TransformError` for a value that does not migrate,
        `CorruptFileError` for a damaged checkpoint.
        """
        yield from self._state.entries_of(self.name).under(key or None)

    def under(self, *key: Any) -> pa.Table:
        """The rows whose keys begin with ``key``, given column by column, as a table of Arrow."""
        import pyarrow as pa

        columns = self._columns
        # A store without key columns has one key, which is empty.
        if not min(1, len(columns.key_names)) <= len(key) <= len(columns.key_names):
            raise _key_width(columns.key_names, key)
        wanted = columns.key_arrays(key)

        def look(rows: StoreRows) -> pa.Table:
            found = [columns.batch(part, batch) for part, batch in rows.under(wanted)]
            return columns.in_order(pa.Table.from_batches(found, self.schema))

        return self._state.read(self.name, look)

    def keys_from(self, words: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
        """The keys, or beginnings of keys, that ``words`` mean, texts as one types them.

        A word that is a JSON list may mean two. Raises `ValueMismatchError` for a text that is not
        of its column's type.
        """
        from pyspark.sql.types import StructType

        layout = self.layout
        fields = [*layout.key["fields"], *(layout.user_key or {"fields": []})["fields"]]
        return keys_from_texts(StructType.fromJson({"type": "struct", "fields": fields}), words)

    def changes(self, before: int, after: int | None = None) -> pa.Table:
        """What differs between two batches: a row for each key, or row of a key, that does.

        ``_change`` is "added", "removed" or "changed". The value columns are those at ``after``,
        this table's batch unless given, and ``_before`` has those at ``before``.
        """
        import pyarrow as pa

        before_it = self._state.at(before)[self.name]
        parts = compared(before_it, self if after is None else self._state.at(after)[self.name])
        return pa.concat_tables(parts).combine_chunks()

    def change_batches(self, before: int, after: int | None = None) -> Iterator[pa.RecordBatch]:
        """What `changes` gives, partition by partition: no more than one is in memory."""
        last = self if after is None else self._state.at(after)[self.name]
        for table in compared(self._state.at(before)[self.name], last):
            yield from table.to_batches(max_chunksize=_IN_BATCH)

    def history(self, *key: Any) -> pa.Table:
        """The life of a key over the batches that are there: a row for each change of its rows.

        ``_batch`` is the batch at which it was first found so, and ``_change`` is "first" for what
        the oldest batch has, else as in `changes`.
        """
        return life_of(self._columns, self._life(key))

    def _life(self, key: tuple[Any, ...]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """The rows of a key at each batch up to this one."""
        is_first = True
        for batch in self._state.batches:
            if batch > self.batch:
                return
            try:
                table = self.at(batch)
                found = plain_rows(table.under(*key))
            except (CheckpointError, FileNotFoundError) as error:
                # Spark has removed the oldest batches, or begun to; the others are all there.
                if is_first and is_missing(error) and batch != self.batch:
                    continue
                raise
            is_first = False
            yield batch, found

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for any reader of Arrow's streams; each call reads them from the start."""
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self.schema, self.scanned(None))
        return reader.__arrow_c_stream__(requested_schema)

    def scanned(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """As `batches`, for a reader that loses errors: what is raised is noted in the state."""
        try:
            yield from self.batches(columns)
        except Exception as error:
            self._state.failure = error
            raise

    def __repr__(self) -> str:
        return f"<table {self.name!r} at batch {self.batch}: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        title = f"{self.name}, batch {self.batch}"
        if rows_hidden():
            types = [[field.name, str(field.type)] for field in self.schema]
            return _html(f"{title}; values are hidden", ["column", "type"], types)
        rows: list[list[object]] = []
        for batch in self.batches():
            found = plain_rows(batch.slice(0, _SHOWN - len(rows)))
            rows += [list(each.values()) for each in found]
            if len(rows) == _SHOWN:
                break
        more = f", the first {_SHOWN} rows" if len(rows) == _SHOWN else ""
        return _html(f"{title}{more}", self.columns, rows)

    @property
    def side(self) -> StoreAt:
        """The store as one side of a comparison."""
        return StoreAt(self._state.checkpoint, self.name, self._rows, self._columns)

    @property
    def layout(self) -> TableColumns:
        """How rows become columns."""
        return self._columns

    @property
    def _rows(self) -> StoreRows:
        return self._state.rows_of(self.name)

    @cached_property
    def _columns(self) -> TableColumns:
        rows, state = self._rows, self._state
        shape = rows.key, rows.user_key, rows.value, rows.has_several
        mask = state.mask_of(self.name)
        return TableColumns(*shape, self.batch, mask, state.on_error == "null")


def require_masked(*states: StateTables) -> None:
    """Raise `CheckpointError` where a name of the first one's mask is a column of none of them.

    A column of the newest batch counts too, where another one was asked for. Nothing is raised
    where the columns of a store cannot be known.
    """
    mask = states[0].mask
    if not mask.names:
        return
    failed: list[StatemigrateError] = []
    try:
        mask.require_columns(_fields_of(states, failed))
    except CheckpointError:
        if not failed:
            raise


def _fields_of(
    states: Sequence[StateTables], failed: list[StatemigrateError]
) -> Iterator[NamedColumn]:
    for state in states:
        try:
            yield from state.fields()
            newest = state.batches[-1:]
            if newest and newest[0] != state.batch:
                yield from state.at(newest[0]).fields()
        except StatemigrateError as error:
            failed.append(error)


def selected(query: str, state: StateTables | None, named: Mapping[str, StateTables]) -> pa.Table:
    """The rows that one SELECT gives over the tables of a state, and of others in named schemas.

    Raises as `StateTables.sql`, and what reading the rows raised.
    """
    from statemigrate.state.sql_tables import select

    every = [*named.values(), *([] if state is None else [state])]
    for each in every:
        each.failure = None
    schemas = {name: each.tables for name, each in named.items()}
    try:
        return select({} if state is None else state.tables, query, schemas)
    except SqlError as error:
        for each in every:
            if each.failure is not None:
                raise each.failure from error
        raise


def compared(before: StateTable, after: StateTable, key: Sequence[Any] = ()) -> Iterator[pa.Table]:
    """What differs between two tables of a store, as `StateTable.changes` gives it, in parts.

    There is at least one. The tables may be of two checkpoints. Only keys that begin with ``key``
    count, where it is given.
    """
    if key:
        rows = [plain_rows(each.under(*key)) for each in (before, after)]
        yield rows_between(before.side, after.side, *rows)
    else:
        yield from changes_between(before.side, after.side)


def _html(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{html_text(each)}</th>" for each in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{html_text(_cell(each))}</td>' for each in row)}</tr>" for row in rows
    )
    return (
        f"<table><caption>{html_text(title)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else repr(value)


def _key_width(names: Sequence[str], key: Sequence[object]) -> ValueMismatchError:
    return ValueMismatchError(
        "SM-VALUE-012",
        f"a key of {len(names)} columns was given {len(key)} values",
        expected=f"{', '.join(names)}, in this order",
        found=shown(list(key)),
        next_action="give one value for each column; `under` takes the first ones alone",
        field="key",
    )
