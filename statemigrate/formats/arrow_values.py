"""Arrow's values as plain ones and back, on every release of pyarrow there is here.

Maps are dictionaries, and text that is not UTF-8 is a str as `escaped_text` has it: Arrow's columns
of text carry any bytes, and only a Python str cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from statemigrate.formats.escaped_text import bytes_of, text_of

_GIVES_DICTIONARIES = 20
"""The first release of pyarrow that makes dictionaries of maps itself."""


def plain_values(array: Any) -> list[Any]:
    """The values of an Arrow array; a map is a dictionary, and text that is not UTF-8 is escaped.

    Raises KeyError for a map that has a key twice, as pyarrow does when it is strict.
    """
    try:
        return _plain_values(array)
    except UnicodeDecodeError:
        found = _plain_values(array.cast(binary_type(array.type)))
        return [_as_text(each, array.type) for each in found]


def plain_rows(rows: Any) -> list[dict[str, Any]]:
    """The rows of a table or record batch of Arrow as dictionaries of plain values, by column."""
    import pyarrow as pa

    if isinstance(rows, pa.Table):
        return [each for batch in rows.to_batches() for each in plain_rows(batch)]
    columns = [plain_values(column) for column in rows.columns]
    return [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def is_utf8(array: Any) -> bool:
    """Whether all text in an Arrow array, at any depth, is UTF-8."""
    import pyarrow as pa

    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def array_of(values: list[Any], kind: Any) -> Any:
    """Plain values as an array of ``kind``, maps as lists of pairs, text as `plain_values` has it.

    Raises as `pyarrow.array`.
    """
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        found = pa.array([_as_bytes(each, kind) for each in values], binary_type(kind))
        # Not safe: the bytes are not UTF-8, which is why they are here.
        return found.cast(kind, safe=False)


def plain_array(values: Sequence[Any], kind: Any) -> Any:
    """Plain values, maps as dictionaries, as an array of ``kind``. Raises as `array_of`."""
    found = values if not has_maps(kind) else [_paired(each, kind) for each in values]
    return array_of(list(found), kind)


def has_maps(kind: Any) -> bool:
    """Whether there is a map in a type, at any depth."""
    return _contains_maps([kind])


def _paired(value: Any, kind: Any) -> Any:
    """A plain value with its maps as lists of pairs, as Arrow takes them."""
    from pyarrow import types

    if value is None or not has_maps(kind):
        return value
    if types.is_map(kind):
        return [(_paired(k, kind.key_type), _paired(v, kind.item_type)) for k, v in value.items()]
    if types.is_list(kind):
        return [_paired(each, kind.value_type) for each in value]
    return {field.name: _paired(value[field.name], field.type) for field in kind}


def _plain_values(array: Any) -> list[Any]:
    import pyarrow as pa

    # Asking for maps costs three times as much, whether there are any or not.
    if not _contains_maps([array.type]):
        return list(array.to_pylist())
    if int(pa.__version__.partition(".")[0]) >= _GIVES_DICTIONARIES:
        return list(array.to_pylist(maps_as_pydicts="strict"))
    return [with_dictionaries(each, array.type) for each in array.to_pylist()]


def with_dictionaries(value: Any, kind: Any) -> Any:
    """``value``, of the Arrow type ``kind``, with a dictionary for each map's list of pairs."""
    from pyarrow import types

    if value is None:
        return None
    if types.is_map(kind):
        made = {key: with_dictionaries(each, kind.item_type) for key, each in value}
        if len(made) != len(value):
            raise KeyError(f"a key comes twice in a map of {len(value)} entries")
        return made
    if types.is_struct(kind):
        return {field.name: with_dictionaries(value[field.name], field.type) for field in kind}
    if types.is_list(kind) or types.is_large_list(kind):
        return [with_dictionaries(each, kind.value_type) for each in value]
    return value


def binary_type(kind: Any) -> Any:
    """The type with binaries for texts, and with all that may be null."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_string(kind):
        return pa.binary()
    if types.is_large_string(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        return pa.struct([_binary(each).with_nullable(True) for each in kind])
    if types.is_list(kind) or types.is_large_list(kind):
        make = pa.list_ if types.is_list(kind) else pa.large_list
        return make(_binary(kind.value_field).with_nullable(True))
    if types.is_map(kind):
        return pa.map_(_binary(kind.key_field), _binary(kind.item_field).with_nullable(True))
    return kind


def _binary(field: Any) -> Any:
    return field.with_type(binary_type(field.type))


def _as_text(value: Any, kind: Any) -> Any:
    return _converted(value, kind, text_of)


def _as_bytes(value: Any, kind: Any) -> Any:
    return _converted(value, kind, bytes_of)


def _converted(value: Any, kind: Any, convert: Callable[[Any], Any]) -> Any:
    """A plain value of ``kind`` with every text, or the bytes of one, converted."""
    from pyarrow import types

    if value is None:
        return None
    if types.is_string(kind) or types.is_large_string(kind):
        return convert(value)
    if types.is_struct(kind):
        return {each.name: _converted(value[each.name], each.type, convert) for each in kind}
    if types.is_list(kind) or types.is_large_list(kind):
        return [_converted(each, kind.value_type, convert) for each in value]
    if types.is_map(kind):
        pairs = [
            (_converted(k, kind.key_type, convert), _converted(v, kind.item_type, convert))
            for k, v in (value.items() if isinstance(value, dict) else value)
        ]
        return dict(pairs) if isinstance(value, dict) else pairs
    return value


def _contains_maps(kinds: Iterable[Any]) -> bool:
    from pyarrow import types

    return any(
        types.is_map(kind)
        or _contains_maps(kind.field(place).type for place in range(kind.num_fields))
        for kind in kinds
    )
