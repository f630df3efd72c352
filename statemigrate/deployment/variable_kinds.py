"""The kinds of a processor's variables, and the facts that the engines ask of each.

An engine asks for the facts and not for the kind. A kind that stores what another one stores, and
gives user code another variable over it, needs an entry here, a method of the handle, and that
variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    Schema = StructType | str

Kind = Literal["value", "list", "map"]
"""The word for a kind in checkpoints and messages."""


@dataclass(frozen=True)
class VariableKind:
    """What a variable stores under a key.

    ``spark_name`` is its class in Spark, and ``reader_column`` the column of Spark's state reader
    with its values.
    """

    spark_name: str
    reader_column: str
    has_several_values: bool = False
    """A key has several values in an order. They migrate together."""
    has_user_key: bool = False
    """Each value has a key of the user's own, behind the grouping key."""

    @property
    def has_one_value(self) -> bool:
        """Whether a grouping key has one value at most."""
        return not (self.has_several_values or self.has_user_key)

    @property
    def complement(self) -> Kind:
        """The kind of the family with complements: a key with several values has one for all."""
        return "map" if self.has_user_key else "value"

    def variable(
        self, handle: Any, name: str, schema: Schema, user_key: Schema | None, ttl: int | None
    ) -> Any:
        """The variable of this kind that one of Spark's handles gives."""
        types = (user_key, schema) if self.has_user_key else (schema,)
        return getattr(handle, f"get{self.spark_name}")(name, *types, ttl)


VARIABLE_KINDS: Mapping[Kind, VariableKind] = {
    "value": VariableKind("ValueState", "value"),
    "list": VariableKind("ListState", "list_element", has_several_values=True),
    "map": VariableKind("MapState", "user_map_value", has_user_key=True),
}
"""Every kind by its word."""
