"""A string's collation in the JSON of a Spark type: beside the type, or within it.

Spark writes ``string`` for every string, and the collations of a column's strings into the column's
metadata, by the way to each: ``tags.element``, ``prices.key``. Within this package a type says it
itself, as ``string collate UNICODE_CI``.
"""

from __future__ import annotations

from typing import Any

_KEY = "__COLLATIONS"
COLLATED = "string collate "


def with_collations(struct: Any) -> Any:
    """A struct type in Spark's JSON form with each string's collation in its type, no metadata."""
    fields = []
    for field in struct["fields"]:
        found = (field.get("metadata") or {}).get(_KEY, {})
        told = _told(field["type"], field["name"], found)
        fields.append({**field, "type": told, "metadata": {}})
    return {**struct, "fields": fields}


def as_spark_writes(struct: Any) -> Any:
    """The other way round: collations in the columns' metadata, and no other metadata."""
    fields = []
    for field in struct["fields"]:
        found: dict[str, str] = {}
        plain = _plain(field["type"], field["name"], found)
        fields.append({**field, "type": plain, "metadata": {_KEY: found} if found else {}})
    return {**struct, "fields": fields}


def _told(spark: Any, path: str, found: dict[str, str]) -> Any:
    if spark == "string" and path in found:
        return COLLATED + found[path].rpartition(".")[2]
    return _inside(spark, lambda each, step: _told(each, f"{path}.{step}", found), with_collations)


def _plain(spark: Any, path: str, found: dict[str, str]) -> Any:
    if isinstance(spark, str) and spark.startswith(COLLATED):
        name = spark.removeprefix(COLLATED)
        # As PySpark tells the two libraries of collations apart.
        found[path] = f"{'spark' if name.startswith('UTF8') else 'icu'}.{name}"
        return "string"
    return _inside(spark, lambda each, step: _plain(each, f"{path}.{step}", found), as_spark_writes)


def _inside(spark: Any, change: Any, change_struct: Any) -> Any:
    match spark:
        case {"type": "struct"}:
            return change_struct(spark)
        case {"type": "array"}:
            return {**spark, "elementType": change(spark["elementType"], "element")}
        case {"type": "map"}:
            keys, values = change(spark["keyType"], "key"), change(spark["valueType"], "value")
            return {**spark, "keyType": keys, "valueType": values}
    return spark
