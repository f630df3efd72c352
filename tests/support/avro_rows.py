"""Rows of state as another Avro writer has them, by the schema that Spark makes of theirs."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import fastavro
from hypothesis import strategies as st

from tests.support.unsafe_rows import digits, leaf_types, structs

WITHOUT = ("byte", "short", "interval day to second", "interval year to month")
_NAMES = {
    "boolean": "boolean",
    "integer": "int",
    "date": "int",
    "long": "long",
    "timestamp": "long",
    "timestamp_ntz": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "void": "null",
}


def avro_types(maps: bool = True) -> st.SearchStrategy[Any]:
    """Types that Spark's Avro encoding of state has, nested in any way, with maps or without."""
    leaves = leaf_types(*WITHOUT)
    return st.recursive(
        leaves,
        lambda inner: structs(inner) | _lists(inner) | (_maps(inner) if maps else inner),
        max_leaves=6,
    )


def _may_be_null(spark: Any, null: bool) -> bool:
    return null and isinstance(spark, dict)


def _lists(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda kind, null: {
            "type": "array",
            "elementType": kind,
            "containsNull": _may_be_null(kind, null),
        },
        inner.filter(lambda kind: kind != "void"),
        st.booleans(),
    )


def _maps(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda kind, null: {
            "type": "map",
            "keyType": "string",
            "valueType": kind,
            "valueContainsNull": _may_be_null(kind, null),
        },
        inner.filter(lambda kind: kind != "void"),
        st.booleans(),
    )


def encoded(spark: Any, value: dict[str, Any]) -> bytes:
    """A row's bytes."""
    schema = fastavro.parse_schema(_record(spark, "row"))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, _plain(spark, value))
    return stream.getvalue()


def _record(spark: Any, name: str) -> Any:
    fields = [
        {"name": each["name"], "type": _union(each["type"], f"{name}_{each['name']}")}
        for each in spark["fields"]
    ]
    return {"type": "record", "name": name, "fields": fields}


def _union(spark: Any, name: str) -> Any:
    return "null" if spark == "void" else ["null", _type(spark, name)]


def _type(spark: Any, name: str) -> Any:
    if isinstance(spark, str):
        if spark.startswith("decimal"):
            return {"type": "fixed", "name": name, "size": _width(spark)}
        return _NAMES[spark]
    if spark["type"] == "struct":
        return _record(spark, name)
    inner = spark["elementType"] if spark["type"] == "array" else spark["valueType"]
    part = (_union if isinstance(inner, dict) else _type)(inner, f"{name}_of")
    if spark["type"] == "array":
        return {"type": "array", "items": part}
    return {"type": "map", "values": part}


def _width(spark: str) -> int:
    most = 10 ** digits(spark)[0]
    return next(width for width in range(1, 17) if 2 ** (8 * width - 1) >= most)


def _plain(spark: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Decimal):
        sign, figures, _ = value.as_tuple()
        number = int("".join(map(str, figures))) * (-1 if sign else 1)
        return number.to_bytes(_width(spark), signed=True)
    if not isinstance(spark, dict):
        return value
    if spark["type"] == "struct":
        return {f["name"]: _plain(f["type"], value[f["name"]]) for f in spark["fields"]}
    if spark["type"] == "array":
        return [_plain(spark["elementType"], each) for each in value]
    return {key: _plain(spark["valueType"], each) for key, each in value}


def with_names_of_their_own(spark: Any, path: str = "f") -> Any:
    """A type in which no two structs have a name in common, which Spark's Avro schemas need."""
    if not isinstance(spark, dict):
        return spark
    if spark["type"] == "struct":
        names = [f"{path}{index}" for index in range(len(spark["fields"]))]
        fields = [
            {**each, "name": name, "type": with_names_of_their_own(each["type"], f"{name}_")}
            for name, each in zip(names, spark["fields"], strict=True)
        ]
        return {**spark, "fields": fields}
    inner = "elementType" if spark["type"] == "array" else "valueType"
    return {**spark, inner: with_names_of_their_own(spark[inner], f"{path}e")}
