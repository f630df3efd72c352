"""Arrow's values as plain ones and back, on every release of pyarrow there is here.

Maps are dictionaries, and text that is not UTF-8 is a str as `escaped_text` has it: Arrow's columns
of text carry any bytes, and only a Python str cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC
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
        return list(map(_converter(array.type, _is_text, text_of), found))


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
        encoded = map(_converter(kind, _is_text, bytes_of), values)
        found = pa.array(list(encoded), binary_type(kind))
        # Not safe: the bytes are not UTF-8, which is why they are here.
        return found.cast(kind, safe=False)


def plain_array(values: Sequence[Any], kind: Any) -> Any:
    """Plain values, maps as dictionaries, as an array of ``kind``. Raises as `array_of`."""
    paired = _pairing(kind)
    return array_of(list(values if paired is None else map(paired, values)), kind)


def has_maps(kind: Any) -> bool:
    """Whether there is a map in a type, at any depth."""
    return _contains([kind], _is_map)


def has_floats(kind: Any) -> bool:
    """Whether there is a floating-point number in a type, at any depth."""
    from pyarrow import types

    return _contains([kind], types.is_floating)


def _pairing(kind: Any) -> Callable[[Any], Any] | None:
    """What makes lists of pairs, as Arrow takes them, of a plain value's maps; None without any."""
    from pyarrow import types

    if not has_maps(kind):
        return None
    if types.is_map(kind):
        of_key, of_item = _pairing(kind.key_type) or _same, _pairing(kind.item_type) or _same
        return _unless_null(lambda value: [(of_key(k), of_item(v)) for k, v in value.items()])
    if types.is_list(kind):
        of_each = _pairing(kind.value_type) or _same
        return _unless_null(lambda value: list(map(of_each, value)))
    parts = [(each.name, part) for each in kind if (part := _pairing(each.type)) is not None]
    return _unless_null(lambda value: value | {name: of(value[name]) for name, of in parts})


def _plain_values(array: Any) -> list[Any]:
    import pyarrow as pa

    if _contains([array.type], _is_utc):
        # pyarrow looks the zone up for each value, and imports pandas before the first.
        attach = _converter(array.type, _is_utc, _in_utc)
        return list(map(attach, _plain_values(array.cast(_retyped(array.type, _without_zone)))))
    # Asking for maps costs three times as much, whether there are any or not.
    if not _contains([array.type], _is_map):
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
    return _retyped(kind, _binary)


def nullable_type(kind: Any) -> Any:
    """The type with all that may be null.

    Arrow's casts take a null struct for one whose fields are null, which then must be able to be.
    """
    return _retyped(kind, _same)


def _binary(kind: Any) -> Any:
    import pyarrow as pa
    from pyarrow import types

    if types.is_string(kind):
        return pa.binary()
    return pa.large_binary() if types.is_large_string(kind) else _castable(kind)


def _without_zone(kind: Any) -> Any:
    import pyarrow as pa

    return pa.timestamp(kind.unit) if _is_utc(kind) else _castable(kind)


def _castable(kind: Any) -> Any:
    """The type, with another one for nulls alone.

    Arrow's cast of such a column within lists and maps to itself has too few of them.
    """
    import pyarrow as pa

    return pa.bool_() if pa.types.is_null(kind) else kind


def _retyped(kind: Any, leaf: Callable[[Any], Any]) -> Any:
    """The type with other single types, as ``leaf`` gives them, and with all that may be null."""
    import pyarrow as pa
    from pyarrow import types

    def field(found: Any) -> Any:
        return found.with_type(_retyped(found.type, leaf)).with_nullable(True)

    if types.is_struct(kind):
        return pa.struct([field(each) for each in kind])
    if types.is_list(kind) or types.is_large_list(kind):
        make = pa.list_ if types.is_list(kind) else pa.large_list
        return make(field(kind.value_field))
    if types.is_map(kind):
        return pa.map_(field(kind.key_field).with_nullable(False), field(kind.item_field))
    return leaf(kind)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_utc(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_timestamp(kind) and kind.tz == "UTC" and kind.unit != "ns")


def _in_utc(value: Any) -> Any:
    return value.replace(tzinfo=UTC)


def _converter(
    kind: Any, is_wanted: Callable[[Any], bool], convert: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """What converts those parts of a plain value of ``kind`` whose types are wanted."""
    from pyarrow import types

    def inner(kind: Any) -> Callable[[Any], Any] | None:
        return _converter(kind, is_wanted, convert) if _contains([kind], is_wanted) else None

    if types.is_struct(kind):
        parts = [(each.name, part) for each in kind if (part := inner(each.type)) is not None]
        return _unless_null(lambda value: value | {name: of(value[name]) for name, of in parts})
    if types.is_list(kind) or types.is_large_list(kind):
        of_each = inner(kind.value_type) or _same
        return _unless_null(lambda value: list(map(of_each, value)))
    if types.is_map(kind):
        of_key, of_item = inner(kind.key_type) or _same, inner(kind.item_type) or _same
        return _unless_null(lambda value: _of_pairs(value, of_key, of_item))
    return _unless_null(convert) if is_wanted(kind) else _same


def _unless_null(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _of_pairs(value: Any, of_key: Callable[[Any], Any], of_item: Callable[[Any], Any]) -> Any:
    """A map with its keys and its items converted: a dictionary, or a list of pairs."""
    if isinstance(value, dict):
        return {of_key(key): of_item(item) for key, item in value.items()}
    return [(of_key(key), of_item(item)) for key, item in value]


def _contains(kinds: Iterable[Any], is_wanted: Callable[[Any], bool]) -> bool:
    """Whether a type is wanted, or one within it, at any depth."""
    return any(
        is_wanted(kind)
        or _contains((kind.field(place).type for place in range(kind.num_fields)), is_wanted)
        for kind in kinds
    )


def _is_map(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_map(kind))
