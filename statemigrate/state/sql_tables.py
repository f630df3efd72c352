"""The tables of a state in DuckDB, which can open nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from statemigrate.errors import MissingPackageError, StatemigrateError

if TYPE_CHECKING:
    import pyarrow as pa

_READING = ("SELECT", "EXPLAIN", "RELATION")


class SqlError(StatemigrateError):
    """A statement that does not only read, or that DuckDB refuses. Data: ``statement``."""


class Scanned(Protocol):
    """A table of which some columns can be read without the others."""

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""

    def scanned(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows, with some columns or all."""


Tables = Mapping[str, Scanned]
"""Tables by their names."""


def connected(tables: Tables, schemas: Mapping[str, Tables] | None = None) -> Any:
    """A connection with ``tables``, and with those of each of ``schemas`` in a schema of its name.

    It reaches no file and no address, and its settings are locked. Raises `MissingPackageError`,
    and what finding a table's columns raises.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingPackageError(
            "SM-PACKAGES-007",
            "DuckDB is not installed, which this needs",
            expected="duckdb 1.2 or newer",
            found="a Python without it",
            next_action="pip install 'statemigrate[sql]'",
            package="duckdb",
        ) from error
    connection = duckdb.connect(":memory:")
    for name, table in tables.items():
        connection.register(name, _dataset(table))
    for schema, own in (schemas or {}).items():
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_named(schema)}")
        for name, table in own.items():
            source = f"{schema}.{name}"
            connection.register(source, _dataset(table))
            view = f"{_named(schema)}.{_named(name)}"
            connection.execute(f"CREATE VIEW {view} AS FROM {_named(source)}")
    for setting in (
        "SET python_enable_replacements = false",
        "SET autoinstall_known_extensions = false",
        "SET autoload_known_extensions = false",
        "SET enable_external_access = false",
        "SET TimeZone = 'UTC'",
        "SET lock_configuration = true",
    ):
        connection.execute(setting)
    return connection


def select(tables: Tables, query: str, schemas: Mapping[str, Tables] | None = None) -> Any:
    """The rows that one statement of SQL selects, as a table of Arrow.

    The parameters are those of `connected`.

    Raises `SqlError` for several statements, one that writes, and what DuckDB refuses.
    """
    connection = connected(tables, schemas)
    names = [
        *tables,
        *(
            f"{_named(each)}.{_named(name)}"
            for each in schemas or {}
            for name in (schemas or {})[each]
        ),
    ]
    import duckdb

    try:
        statements = connection.extract_statements(query)
        kinds = [each.type.name for each in statements]
        if len(statements) != 1 or kinds[0] not in _READING:
            raise _not_reading(query, kinds)
        return connection.sql(query).to_arrow_table()
    except duckdb.Error as error:
        raise SqlError(
            "SM-SQL-002",
            "DuckDB refuses the statement",
            expected=f"SQL over the tables {', '.join(names)}",
            found=str(error).strip(),
            next_action="correct the statement; names that are no words take double quotes, as in "
            'select * from "aggregation-0"',
            statement=query,
        ) from error
    finally:
        connection.close()


def _dataset(table: Scanned) -> Any:
    """A table as a dataset of Arrow's: DuckDB asks such a one for the columns that it needs."""
    import pyarrow as pa
    import pyarrow.dataset

    # Asked for here: of what it raises DuckDB would hand on the text alone.
    every = table.schema

    class Scan:
        """The rows that DuckDB wants, which it reads as a stream."""

        def __init__(self, schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> None:
            self.projected_schema, self._rows = schema, rows

        def to_reader(self) -> pa.RecordBatchReader:
            return pa.RecordBatchReader.from_batches(self.projected_schema, self._rows)

    class Dataset(pa.dataset.Dataset):  # type: ignore[misc]
        def __init__(self) -> None:
            """Set up nothing: Arrow refuses to make a dataset of no kind of its own."""

        @property
        def schema(self) -> pa.Schema:
            return every

        def scanner(
            self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any
        ) -> Scan:
            names = every.names if columns is None else list(columns)
            needed = [] if filter is None else _columns_in(filter, every)
            read = [*names, *(each for each in needed if each not in names)]

            def rows() -> Iterator[pa.RecordBatch]:
                for batch in table.scanned(read):
                    yield (batch if filter is None else batch.filter(filter)).select(names)

            return Scan(pa.schema([every.field(name) for name in names]), rows())

    return Dataset()


def _columns_in(condition: Any, schema: pa.Schema) -> list[str]:
    """The columns that a condition of Arrow's is about: those without which it has no meaning."""
    import pyarrow as pa

    found = []
    for name in schema.names:
        others = pa.schema([each for each in schema if each.name != name])
        try:
            others.empty_table().filter(condition)
        except pa.ArrowInvalid:
            found.append(name)
    return found


def _named(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def _not_reading(query: str, kinds: list[str]) -> SqlError:
    return SqlError(
        "SM-SQL-001",
        "state is read with SQL, and never written",
        expected="one SELECT statement",
        found=", ".join(kinds) or "no statement",
        next_action="select what you want to see",
        statement=query,
    )
