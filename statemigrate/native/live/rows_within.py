"""Rows within a state value, which PySpark before 4.2 cannot write.

It makes a Row of the generator over its elements, and fails to pickle that. A migrated variable
hands out and takes Rows from the first batch on, whatever the version; code that relies on it must
not stop when the migration is over and Spark's own variable takes the place of dual access.
"""

from __future__ import annotations

from typing import Any

from statemigrate.native.spark_state.versions import release_line

_FIRST = (4, 2)
_WRITES = frozenset({"update", "put", "appendValue", "appendList", "updateValue"})


def taking_rows(state: Any, version: str) -> Any:
    """``state``, a variable of that version of PySpark, so that its values may hold Rows."""
    return state if release_line(version) >= _FIRST else _TakingRows(state)


class _TakingRows:
    """Everything is the variable's own, but what is written has tuples for Rows."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._state, name)
        if name not in _WRITES:
            return method
        return lambda *values, **named: method(*without_rows(list(values)), **without_rows(named))


def without_rows(value: Any) -> Any:
    """``value`` with a plain tuple for every tuple of another class, at any depth."""
    if isinstance(value, tuple):
        return tuple(without_rows(each) for each in value)
    if isinstance(value, list):
        return [without_rows(each) for each in value]
    if isinstance(value, dict):
        return {key: without_rows(each) for key, each in value.items()}
    return value
