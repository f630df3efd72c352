"""What users know of the state of Spark's own operators: stores of keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from statemigrate.checkpoint.operators.catalogue import (
    DEFAULT,
    GROUPS,
    JOIN,
    VARIABLES,
    kind_of,
    user_stores,
)
from statemigrate.checkpoint.operators.labels import labelled
from statemigrate.checkpoint.operators.shapes import (
    CheckpointShape,
    FamilyShape,
    OperatorShape,
    StoreShape,
    StructJson,
)

_ENVELOPE = {"revision", "payload"}


@dataclass(frozen=True)
class OperatorStore:
    """The state of one operator, or of one side of a join, by the ``name`` that users have for it.

    ``family`` is in Spark's ``store`` of the operator with this ``number``.
    """

    name: str
    number: int
    store: StoreShape
    family: FamilyShape
    is_join: bool

    @property
    def side(self) -> str | None:
        """Of a join whose sides share a store, which one it is."""
        is_shared = self.is_join and self.store.name == DEFAULT
        return self.name.rpartition(".")[2] if is_shared else None

    @cached_property
    def key(self) -> StructJson:
        """The columns of a key as users know them; of a join without the number of the row."""
        fields = self.family.key["fields"]
        return labelled({"type": "struct", "fields": fields[:-1] if self.is_join else fields})

    @cached_property
    def value(self) -> StructJson:
        """The columns of a value as users know them."""
        return labelled(self.family.value)


def operator_stores(
    shape: CheckpointShape, names: Mapping[str, str] | None = None
) -> dict[str, OperatorStore]:
    """The stores of Spark's own operators by name; ``names`` has those that users give themselves.

    Not among them are the variables of ``transformWithState`` and envelopes, whose stores go by
    other names.
    """
    own = {store: name for name, store in (names or {}).items()}
    found = (each for operator in shape.operators for each in _stores(operator))
    return {own.get(each.name, each.name): each for each in found}


def _stores(operator: OperatorShape) -> Iterator[OperatorStore]:
    kind = kind_of(operator.name)
    if kind is VARIABLES:
        return
    for name, (store, family) in user_stores(operator).items():
        if not (kind is GROUPS and _is_envelope(family)):
            yield OperatorStore(name, operator.number, store, family, kind is JOIN)


def _is_envelope(family: FamilyShape) -> bool:
    state = family.value["fields"][0]["type"]
    fields = state["fields"] if isinstance(state, dict) and "fields" in state else []
    return {field["name"] for field in fields} >= _ENVELOPE
