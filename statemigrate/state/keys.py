"""Keys as people type them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from statemigrate.errors import ValueMismatchError
from statemigrate.formats import Struct
from statemigrate.formats.json_values import leaf_from_text, value_from_json

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def key_from_texts(columns: StructType, texts: Sequence[str]) -> tuple[Any, ...]:
    """The key, or the beginning of one, that ``texts`` give column by column.

    A text column takes any text; the others numbers, ``true``, ISO dates and times, or ``null``; a
    struct such as a window takes JSON, as in ``{"start": "2026-01-01T00:00:00Z", "end": ...}``.
    Raises `ValueMismatchError` for a text that is not of its column's type, or one too many.
    """
    fields = Struct(columns).schema.fields
    if not 0 < len(texts) <= len(fields):
        raise ValueMismatchError(
            "SM-VALUE-012",
            f"a key of {len(fields)} columns was given {len(texts)} texts",
            expected=f"at most {', '.join(field.name for field in fields)}, in this order",
            found=" ".join(texts) or "nothing",
            next_action="give one text a column; fewer mean all keys that begin with them",
            field="key",
        )
    return tuple(
        _checked(leaf_from_text(field.type, text, field.name), columns, number, text)
        for number, (field, text) in enumerate(zip(fields, texts, strict=False))
    )


def keys_from_texts(columns: StructType, texts: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
    """What `key_from_texts` gives; of one text that is a JSON list, also the key that this lists.

    A dry run and the quarantine print keys as such lists. A text column may hold what looks like
    one, so that both are meant then, the list first. Raises as `key_from_texts`.
    """
    listed = _listed(columns, texts[0]) if len(texts) == 1 else None
    if listed is None:
        return (key_from_texts(columns, texts),)
    try:
        return listed, key_from_texts(columns, texts)
    except ValueMismatchError:
        return (listed,)


def _listed(columns: StructType, text: str) -> tuple[Any, ...] | None:
    """The key, or its beginning, that a JSON list has; None for any other text."""
    from pyspark.sql.types import StructType

    try:
        items = json.loads(text) if text.startswith("[") else None
    except ValueError:
        return None
    if not isinstance(items, list) or not 0 < len(items) <= len(columns.fields):
        return None
    named = Struct(StructType(columns.fields[: len(items)]))
    names = [field.name for field in named.schema.fields]
    try:
        found = value_from_json(named, dict(zip(names, items, strict=True)))
        named.validate(found)
    except ValueMismatchError:
        return None
    return tuple(found[name] for name in names)


def _checked(value: Any, columns: StructType, number: int, text: str) -> Any:
    from pyspark.sql.types import StructType

    # The format knows what its type holds: the range of an integer, the digits of a decimal.
    field = columns.fields[number]
    try:
        Struct(StructType([field])).validate({field.name: value})
    except ValueMismatchError as error:
        raise error.but(
            summary=f"{text!r} is not a key of column {field.name}",
            next_action="type the key as its column has it",
            field=field.name,
        ) from error
    return value
