"""What a struct type stores, whatever it says of nullability and collations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_IGNORED = ("nullable", "containsNull", "valueContainsNull", "metadata")


def shape_of(schema: StructType) -> Any:
    """A struct type without nullability and metadata, as JSON values: equal for equal storage."""
    return _without_nullability(schema.jsonValue())


def _without_nullability(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            key: _without_nullability(each) for key, each in node.items() if key not in _IGNORED
        }
    return [_without_nullability(each) for each in node] if isinstance(node, list) else node
