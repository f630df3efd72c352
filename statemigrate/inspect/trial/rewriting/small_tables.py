"""A script's form for tables, tried on one entry at a time."""

from __future__ import annotations

from typing import Any

from statemigrate.formats import Format, Struct, Value
from statemigrate.formats.arrow_values import array_of, plain_values
from statemigrate.formats.escaped_text import first_escaped
from statemigrate.migration import Entry, Step
from statemigrate.migration.tables import upgraded_table


def through_a_table(
    step: Step, old: Format, key_format: Format, key: Value, value: Value
) -> list[Entry]:
    """The entries that ``upgrade_table`` makes of a table with one row, conformed.

    Raises TransformError as the rewrite would.
    """
    import pyarrow as pa

    fields = {"key": _arrow(key_format), "value": _arrow(old)}
    columns = [
        array_of([_held(each, fields[name])], fields[name])
        for name, each in (("key", key), ("value", value))
    ]
    found = upgraded_table(step, pa.Table.from_arrays(columns, names=list(fields)))
    keys, values = (plain_values(found.column(name)) for name in ("key", "value"))
    pairs = zip(keys, values, strict=True)
    return [(_conformed(step, key), step.conformed(value)) for key, value in pairs]


def _conformed(step: Step, key: Value) -> Value:
    # A key that stays was compared, and text that is not UTF-8 is carried in columns alone.
    if step.key is None or first_escaped(key) is not None:
        return key
    return step.key.conform(key)


def _arrow(format: Format) -> Any:
    import pyarrow as pa

    from statemigrate.checkpoint.rows.unsafe.types import arrow_schema

    schema = format if isinstance(format, Struct) else Struct(format.struct_type())
    return pa.struct(list(arrow_schema(schema.to_json()["schema"])))


def _held(value: Any, kind: Any) -> Any:
    """A plain value as Arrow takes it: a map as its pairs."""
    from pyarrow import types

    if value is None:
        return None
    if types.is_struct(kind):
        return {field.name: _held(value[field.name], field.type) for field in kind}
    if types.is_map(kind):
        return [
            (_held(key, kind.key_type), _held(each, kind.item_type)) for key, each in value.items()
        ]
    if types.is_list(kind):
        return [_held(each, kind.value_type) for each in value]
    return value
