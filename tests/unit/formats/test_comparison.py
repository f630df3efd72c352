"""Comparisons: by hand for each rule, and against fastavro's own schema resolution."""

import copy
from io import BytesIO
from typing import Any

import fastavro
import pytest
from avro_strategies import PRIMITIVES, schemas_with_values, types
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from statemigrate.formats import Avro, Comparison, Struct, Verdict, compare

IDENTICAL, READABLE, TRANSFORM = Verdict


def avro(*fields: dict[str, Any]) -> Avro:
    return Avro({"type": "record", "name": "r", "fields": list(fields)})


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "e", "symbols": list(symbols), **more}


def changes(comparison: Comparison) -> list[tuple[str, str | None, str | None, Verdict]]:
    return [(c.path, c.old, c.new, c.verdict) for c in comparison.changes]


def test_the_same_layout_is_identical_whatever_the_kind() -> None:
    comparison = compare(Struct("a BIGINT"), avro(field("a", ["long", "null"])))
    assert comparison.verdict == IDENTICAL == "identical"
    assert comparison.changes == ()
    assert str(comparison) == "identical: both formats write the same bytes"


def test_a_renamed_field_reads_as_one_and_needs_a_transform() -> None:
    comparison = compare(Struct("a BIGINT, price BIGINT"), Struct("a BIGINT, cents BIGINT"))
    (change,) = comparison.changes
    assert (change.path, change.source, change.verdict) == ("cents", "price", TRANSFORM)
    assert (change.old, change.new) == ("BIGINT", "BIGINT")
    assert str(comparison) == (
        "needs a transform\n"
        "! cents: BIGINT; renamed from price, as it seems; Avro alone takes it for\n"
        "    new: no default, so a transform says what old values get"
    )


def test_a_rename_hidden_behind_a_default_is_pointed_out() -> None:
    old, new = avro(field("price", "long")), avro(field("cents", "long", default=0))
    comparison = compare(old, new)
    assert comparison.verdict == READABLE
    assert str(comparison) == (
        "readable\n"
        "  cents: long; renamed from price, as it seems; Avro alone takes it for new:\n"
        "    old values get the default 0"
    )


def test_a_field_that_moved_into_a_struct_or_out_of_one_reads_so() -> None:
    into = compare(Struct("name STRING, n INT"), Struct("item STRUCT<name: STRING>, n INT"))
    assert [(c.path, c.old, c.new, c.source) for c in into.changes] == [
        ("item", None, "STRUCT<name: STRING>", None),
        ("item.name", "STRING", "STRING", "name"),
    ]
    assert into.changes[1].note == "moved from name, as it seems"
    out = compare(Struct("item STRUCT<name: STRING>, n INT"), Struct("name STRING, n INT"))
    assert [(c.path, c.old, c.new, c.source) for c in out.changes] == [
        ("item", "STRUCT<name: STRING>", None, None),
        ("name", "STRING", "STRING", "item.name"),
    ]


def test_an_alias_makes_a_rename_readable() -> None:
    old = avro(field("price", "int"))
    new = avro(field("cents", "long", aliases=["price"]))
    assert [(c.path, c.verdict) for c in compare(old, new).changes] == [
        ("cents", READABLE),
        ("cents", READABLE),
    ]


def test_nested_changes_have_their_path() -> None:
    old = Struct(
        "items ARRAY<STRUCT<price: INT, m: MAP<STRING, STRUCT<x: INT>>>>, b STRUCT<c: INT>"
    )
    new = Struct("items ARRAY<STRUCT<price: BIGINT, m: MAP<STRING, STRUCT<x: STRING>>>>, b INT")
    assert changes(compare(old, new)) == [
        ("items[].price", "INT", "BIGINT", READABLE),
        ("items[].m{}.x", "INT", "STRING", TRANSFORM),
        ("b", "STRUCT<c: INT>", "INT", TRANSFORM),
    ]


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("int", "long", READABLE),
        ("int", "float", READABLE),
        ("long", "double", READABLE),
        ("float", "double", READABLE),
        ("long", "int", TRANSFORM),
        ("double", "float", TRANSFORM),
        ("string", "bytes", READABLE),
        ("bytes", "string", READABLE),
        ("int", "string", TRANSFORM),
        ("int", ["null", "int"], READABLE),
        ("int", ["null", "long"], READABLE),
        ("int", ["null", "string"], TRANSFORM),
        (["null", "int"], "int", TRANSFORM),
        (["null", "int"], ["int", "null"], READABLE),
        (["null", "int"], ["null", "long"], READABLE),
        (["int", "string"], ["null", "string", "long"], READABLE),
        (["int", "string"], ["null", "string"], TRANSFORM),
        (["int"], "int", READABLE),
        ("null", ["null", "int"], READABLE),
        ("null", "int", TRANSFORM),
        (enum("A"), enum("B", "A"), READABLE),
        (enum("A", "B"), enum("A"), TRANSFORM),
        (enum("A", "B"), enum("A", default="A"), READABLE),
        (enum("A"), "string", TRANSFORM),
        ("int", {"type": "int", "logicalType": "date"}, TRANSFORM),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            TRANSFORM,
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            TRANSFORM,
        ),
        (
            {"type": "fixed", "name": "x", "size": 2},
            {"type": "fixed", "name": "x", "size": 3},
            TRANSFORM,
        ),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, READABLE),
        ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}, TRANSFORM),
        ({"type": "array", "items": "int"}, ["null", {"type": "array", "items": "int"}], READABLE),
        (["null", {"type": "map", "values": "int"}], {"type": "map", "values": "int"}, TRANSFORM),
    ],
)
def test_each_rule_of_schema_resolution(old: Any, new: Any, verdict: Verdict) -> None:
    comparison = compare(avro(field("f", old)), avro(field("f", new)))
    assert comparison.verdict == verdict
    assert {change.path.rstrip("[]{}") for change in comparison.changes} == {"f"}


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("f TINYINT", "f INT", READABLE),
        ("f TINYINT", "f BIGINT", READABLE),
        ("f SMALLINT", "f TINYINT", TRANSFORM),
        ("f INT", "f SMALLINT", TRANSFORM),
        ("f VARCHAR(3)", "f VARCHAR(4)", READABLE),
        ("f VARCHAR(3)", "f STRING", READABLE),
        ("f STRING", "f VARCHAR(3)", TRANSFORM),
        ("f TIME(3)", "f TIME", READABLE),
        ("f TIME", "f TIME(3)", TRANSFORM),
        ("a INT, b INT", "b INT, a INT", READABLE),
        ("a INT, b INT", "a INT", READABLE),
        ("a INT", "a INT, b INT", TRANSFORM),
        ("a INT NOT NULL", "a INT", READABLE),
        ("a INT", "a INT NOT NULL", TRANSFORM),
        ("f DECIMAL(5,2)", "f DECIMAL(7,2)", TRANSFORM),
    ],
)
def test_spark_types(old: str, new: str, verdict: Verdict) -> None:
    assert compare(Struct(old), Struct(new)).verdict == verdict


def test_numbers_that_may_lose_digits_are_pointed_out() -> None:
    (change,) = compare(Struct("f BIGINT"), Struct("f DOUBLE")).changes
    assert change.note == "numbers beyond 2**53 lose digits"


def test_each_format_speaks_its_own_words_on_lines_that_fit_a_screen() -> None:
    comparison = compare(
        Struct("id BIGINT NOT NULL, price BIGINT, note STRING, tags ARRAY<DATE>"),
        Struct("id STRING, price DECIMAL(18,2), n INT, tags ARRAY<DATE> NOT NULL"),
    )
    assert str(comparison).splitlines() == [
        "needs a transform",
        "! id: BIGINT NOT NULL to STRING; the old type has no place in the new type",
        "! price: BIGINT to DECIMAL(18,2); Avro has no rule from the old type to the",
        "    new one",
        "! tags: ARRAY<DATE> to ARRAY<DATE> NOT NULL; None has no place in the new",
        "    type",
        "  note: STRING, removed; Avro drops the old values",
        "! n: INT, added; no default, so a transform says what old values get",
    ]
    mixed = compare(avro(field("a", ["null", "int"])), Struct("a BIGINT"))
    assert [(c.old, c.new) for c in mixed.changes] == [("null | int", "BIGINT")]


def test_lines_fit_whatever_the_types_are() -> None:
    wide = ", ".join(f"a_rather_long_name_{n}: MAP<STRING, TIMESTAMP_NTZ>" for n in range(9))
    comparison = compare(Struct(f"s STRUCT<{wide}>, x INT"), Struct(f"y INT, t STRUCT<{wide}>"))
    assert max(map(len, str(comparison).splitlines())) <= 76
    assert {c.source for c in comparison.changes} == {"s", "x"}


@st.composite
def evolved(draw: st.DrawFn) -> tuple[Any, list[Any], Any]:
    """Draw a schema, values, and a schema that some edits made of it."""
    schema, values = draw(schemas_with_values())
    new = copy.deepcopy(schema)
    for _ in range(draw(st.integers(1, 3))):
        _edit(draw, new)
    return schema, values, new


def _edit(draw: st.DrawFn, record: dict[str, Any]) -> None:
    target = draw(st.sampled_from(list(_records_in(record))))
    fields = target["fields"]
    edit = draw(st.sampled_from(["drop", "add", "swap", "retype", "nullable", "widen"]))
    if edit == "drop" and len(fields) > 1:
        fields.pop(draw(st.integers(0, len(fields) - 1)))
    elif edit == "add" and all(f["name"] != "z" for f in fields):
        # A copy: the field may be changed once more.
        fields.append(dict(draw(st.sampled_from([ADDED, {"name": "z", "type": "int"}]))))
    elif edit == "swap":
        fields.reverse()
    elif fields:
        _edit_type(draw, target, draw(st.sampled_from(fields)), edit)


ADDED = {"name": "z", "type": ["null", "string"], "default": None}
WIDER = {"int": "long", "long": "double", "float": "double", "string": "bytes", "bytes": "string"}


def _edit_type(draw: st.DrawFn, record: Any, field: Any, edit: str) -> None:
    field.pop("default", None)
    type_ = field["type"]
    if edit == "nullable":
        field["type"] = type_[-1] if isinstance(type_, list) else [type_, "null"]
        assume(field["type"] != ["null", "null"])
    elif edit == "widen" and isinstance(type_, str):
        field["type"] = WIDER.get(type_, type_)
    elif edit == "retype":
        plain = st.sampled_from(PRIMITIVES).map(lambda pair: pair[0])
        nested = types(f"{record['name']}_{field['name']}", 1).map(lambda pair: pair[0])
        field["type"] = draw(plain | nested)


def _records_in(schema: Any) -> Any:
    if isinstance(schema, list):
        for branch in schema:
            yield from _records_in(branch)
    elif isinstance(schema, dict):
        if schema["type"] == "record":
            yield schema
            for each in schema["fields"]:
                yield from _records_in(each["type"])
        for key in ("items", "values"):
            if key in schema:
                yield from _records_in(schema[key])


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(evolved())
def test_fastavro_reads_every_old_value_that_is_called_readable(case: Any) -> None:
    old_schema, values, new_schema = case
    old, new = Avro(old_schema), Avro(new_schema)
    comparison = compare(old, new)
    if comparison.verdict == TRANSFORM:
        return
    for value in values:
        try:
            result = fastavro.schemaless_reader(BytesIO(old.encode(value)), old_schema, new_schema)
        except UnicodeDecodeError:
            assert "not UTF-8" in str(comparison)
            continue
        new.validate(result)
        if comparison.verdict == IDENTICAL:
            assert old.encode(value) == new.encode(value)


@settings(max_examples=100, deadline=None)
@given(evolved())
def test_what_fastavro_refuses_needs_a_transform(case: Any) -> None:
    old_schema, values, new_schema = case
    old = Avro(old_schema)
    refused = False
    for value in values:
        try:
            fastavro.schemaless_reader(BytesIO(old.encode(value)), old_schema, new_schema)
        except UnicodeDecodeError:  # of bytes read as a string: the value's doing, not the schema's
            continue
        except fastavro.read.SchemaResolutionError:
            refused = True
    if refused:
        assert compare(old, Avro(new_schema)).verdict == TRANSFORM
