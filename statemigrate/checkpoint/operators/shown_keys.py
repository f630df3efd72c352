"""Keys as users know them: of a map its own key too, of a join's row not the number of the row."""

from __future__ import annotations

from statemigrate.checkpoint.operators.catalogue import JOIN, kind_of, user_name
from statemigrate.checkpoint.operators.labels import with_labels
from statemigrate.checkpoint.operators.shapes import (
    FamilyShape,
    OperatorShape,
    StoreShape,
    StructJson,
)

Path = tuple[str, ...]


def is_numbered(operator: OperatorShape, store: StoreShape, family: FamilyShape) -> bool:
    """Whether the last column of a key is the number of a row, as in a join's sides."""
    is_rows = user_name(operator, store.name, family.name) is not None
    return kind_of(operator.name) is JOIN and is_rows


def key_paths(operator: OperatorShape, store: StoreShape, family: FamilyShape) -> list[Path]:
    """Where each column of a key that users know is, by the labels of the key's fields."""
    fields = with_labels(family.key)["fields"]
    if family.user_key is not None:
        return [
            (str(part["name"]), str(each["name"]))
            for part in fields
            for each in part["type"]["fields"]
        ]
    names: list[Path] = [(str(each["name"]),) for each in fields if each["type"] != "void"]
    return names[:-1] if is_numbered(operator, store, family) else names


def shown_key(operator: OperatorShape, store: StoreShape, family: FamilyShape) -> StructJson:
    """The struct of those columns, each by its label."""
    fields = with_labels(family.key)["fields"]
    if family.user_key is not None:
        fields = [each for part in fields for each in part["type"]["fields"]]
    shown = [each for each in fields if each["type"] != "void"]
    if is_numbered(operator, store, family):
        shown = shown[:-1]
    return with_labels({"type": "struct", "fields": shown})
