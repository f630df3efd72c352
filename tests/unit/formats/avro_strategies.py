"""Random Avro schemas with values for them. Types are named after their path."""

import string
from datetime import UTC
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

Schema = Any
Pair = tuple[Schema, st.SearchStrategy[Any]]
_NO_ZONE = st.datetimes()
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PRIMITIVES: list[Pair] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", _TEXT),
    ("bytes", st.binary(max_size=8)),
    ({"type": "int", "logicalType": "date"}, st.dates()),
    ({"type": "long", "logicalType": "time-micros"}, st.times().map(lambda t: t.replace(fold=0))),
    ({"type": "long", "logicalType": "timestamp-micros"}, st.datetimes(timezones=st.just(UTC))),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, _NO_ZONE),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        st.datetimes(timezones=st.just(UTC)).map(
            lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)
        ),
    ),
]


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    highest = 10**precision - 1
    return st.integers(-highest, highest).map(lambda n: Decimal(f"{n}E-{scale}"))


@st.composite
def decimals(draw: st.DrawFn, name: str) -> Pair:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    digits = {"logicalType": "decimal", "precision": precision, "scale": scale}
    fixed = {"type": "fixed", "name": f"{name}_fixed", "size": 17}
    schema = draw(st.sampled_from([{"type": "bytes"}, fixed])) | digits
    return schema, _decimals(precision, scale)


@st.composite
def types(draw: st.DrawFn, name: str, depth: int = 2) -> Pair:  # noqa: PLR0911  # one a kind
    kinds = ["primitive"] * 3 + ["decimal", "fixed", "enum"]
    if depth:
        kinds += ["nullable", "nullable", "array", "map", "record"]
    kind = draw(st.sampled_from(kinds))
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES))
    if kind == "decimal":
        return draw(decimals(name))
    if kind == "fixed":
        size = draw(st.integers(1, 5))
        schema = {"type": "fixed", "name": f"{name}_fixed", "size": size}
        return schema, st.binary(min_size=size, max_size=size)
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCDE"), min_size=1, unique=True))
        return {"type": "enum", "name": f"{name}_enum", "symbols": symbols}, st.sampled_from(
            symbols
        )
    if kind == "record":
        return draw(records(name, depth - 1))
    inner, values = draw(types(name, depth - 1))
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=4)
    if kind == "map":
        return {"type": "map", "values": inner}, st.dictionaries(_TEXT, values, max_size=4)
    if inner == "null" or isinstance(inner, list):
        return inner, values
    branches = draw(st.permutations([inner, "null"]))
    return list(branches), st.none() | values


@st.composite
def records(draw: st.DrawFn, name: str = "r", depth: int = 2) -> Pair:
    names = draw(st.lists(st.sampled_from(string.ascii_lowercase[:6]), min_size=1, unique=True))
    pairs = {n: draw(types(f"{name}_{n}", depth)) for n in names}
    fields = [{"name": n, "type": schema} for n, (schema, _) in pairs.items()]
    values = st.fixed_dictionaries({n: values for n, (_, values) in pairs.items()})
    return {"type": "record", "name": name, "fields": fields}, values


@st.composite
def schemas_with_values(draw: st.DrawFn) -> tuple[Schema, list[dict[str, Any]]]:
    schema, values = draw(records())
    return schema, draw(st.lists(values, min_size=1, max_size=4))
