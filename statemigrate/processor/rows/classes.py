"""PySpark's Row with the names of its columns in the class, not in each row.

A column is found by its name in a third of the time, by attribute in a tenth, and a row is made in
half of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Row

_value_at = tuple.__getitem__


def row_class(names: Sequence[str]) -> type[Row]:
    """A Row for columns of these names; pickled or copied, its rows are plain Rows.

    A row is made by ``tuple.__new__`` of it and of as many values. What there is no column for
    raises as it does of a plain Row.
    """
    # Of several columns of one name PySpark gives the first, and a method before any column.
    first: dict[Any, int] = {name: at for at, name in reversed(list(enumerate(names)))}
    columns = {name: _column(at) for name, at in first.items() if not hasattr(Row, name)}
    own = {"__fields__": Row(*names), "__getitem__": _getter(first), "__module__": Row.__module__}
    return type("Row", (Row,), {**columns, **own})


def _column(at: int) -> property:
    return property(lambda row: _value_at(row, at))


def _getter(places: dict[Any, int]) -> Callable[[Any, Any], Any]:
    plain = Row.__getitem__

    def get(row: Any, item: Any) -> Any:
        if type(item) is int:
            return _value_at(row, item)
        try:
            return _value_at(row, places[item])
        except (KeyError, TypeError):
            return plain(row, item)

    return get
