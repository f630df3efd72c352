"""A struct holds what Spark's state holds, also where Avro has no type for it."""

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from statemigrate.errors import FormatError, ValueMismatchError
from statemigrate.formats import Struct, Verdict, compare, format_from_json
from statemigrate.formats.examples import made_up_values
from statemigrate.formats.json_values import json_text, leaf_from_text, value_from_json

NAMES = ("a", "a b", "a.b", "1st", "näme", "tick`s", "emoji \U0001f600")
DAY = dt.timedelta(days=1, microseconds=1)
MOMENT = dt.datetime(2024, 11, 3, 5, 30, tzinfo=dt.UTC)
VARIANT = {"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}
HELD = {
    "MAP<INT, STRING>": [{}, {1: "x", -5: None}],
    "MAP<BIGINT, MAP<INT, BIGINT>>": [{2**40: {1: 2}, 0: {}}],
    "MAP<DOUBLE, INT>": [{0.5: 1, float("inf"): 2}],
    "MAP<DATE, ARRAY<MAP<INT, INT>>>": [{dt.date(1, 1, 1): [{1: 2}, None]}],
    "MAP<TIMESTAMP, INT>": [{MOMENT: 1, MOMENT + dt.timedelta(hours=1): 2}],
    "MAP<DECIMAL(9,2), INT>": [{Decimal("1.50"): 1}],
    "MAP<BOOLEAN, BINARY>": [{True: b"x"}],
    "MAP<BINARY, INT>": [{b"\x00": 1}],
    "MAP<STRUCT<x: INT, y: STRING>, INT>": [{(1, "a"): 1, (None, "b"): 2}],
    "MAP<ARRAY<DATE>, INT>": [{(dt.date(2024, 1, 1), None): 1, (): 2}],
    "INTERVAL DAY TO SECOND": [DAY, -DAY, dt.timedelta(0)],
    "INTERVAL HOUR": [dt.timedelta(hours=1)],
    "INTERVAL YEAR TO MONTH": [14, -1],
    "VARIANT": [VARIANT],
    "STRING COLLATE UNICODE_CI": ["Abc", ""],
    "ARRAY<STRING COLLATE UTF8_LCASE>": [["A", "a"]],
    "MAP<STRING COLLATE UNICODE, INTERVAL MINUTE TO SECOND>": [{"A": DAY}],
    "STRUCT<i: INTERVAL DAY, `x y`: VARIANT>": [{"i": DAY, "x y": VARIANT}],
}
CASES = [pytest.param(ddl, value, id=f"{ddl} {value}") for ddl in HELD for value in HELD[ddl]]


@pytest.mark.parametrize(("ddl", "value"), CASES)
def test_it_is_written_and_read_back(ddl: str, value: Any) -> None:
    format_ = Struct(f"f {ddl}, many ARRAY<{ddl}>")
    whole = {"f": value, "many": [value, None]}
    data, conformed = format_.encode_conformed(whole)
    assert conformed == whole
    assert format_.conform(whole) is whole
    assert format_.decode(data) == whole
    assert format_.decode_many([data] * 5) == [whole] * 5
    nothing = {"f": None, "many": None}
    assert format_.decode(format_.encode(nothing)) == nothing


@pytest.mark.parametrize(("ddl", "value"), CASES)
def test_it_is_shown_as_json_and_read_from_it(ddl: str, value: Any) -> None:
    import json

    format_ = Struct(f"f {ddl}")
    assert value_from_json(format_, json.loads(json_text({"f": value}))) == {"f": value}


@pytest.mark.parametrize(
    ("ddl", "text", "value"),
    [
        ("INTERVAL DAY TO SECOND", "PT86400.000001S", DAY),
        ("INTERVAL YEAR", "14", 14),
        ("STRING COLLATE UNICODE", "null it is", "null it is"),
    ],
)
def test_a_person_types_it_as_a_key(ddl: str, text: str, value: Any) -> None:
    (field,) = Struct(f"f {ddl}").schema.fields
    assert leaf_from_text(field.type, text, "f") == value


@pytest.mark.parametrize("ddl", HELD)
def test_values_are_made_up_of_it(ddl: str) -> None:
    made = [value["f"] for value in made_up_values(Struct(f"f {ddl}"))]
    assert None in made
    assert any(value is not None for value in made)


@pytest.mark.parametrize("ddl", HELD)
def test_the_type_goes_through_ddl_json_and_spark_unchanged(ddl: str) -> None:
    format_ = Struct(f"f {ddl} NOT NULL")
    assert Struct(format_.ddl) == format_
    assert format_from_json(format_.to_json()) == format_
    assert pickle.loads(pickle.dumps(format_)) == format_  # noqa: S301
    spark = format_.struct_type()
    assert Struct(spark) == format_
    assert StructType.fromJson(spark.jsonValue()) == spark


def test_two_collations_are_two_formats_of_the_same_bytes() -> None:
    plain, collated = Struct("f STRING"), Struct("f STRING COLLATE UNICODE_CI")
    assert plain.encode({"f": "Ab"}) == collated.encode({"f": "Ab"})
    assert plain != collated
    assert plain.fingerprint == collated.fingerprint
    assert compare(plain, collated).verdict == Verdict.IDENTICAL
    assert collated.struct_type()["f"].dataType.collation == "UNICODE_CI"
    assert Struct("f STRING COLLATE UTF8_BINARY") == plain


def test_a_map_with_other_keys_needs_a_transform() -> None:
    found = compare(Struct("m MAP<INT, STRING>"), Struct("m MAP<STRING, STRING>"))
    assert found.verdict == Verdict.TRANSFORM
    assert [(change.path, change.old, change.new) for change in found.changes] == [
        ("m key", "INT NOT NULL", "STRING NOT NULL")
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_field_may_have_any_name(name: str) -> None:
    quoted = name.replace("`", "``")
    format_ = Struct(f"`{quoted}` INT, inner STRUCT<`{quoted}`: STRING>")
    value = {name: 1, "inner": {name: "x"}}
    assert format_.decode(format_.encode(value)) == value
    assert Struct(format_.ddl) == format_
    assert format_.struct_type().fieldNames() == [name, "inner"]


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("a STRUCT<m: MAP<INT, STRING>>", r"Field a\.m .*"),
        ("a ARRAY<STRUCT<`b-c`: INT>>", r"a\[\]\.b-c"),
    ],
)
def test_the_avro_schema_of_what_avro_has_not_is_refused_with_the_field(
    ddl: str, text: str
) -> None:
    with pytest.raises(FormatError, match=text):
        _ = Struct(ddl).avro_schema


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("MAP<INT, INT>", {"1": 1}),
        ("MAP<INT, INT>", {None: 1}),
        ("MAP<INT, INT>", {True: 1}),
        ("MAP<INT, INT>", {2**31: 1}),
        ("MAP<STRUCT<x: INT>, INT>", {1: 1}),
        ("MAP<STRUCT<x: INT>, INT>", {(1, 2): 1}),
        ("INTERVAL DAY TO SECOND", 5),
        ("INTERVAL DAY TO SECOND", dt.timedelta.max),
        ("INTERVAL YEAR", 0.5),
        ("VARIANT", 5),
        ("VARIANT", {"value": b""}),
    ],
)
def test_what_the_type_does_not_hold_is_refused(ddl: str, value: Any) -> None:
    format_ = Struct(f"f {ddl}")
    for refuse in (format_.encode, format_.validate):
        with pytest.raises(ValueMismatchError) as raised:
            refuse({"f": value})
        assert raised.value.data["field"].startswith("f")


@pytest.mark.parametrize(
    "ddl",
    ["f INTERVAL", "f INTERVAL SECOND TO DAY", "f INTERVAL YEAR TO SECOND", "f STRING COLLATE"],
)
def test_ddl_that_spark_has_not_is_refused_too(ddl: str) -> None:
    with pytest.raises(FormatError, match="Not the DDL"):
        Struct(ddl)


@given(st.dictionaries(st.integers(-(2**31), 2**31 - 1), st.timedeltas(), max_size=5))
def test_any_map_of_intervals_is_read_back(value: dict[int, dt.timedelta]) -> None:
    format_ = Struct("f MAP<INT, INTERVAL DAY TO SECOND>")
    limit = dt.timedelta(microseconds=2**63 - 1)
    if all(-limit <= each <= limit for each in value.values()):
        assert format_.decode(format_.encode({"f": value})) == {"f": value}
