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


def test_a_renamed_field_needs_a_transform() -> None:
    comparison = compare(Struct("a BIGINT, price BIGINT"), Struct("a BIGINT, cents BIGINT"))
    assert comparison.verdict == TRANSFORM
    removed, added = comparison.changes
    assert (removed.path, removed.old, removed.new) == ("price", "long | null", None)
    assert removed.note == "probably renamed to cents; Avro drops the old values silently"
    assert (added.path, added.old, added.new) == ("cents", None, "long | null")
    assert added.note.startswith("probable rename of price; no default")


def test_a_rename_hidden_behind_a_default_is_pointed_out() -> None:
    old, new = avro(field("price", "long")), avro(field("cents", "long", default=0))
    comparison = compare(old, new)
    assert comparison.verdict == READABLE
    assert "probably renamed to cents" in str(comparison)
    assert "probable rename of price; old values get the default 0" in str(comparison)


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
        ("items[].price", "int | null", "long | null", READABLE),
        ("items[].m{}.x", "int | null", "string | null", TRANSFORM),
        ("b", "record<c> | null", "int | null", TRANSFORM),
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


def test_the_table_is_for_reading() -> None:
    comparison = compare(
        Struct("id BIGINT, price BIGINT"), Struct("id STRING, price DECIMAL(18,2), n INT")
    )
    assert str(comparison) == (
        "needs a transform\n"
        "field  old          new                   verdict            note\n"
        "id     long | null  string | null         needs a transform  "
        "Avro has no rule from the old type to the new one\n"
        "price  long | null  decimal(18,2) | null  needs a transform  "
        "Avro has no rule from the old type to the new one\n"
        "n      -            int | null            needs a transform  "
        "no default, so a transform says what old values get"
    )


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


@settings(max_examples=600, deadline=None)
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


@settings(max_examples=300, deadline=None)
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
