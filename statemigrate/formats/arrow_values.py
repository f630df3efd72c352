"""Arrow's values as plain ones, maps as dictionaries, on every release of pyarrow there is here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_GIVES_DICTIONARIES = 20
"""The first release of pyarrow that makes dictionaries of maps itself."""


def plain_values(array: Any) -> list[Any]:
    """The values of an Arrow array; a map is a dictionary.

    Raises KeyError for a map that has a key twice, as pyarrow does when it is strict.
    """
    import pyarrow as pa

    # Asking for maps costs three times as much, whether there are any or not.
    if not _holds_maps([array.type]):
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


def _holds_maps(kinds: Iterable[Any]) -> bool:
    from pyarrow import types

    return any(
        types.is_map(kind)
        or _holds_maps(kind.field(place).type for place in range(kind.num_fields))
        for kind in kinds
    )
