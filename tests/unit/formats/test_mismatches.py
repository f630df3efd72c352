"""Values a format cannot hold: each is refused, and the message names the field."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from statemigrate.errors import FormatError, ValueMismatchError
from statemigrate.formats import Avro, Struct

NOON = datetime(2024, 1, 1, 12)


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("f INT", True),
        ("f INT", 2**31),
        ("f INT", -(2**31) - 1),
        ("f INT", 1.0),
        ("f INT", "1"),
        ("f TINYINT", 128),
        ("f SMALLINT", -32769),
        ("f BIGINT", 2**63),
        ("f BIGINT", 1.5),
        ("f BOOLEAN", 1),
        ("f FLOAT", 1e39),
        ("f FLOAT", 16777217),
        ("f DOUBLE", 2**53 + 1),
        ("f DOUBLE", 10**400),
        ("f DOUBLE", True),
        ("f DOUBLE", "1.0"),
        ("f DOUBLE", Decimal(1)),
        ("f STRING", b"x"),
        ("f STRING", 5),
        ("f STRING", "\ud800"),
        ("f VARCHAR(3)", "abcd"),
        ("f BINARY", "x"),
        ("f DATE", NOON),
        ("f DATE", "2024-01-01"),
        ("f TIMESTAMP", NOON),
        ("f TIMESTAMP", date(2024, 1, 1)),
        ("f TIMESTAMP", 0),
        ("f TIMESTAMP_NTZ", NOON.replace(tzinfo=UTC)),
        ("f TIME", time(1, tzinfo=UTC)),
        ("f TIME(3)", time(1, 2, 3, 1)),
        ("f DECIMAL(5, 2)", Decimal("1000")),
        ("f DECIMAL(5, 2)", Decimal("1.234")),
        ("f DECIMAL(5, 2)", Decimal("1E+20")),
        ("f DECIMAL(5, 2)", Decimal("NaN")),
        ("f DECIMAL(5, 2)", Decimal("Infinity")),
        ("f DECIMAL(5, 2)", 1),
        ("f DECIMAL(5, 2)", 1.5),
        ("f ARRAY<INT>", {1, 2}),
        ("f ARRAY<INT>", "12"),
        ("f MAP<STRING, INT>", [("a", 1)]),
        ("f STRUCT<x: INT>", (1,)),
        ("f VOID", 0),
        ("f INT NOT NULL", None),
    ],
)
def test_a_value_that_would_be_changed_is_refused(ddl: str, value: Any) -> None:
    format_ = Struct(ddl)
    for refuse in (format_.encode, format_.validate):
        with pytest.raises(ValueMismatchError) as caught:
            refuse({"f": value})
        assert caught.value.data["field"] == "f"
        assert "f" in caught.value.summary
        assert caught.value.expected
        assert caught.value.found
        assert caught.value.next_action


NESTED = Struct(
    "a STRUCT<b: ARRAY<STRUCT<c: INT, d: MAP<STRING, BIGINT>>>> NOT NULL, e ARRAY<ARRAY<INT>>"
)


def nested(**changes: Any) -> dict[str, Any]:
    item = {"c": 1, "d": {"k": 1}}
    return {"a": {"b": [item, item | changes]}, "e": None}


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (nested(c="x"), "a.b[1].c"),
        (nested(d={"k": "x"}), "a.b[1].d['k']"),
        (nested(d={1: 1}), "a.b[1].d key 1"),
        (nested(extra=1), "a.b[1].extra"),
        ({"a": {}, "e": None}, "a.b"),
        ({"a": None, "e": None}, "a"),
        ({"a": {"b": None}}, "e"),
        ({"a": {"b": None}, "e": [[1], [None, 2**40]]}, "e[1][1]"),
        ({"a": {"b": None}, "e": None, 5: 1}, "5"),
        ([], ""),
        (None, ""),
    ],
)
def test_the_error_names_the_path_of_the_field(value: Any, field: str) -> None:
    with pytest.raises(ValueMismatchError) as caught:
        NESTED.encode(value)
    assert caught.value.data["field"] == field


def test_the_message_says_what_was_expected_and_found() -> None:
    with pytest.raises(ValueMismatchError) as caught:
        NESTED.encode(nested(c=True))
    assert str(caught.value) == (
        "Field a.b[1].c cannot hold this value. [SM-VALUE-007]\n"
        "  expected: int, an int from -2147483648 to 2147483647\n"
        "  found: bool True\n"
        "  next: return a value of that type from the transform, or change the format"
    )


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "C"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, 0),
        ({"type": "fixed", "name": "x", "size": 3}, b"ab"),
        (["null", "int", "string"], 1.5),
        (["null", "int", "string"], []),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            NOON.replace(microsecond=1, tzinfo=UTC),
        ),
        (["null", {"type": "array", "items": "int"}], ("int", "x")),
    ],
)
def test_types_only_avro_has_are_checked_too(type_: Any, value: Any) -> None:
    format_ = Avro({"type": "record", "name": "r", "fields": [{"name": "f", "type": type_}]})
    with pytest.raises(ValueMismatchError) as caught:
        format_.encode({"f": value})
    assert str(caught.value.data["field"]).startswith("f")


def schema_of(*fields: Any, **record: Any) -> dict[str, Any]:
    named = [{"name": f"f{i}", "type": type_} for i, type_ in enumerate(fields)]
    return {"type": "record", "name": "r", "fields": named, **record}


LOOP = {"type": "record", "name": "r", "fields": [{"name": "n", "type": ["null", "r"]}]}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("int", "Cannot read"),
        ('"int"', "record at the top"),
        (["int"], "record at the top"),
        (5, "the schema: not a valid"),
        (schema_of("strin"), "f0: not a valid Avro schema"),
        (schema_of("int", {"type": "array"}), r"f1\[\]: not a valid"),
        (schema_of(["int", "int"]), "f0"),
        (schema_of([["int"]]), "f0"),
        (schema_of([]), "f0"),
        (schema_of({"type": "fixed", "name": "x"}), "size"),
        (schema_of({"type": "enum", "name": "x", "symbols": ["A", "A"]}), "symbols"),
        (schema_of({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}), "f0"),
        (
            schema_of(
                {"type": "fixed", "name": "x", "size": 1, "logicalType": "decimal", "precision": 3}
            ),
            "precision that 1 bytes",
        ),
        (schema_of({"type": "long", "logicalType": "timestamp-nanos"}), "f0"),
        (LOOP, "contains itself"),
        (schema_of(schema_of("int")), "defined twice"),
        ({"type": "record", "name": "r", "fields": [{"name": "a-b", "type": "int"}]}, "a-b"),
        ({"type": "record", "name": "r", "fields": [{"type": "int"}]}, "None"),
        ({"type": "record", "name": "r"}, "fields"),
        ({"type": "record", "fields": []}, "name"),
        ("{ not json", "not JSON"),
        ("missing.avsc", "missing.avsc"),
        (
            {
                "type": "record",
                "name": "r",
                "fields": [{"name": "a", "type": "int", "default": "x"}],
            },
            "default",
        ),
    ],
)
def test_a_schema_that_is_not_one_is_refused_where_it_goes_wrong(schema: Any, text: str) -> None:
    with pytest.raises(FormatError, match=text):
        Avro(schema)


def test_a_schema_is_read_from_a_file_a_text_or_a_dict(tmp_path: Any) -> None:
    path = tmp_path / "r.avsc"
    path.write_text(json.dumps(schema_of("int", "string")))
    given = (path, str(path), path.read_text(), schema_of("int", "string"))
    assert len({Avro(schema) for schema in given}) == 1


def test_changing_the_given_schema_later_changes_nothing() -> None:
    schema = schema_of("int")
    format_ = Avro(schema)
    schema["fields"].clear()
    format_.avro_schema["fields"].clear()
    assert format_.avro_schema == schema_of("int")
