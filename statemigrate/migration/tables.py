"""Entries as Arrow tables: the form of a script that is run on many of them at once.

No pyarrow is imported here: whoever has a table has it loaded.
"""

from __future__ import annotations

from typing import Any

from statemigrate.errors import TransformError
from statemigrate.formats.arrow_values import plain_values
from statemigrate.migration.step import Step

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
