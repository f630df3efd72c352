"""The entries that one becomes where a script changes keys."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.formats import Format, Value
from statemigrate.migration.migration import Rekey
from statemigrate.migration.step import Step

Entry = tuple[Value, Value]
"""A key and a value, both plain and by field name."""


def rekeyed(step: Step, rekey: Rekey, new_key: Format, key: Value, value: Value) -> list[Entry]:
    """The entries that ``rekey`` makes of one, keys and values checked; ``value`` may be changed.

    Raises TransformError for what it raises, and for keys and values that do not fit.
    """
    items = _items(step, rekey, key, value)
    pairs = [item if isinstance(item, tuple) else (item, None) for item in items]
    upgraded = _upgraded(step, key, value, times=sum(held is None for _, held in pairs))
    return [
        (
            _conformed_key(step, new_key, each),
            upgraded.pop() if held is None else step.conformed(held),
        )
        for each, held in pairs
    ]


def _items(step: Step, rekey: Rekey, key: Value, value: Value) -> list[Any]:
    try:
        result = rekey(key, value)
        is_many = isinstance(result, Iterable) and not isinstance(result, dict | tuple | str)
        # A generator runs only here.
        items = list(result) if is_many else [result]
    except Exception as cause:
        raise step.failure("SM-TRANSFORM-002", "raised", cause, "rekey") from cause
    for item in items:
        if not (isinstance(item, dict) or (is_many and _is_entry(item))):
            raise _no_key(step, item)
    return items


def _is_entry(item: object) -> bool:
    return isinstance(item, tuple) and [type(part) for part in item] == [dict, dict]


def _no_key(step: Step, item: object) -> TransformError:
    return step.error(
        "SM-TRANSFORM-003",
        "gave what is no key",
        "a key as a dict, or an iterable of keys or of pairs (key, value); [] drops the entry",
        "None; is a `return` missing?" if item is None else type(item).__name__,
        "rekey",
    )


def _upgraded(step: Step, key: Value, value: Value, times: int) -> list[Value]:
    if not times:
        return []
    made = step.conformed(step.run(value, key))
    # Under several keys each has its own: what later scripts do with one must not show in another.
    return [made, *(deepcopy(made) for _ in range(times - 1))]


def _conformed_key(step: Step, new_key: Format, key: Value) -> Value:
    try:
        return {name: _grouped(part) for name, part in new_key.conform(key).items()}
    except ValueMismatchError as cause:
        raise step.failure(
            "SM-TRANSFORM-004", "gave a key that `new_key` cannot hold", cause, "rekey"
        ) from cause


def _grouped(part: Any) -> Any:
    """A part of a key as Spark groups by it, where -0.0 is 0.0 and any NaN the same."""
    if isinstance(part, float):
        return math.nan if math.isnan(part) else part + 0.0
    if isinstance(part, dict):
        return {name: _grouped(each) for name, each in part.items()}
    return [_grouped(each) for each in part] if isinstance(part, list) else part
