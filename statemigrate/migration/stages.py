"""The stages of a path in a rewrite: on entries, on tables, and where keys collide.

What a rewrite runs of a path: on entries or tables, as far as to where entries may meet.

A script that changes keys, or says how to merge, sees entries that earlier scripts have merged. So
a path is run in stages, and between two of them entries are brought together by key.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from statemigrate.errors import TransformError, ValueMismatchError, shown, values_hidden
from statemigrate.formats import Format, Value, plain_values
from statemigrate.migration.migration import Rekey
from statemigrate.migration.path import MigrationPath, Step

# The entries that one becomes where a script changes keys.


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


# Entries as Arrow tables: the form of a script that is run on many of them at once.
#
# No pyarrow is imported here: a caller with a table has loaded it.


COLUMNS = ["key", "value"]
"""The columns of such a table, both structs without nulls."""


def upgraded_table(step: Step, table: Any) -> Any:
    """What the script's ``upgrade_table`` makes of a table.

    Raises TransformError for what it raises, and for a result that is not a table of entries, that
    lacks fields of the format, or has other keys or rows where the script does not change keys.
    """
    assert step.table is not None, "stages are made of steps of one form"  # noqa: S101
    try:
        result = step.table(table)
    except Exception as cause:
        raise step.failure("SM-TRANSFORM-010", "raised", cause, "upgrade_table") from cause
    _check_columns(step, result)
    _check_fields(step, result)
    if step.key is None and not _has_same_keys(table, result):
        raise _wrong("SM-TRANSFORM-011", step, "changed keys",
                     "the same keys in the same order, or a `new_key`",
                     f"{table.num_rows} rows in, {result.num_rows} out")  # fmt: skip
    return result.select(COLUMNS)


def _check_columns(step: Step, table: Any) -> None:
    expected = "a pyarrow.Table with the columns `key` and `value`, structs without nulls"
    names = getattr(table, "column_names", None)
    if names is None:
        found = "None; is a `return` missing?" if table is None else type(table).__name__
        raise _wrong("SM-TRANSFORM-012", step, "returned no table", expected, found)
    if sorted(names) != COLUMNS:
        raise _wrong(
            "SM-TRANSFORM-013",
            step,
            "returned other columns",
            expected,
            ", ".join(names) or "no column",
        )
    for name in COLUMNS:
        if not str(table.schema.field(name).type).startswith("struct<"):
            raise _wrong("SM-TRANSFORM-014", step,
                         f"returned a `{name}` that is no struct", expected,
                         str(table.schema.field(name).type))  # fmt: skip
        if table[name].null_count:
            raise _wrong("SM-TRANSFORM-015", step, f"returned rows without a `{name}`", expected,
                         f"{table[name].null_count} nulls")  # fmt: skip


def _check_fields(step: Step, table: Any) -> None:
    formats = {"value": step.format, "key": step.key}
    for name, format in formats.items():
        found = [field.name for field in table.schema.field(name).type]
        if format is not None and found != (wanted := [f.name for f in format.schema.fields]):
            problem = f"returned a `{name}` with other fields than `new{'_key' * (name == 'key')}`"
            raise _wrong(
                "SM-TRANSFORM-016", step, problem, ", ".join(wanted), ", ".join(found) or "no field"
            )


def _has_same_keys(before: Any, after: Any) -> bool:
    one, other = before["key"], after["key"]
    if len(one) != len(other) or one.type != other.type:
        return False
    # A NaN equals nothing, in Arrow either; as text it does.
    return one.equals(other) or repr(_plain(one)) == repr(_plain(other))


def _plain(column: Any) -> list[Any]:
    return [each for chunk in column.chunks for each in plain_values(chunk)]


def _wrong(code: str, step: Step, problem: str, expected: str, found: str) -> TransformError:
    return step.error(code, problem, expected, found, "upgrade_table")


_AGAIN = "and rewrite again; no checkpoint was written"


@dataclass(frozen=True)
class Stage:
    """Scripts that are run one after the other on an entry, or on a table of them.

    Only the last of them may change keys or merge. A stage holds everything it needs; pickled with
    cloudpickle it runs where the scripts are not. Either all of its scripts are run ``on_tables``,
    by `table`, or all on plain values, by `entries`.
    """

    steps: tuple[Step, ...]
    on_tables: bool = False

    @property
    def source(self) -> str:
        """The revision of the entries it takes."""
        return self.steps[0].source

    @property
    def target(self) -> str:
        """The revision of the entries it gives."""
        return self.steps[-1].target

    @property
    def value(self) -> Format:
        """The format of the values it gives."""
        return self.steps[-1].format

    @property
    def key(self) -> Format | None:
        """The format of the keys it gives; None where keys stay as they are."""
        return self.steps[-1].key

    @property
    def merges(self) -> bool:
        """Whether its script says what becomes of entries that meet under one key."""
        return self.steps[-1].merge is not None

    def entries(self, key: Value, value: Value) -> list[Entry]:
        """The entries that one becomes: plain keys and values by field name, as formats have them.

        ``value`` may be changed. Raises TransformError with the store, the key and the revisions
        for what raises, and for keys and values that do not fit.
        """
        try:
            for step in self.steps[:-1]:
                value = step.conformed(step.run(value, key))
            return self._last(key, value)
        except TransformError as error:
            raise _to_rewrite(error.at(key), error) from error.__cause__

    def merge(self, key: Value, first: Value, second: Value) -> Value:
        """The one value of two that meet under ``key``; the first may be changed.

        Raises TransformError, which shows both, where the script does not say what becomes of them,
        and for what its ``merge`` raises or returns.
        """
        step = self.steps[-1]
        if step.merge is None:
            raise _met(step, key, first, second)
        try:
            result = _merged(step, first, second)
        except TransformError as error:
            raise _to_rewrite(error.at(key), error) from error.__cause__
        return result

    def table(self, table: Any) -> Any:
        """What a ``pyarrow.Table`` of the structs ``key`` and ``value`` becomes; the same columns.

        Their types are those the functions gave: the writer converts them, and refuses
        what does not fit. Raises TransformError for what raises, and for tables of another shape.
        """
        for step in self.steps:
            try:
                table = upgraded_table(step, table)
            except TransformError as error:
                raise _to_rewrite(error, error) from error.__cause__
        return table

    def _last(self, key: Value, value: Value) -> list[Entry]:
        step = self.steps[-1]
        if step.rekey is None or step.key is None:
            return [(key, step.conformed(step.run(value, key)))]
        return rekeyed(step, step.rekey, step.key, key, value)


def stages_of(path: MigrationPath, *, prefer_tables: bool = True) -> tuple[Stage, ...]:
    """The stages of a path; none for a path without steps.

    Without ``prefer_tables`` the form for plain values is taken where a script has both.
    """
    found = []
    for is_table, steps in groupby(path.steps, lambda step: _on_tables(step, prefer_tables)):
        found += [Stage(part, is_table) for part in _parted(tuple(steps))]
    return tuple(found)


def _on_tables(step: Step, preferred: bool) -> bool:
    return step.table is not None and (preferred or step.transform is None)


def _parted(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    begun = 0
    for end, step in enumerate(steps, 1):
        if step.key is not None or step.merge is not None or end == len(steps):
            yield steps[begun:end]
            begun = end


def _merged(step: Step, first: Value, second: Value) -> Value:
    assert step.merge is not None, "asked before"  # noqa: S101
    try:
        result = step.merge(first, second)
    except Exception as cause:
        raise step.failure("SM-TRANSFORM-005", "raised", cause, "merge") from cause
    if not isinstance(result, dict):
        raise step.no_dict(result, "merge")
    return step.conformed(result)


def _met(step: Step, key: Value, first: Value, second: Value) -> TransformError:
    error = step.error(
        "SM-TRANSFORM-006",
        "brings two entries to one key, and no `merge` says what becomes of them",
        "a function merge(first, second) in the script, or other keys",
        f"{shown(first)} and {shown(second)}",
        "rekey" if step.key is not None else "transform",
    )
    examples = {} if values_hidden() else {"first": first, "second": second}
    met = error.but(
        next_action=f"write `merge` in {step.script or 'the script'}, or a `rekey` that keeps them "
        f"apart, {_AGAIN}",
        **examples,
    )
    return met.at(key)


def _to_rewrite(error: TransformError, of: TransformError) -> TransformError:
    action = (of.next_action or "").partition(", and restart the query")[0]
    return error.but(next_action=f"{action}, {_AGAIN}")
