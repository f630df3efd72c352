"""The tables of a state in DuckDB, which can open nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statemigrate.errors import MissingPackageError, StatemigrateError

_READING = ("SELECT", "EXPLAIN", "RELATION")


class SqlError(StatemigrateError):
    """A statement that does not only read, or that DuckDB refuses. Data: ``statement``."""


Tables = Mapping[str, Any]
"""Whatever gives a stream of Arrow, by the names of tables."""


def connected(tables: Tables, schemas: Mapping[str, Tables] | None = None) -> Any:
    """A connection with ``tables``, and with those of each of ``schemas`` in a schema of its name.

    It reaches no file and no address, and its settings are locked. Raises `MissingPackageError`.
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
        connection.register(name, table)
    for schema, own in (schemas or {}).items():
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_named(schema)}")
        for name, table in own.items():
            source = f"{schema}.{name}"
            connection.register(source, table)
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
