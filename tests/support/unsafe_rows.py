"""Spark's ``UnsafeRow`` written down once more, a value at a time; and schemas and values to try.

A value is as Arrow's ``to_pylist`` gives it but for moments and intervals, which are their numbers.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

PLAIN = {
    "boolean": ("<B", st.booleans()),
    "byte": ("<b", st.integers(-(2**7), 2**7 - 1)),
    "short": ("<h", st.integers(-(2**15), 2**15 - 1)),
    "integer": ("<i", st.integers(-(2**31), 2**31 - 1)),
    "long": ("<q", st.integers(-(2**63), 2**63 - 1)),
    "float": ("<f", st.floats(width=32, allow_nan=False)),
    "double": ("<d", st.floats(allow_nan=False)),
    "date": ("<i", st.integers(-700_000, 2_900_000)),
    "timestamp": ("<q", st.integers(-(2**55), 2**57)),
    "timestamp_ntz": ("<q", st.integers(-(2**55), 2**57)),
    "interval day to second": ("<q", st.integers(-(2**55), 2**55)),
    "interval year to month": ("<i", st.integers(-(2**31), 2**31 - 1)),
}


def digits(spark: str) -> tuple[int, int]:
    """Precision and scale of ``decimal(p,s)``."""
    precision, scale = spark.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)


def row(schema: Any, value: dict[str, Any]) -> bytes:
    """One struct's bytes."""
    fields = schema["fields"]
    bitmap = bytearray((len(fields) + 63) // 64 * 8)
    fixed = len(bitmap) + 8 * len(fields)
    slots, behind = b"", b""
    for index, field in enumerate(fields):
        each = value[field["name"]]
        if each is None:
            bitmap[index // 8] |= 1 << index % 8
        if (content := _variable(field["type"], each)) is None:
            slots += _slot(field["type"], each).ljust(8, b"\0")
            continue
        large = str(field["type"]).startswith("decimal")
        here = fixed + len(behind)
        slots += struct.pack("<q", 0 if each is None and not large else here << 32 | len(content))
        behind += content.ljust(16 if large else -(-len(content) // 8) * 8, b"\0")
    return bytes(bitmap) + slots + behind


def _slot(spark: Any, value: Any) -> bytes:
    if value is None:
        return b""
    if spark in PLAIN:
        return struct.pack(PLAIN[spark][0], value)
    return struct.pack("<q", int(value.scaleb(digits(spark)[1])))


def _variable(spark: Any, value: Any) -> bytes | None:
    """The bytes behind the slots; None of a type that needs none."""
    if isinstance(spark, dict):
        return b"" if value is None else _block(spark, value)
    if spark.startswith("decimal"):
        return None if digits(spark)[0] <= 18 else _unscaled(value)
    if spark in ("string", "binary"):
        return bytes(value.encode() if isinstance(value, str) else value or b"")
    return None


def _block(spark: Any, value: Any) -> bytes:
    if spark["type"] == "struct":
        return row(spark, value)
    if spark["type"] == "array":
        return array(spark["elementType"], value)
    keys = array(spark["keyType"], [key for key, _ in value])
    return struct.pack("<q", len(keys)) + keys + array(spark["valueType"], [v for _, v in value])


def _unscaled(value: Decimal | None) -> bytes:
    if value is None:
        return b""
    sign, figures, _ = value.as_tuple()
    number = int("".join(map(str, figures))) * (-1 if sign else 1)
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, signed=True)


def array(spark: Any, values: list[Any]) -> bytes:
    """An array's bytes."""
    bitmap = bytearray((len(values) + 63) // 64 * 8)
    width = struct.calcsize(PLAIN[spark][0]) if str(spark) in PLAIN else 8
    fixed = 8 + len(bitmap) + -(-len(values) * width // 8) * 8
    slots, behind = b"", b""
    for index, each in enumerate(values):
        if each is None:
            bitmap[index // 8] |= 1 << index % 8
            slots += bytes(width)
        elif (content := _variable(spark, each)) is None:
            slots += _slot(spark, each)
        else:
            slots += struct.pack("<q", (fixed + len(behind)) << 32 | len(content))
            behind += content.ljust(-(-len(content) // 8) * 8, b"\0")
    whole = struct.pack("<q", len(values)) + bytes(bitmap) + slots
    return whole.ljust(fixed, b"\0") + behind


def field(name: str, spark: Any, nullable: bool = True) -> dict[str, Any]:
    """A field of a struct."""
    return {"name": name, "type": spark, "nullable": nullable, "metadata": {}}


def schema_of(*fields: Any) -> dict[str, Any]:
    """A struct of these fields."""
    return {"type": "struct", "fields": list(fields)}


def _decimals(least: int, most: int) -> st.SearchStrategy[str]:
    precision = st.integers(least, most)
    return precision.flatmap(lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})"))


def leaf_types(*without: str) -> st.SearchStrategy[Any]:
    """Types without parts, but for some."""
    names = [*PLAIN, "string", "binary", "void"]
    plain = st.sampled_from([each for each in names if each not in without])
    return plain | _decimals(1, 18) | _decimals(19, 38)


def types(leaves: st.SearchStrategy[Any], maps: bool = True) -> st.SearchStrategy[Any]:
    """Types, nested in any way; ``maps`` says whether maps are among them."""
    return st.recursive(
        leaves,
        lambda inner: structs(inner) | _arrays(inner) | (_maps(leaves, inner) if maps else inner),
        max_leaves=6,
    )


def _arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda element, null: {
            "type": "array",
            "elementType": element,
            "containsNull": null or element == "void",
        },
        inner,
        st.booleans(),
    )


def _maps(leaves: st.SearchStrategy[Any], inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda key, value, null: {
            "type": "map",
            "keyType": key,
            "valueType": value,
            "valueContainsNull": null or value == "void",
        },
        leaves.filter(lambda each: each != "void"),
        inner,
        st.booleans(),
    )


def structs(inner: st.SearchStrategy[Any], least: int = 1, most: int = 4) -> Any:
    """Struct types with fields of these types, some of which may not be null."""
    pairs = st.lists(st.tuples(inner, st.booleans()), min_size=least, max_size=most)
    return pairs.map(
        lambda found: schema_of(
            *(field(f"f{i}", kind, null or kind == "void") for i, (kind, null) in enumerate(found))
        )
    )


def values(spark: Any, nullable: bool) -> st.SearchStrategy[Any]:
    """Values of a type."""
    if spark == "void":
        return st.none()
    found = _present(spark)
    return st.none() | found if nullable else found


def _present(spark: Any) -> st.SearchStrategy[Any]:
    if isinstance(spark, dict):
        return _nested(spark)
    if spark == "string":
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    if spark == "binary":
        return st.binary(max_size=20)
    if spark.startswith("decimal"):
        precision, scale = digits(spark)
        most = 10**precision - 1
        # Made of its digits, since arithmetic would round to the context's precision.
        return st.integers(-most, most).map(lambda number: Decimal(f"{number}e-{scale}"))
    return PLAIN[spark.replace("interval month", "interval year to month")][1]


def _nested(spark: Any) -> st.SearchStrategy[Any]:
    if spark["type"] == "struct":
        return st.fixed_dictionaries(
            {each["name"]: values(each["type"], each["nullable"]) for each in spark["fields"]}
        )
    if spark["type"] == "array":
        return st.lists(values(spark["elementType"], spark["containsNull"]), max_size=5)
    pairs = st.tuples(
        values(spark["keyType"], False), values(spark["valueType"], spark["valueContainsNull"])
    )
    # A map of Spark's has each key once, and takes 0.0 and -0.0 for one.
    return st.lists(pairs, max_size=4, unique_by=lambda pair: pair[0])
