"""Columns of a state's table that are read without the others, and conditions on them in SQL."""

import re

import duckdb
import pyarrow as pa

MOST = 4
"""Columns that conditions are about; each reads the table again."""
UNCOMPARED = (pa.types.is_null, pa.types.is_map, pa.types.is_list, pa.types.is_struct)
"""Kinds of types whose values SQL does not compare with literals here."""


def check_each_column(table):
    """Each column read alone, and each with the partition, is that column of the whole table."""
    whole = table.to_arrow()
    for name in table.columns:
        alone = table.to_arrow([name])
        assert repr(alone[name].to_pylist()) == repr(whole[name].to_pylist()), name
    pair = ["_partition", table.columns[-6 if "_index" in table.columns else -5]]
    assert repr(table.to_arrow(pair).to_pylist()) == repr(whole.select(pair).to_pylist())


def check_conditions(state, name):
    """Conditions that DuckDB hands to the table choose the rows that it chooses by itself."""
    table = state[name]
    whole = table.to_arrow()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("arrow", whole)
        connection.execute("CREATE TABLE own AS FROM arrow")
        for column, last in list(zip(table.columns, reversed(table.columns), strict=True))[:MOST]:
            for condition in conditions(whole, column):
                expected = connection.sql(_select(last, "own", condition)).to_arrow_table()
                found = state.sql(_select(last, name, condition))
                assert repr(found.to_pylist()) == repr(expected.to_pylist()), condition


def _select(column, table, condition):
    chosen = f"SELECT {quoted(column)} AS it FROM {quoted(table)}"  # noqa: S608
    return f"{chosen} WHERE {condition} ORDER BY ALL"


def conditions(whole, column):
    """Conditions on a column, some with a value that it has."""
    yield f"{quoted(column)} IS NULL"
    yield f"{quoted(column)} IS NOT NULL"
    kind = whole.schema.field(column).type
    if any(is_kind(kind) for is_kind in UNCOMPARED) or not whole.num_rows:
        return
    value = next((each for each in whole[column].to_pylist() if each is not None), None)
    if isinstance(value, str) and not re.search(r"[\0]", value):
        literal = "'" + value.replace("'", "''") + "'"
        for operator in ("=", "<>", "<", ">="):
            yield f"{quoted(column)} {operator} {literal}"
        yield f"{quoted(column)} IN ({literal}, 'another')"
    elif isinstance(value, int | float) and abs(value) < 1e18:
        for operator in ("=", "<>", "<", ">="):
            yield f"{quoted(column)} {operator} {value!r}"
        yield f"{quoted(column)} BETWEEN {value!r} AND {value!r} OR {quoted(column)} IS NULL"


def quoted(name):
    return '"' + name.replace('"', '""') + '"'
