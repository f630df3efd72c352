"""Struct formats: DDL without Java, and Spark's own Avro rules both ways."""

import pickle
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CalendarIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from statemigrate.errors import FormatError
from statemigrate.formats import Avro, Struct, format_from_json

SOME_DDL = (
    "id BIGINT NOT NULL, tags ARRAY<STRUCT<name: STRING NOT NULL, at: TIMESTAMP>>,"
    " prices MAP<STRING, DECIMAL(18,2)>"
)


def test_ddl_gives_the_spark_type() -> None:
    item = StructType().add("name", StringType(), False).add("at", TimestampType())
    assert Struct(SOME_DDL).struct_type() == StructType(
        [
            StructField("id", LongType(), False),
            StructField("tags", ArrayType(item)),
            StructField("prices", MapType(StringType(), DecimalType(18, 2))),
        ]
    )


@pytest.mark.parametrize(
    "ddl",
    [
        SOME_DDL,
        f"struct<{SOME_DDL}>",
        f"STRUCT < {SOME_DDL.lower()} >",
        SOME_DDL.replace("id BIGINT NOT NULL", "`id`: long not null comment 'the ''id'''"),
        SOME_DDL.replace(" ARRAY", "\n  ARRAY /* several */"),
    ],
)
def test_one_type_may_be_spelled_in_many_ways(ddl: str) -> None:
    assert Struct(ddl) == Struct(SOME_DDL)
    assert hash(Struct(ddl)) == hash(Struct(SOME_DDL))


def test_a_struct_type_its_ddl_json_and_pickle_give_the_same_format() -> None:
    format_ = Struct(SOME_DDL)
    assert Struct(format_.struct_type()) == format_
    assert Struct(format_.ddl) == format_
    assert format_from_json(format_.to_json()) == format_
    assert pickle.loads(pickle.dumps(format_)) == format_  # noqa: S301
    assert repr(format_) == f"Struct({SOME_DDL!r})"


def test_spark_avro_rules_for_every_type() -> None:
    ddl = (
        "a TINYINT NOT NULL, b DATE NOT NULL, c TIMESTAMP, d TIMESTAMP_NTZ NOT NULL, e BINARY,"
        " f DECIMAL(9,2), g STRUCT<x: ARRAY<FLOAT>, y: DECIMAL(10,0) NOT NULL> NOT NULL, h VOID,"
        " i TIME(3) NOT NULL, j CHAR(3) NOT NULL"
    )
    digits = {"logicalType": "decimal", "precision": 9, "scale": 2}
    fixed = {"type": "fixed", "name": "fixed", "namespace": "topLevelRecord.f", "size": 4}
    nested = fixed | {"namespace": "topLevelRecord.g.y", "size": 5}
    g_fields = [
        {"name": "x", "type": [{"type": "array", "items": ["float", "null"]}, "null"]},
        {"name": "y", "type": nested | digits | {"precision": 10, "scale": 0}},
    ]
    time_type = {"type": "long", "logicalType": "time-micros", "spark.sql.catalyst.type": "time(3)"}
    assert Struct(ddl).avro_schema == {
        "type": "record",
        "name": "topLevelRecord",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "b", "type": {"type": "int", "logicalType": "date"}},
            {"name": "c", "type": [{"type": "long", "logicalType": "timestamp-micros"}, "null"]},
            {"name": "d", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
            {"name": "e", "type": ["bytes", "null"]},
            {"name": "f", "type": [fixed | digits, "null"]},
            {
                "name": "g",
                "type": {
                    "type": "record",
                    "name": "g",
                    "namespace": "topLevelRecord",
                    "fields": g_fields,
                },
            },
            {"name": "h", "type": "null"},
            {"name": "i", "type": time_type},
            {"name": "j", "type": "string"},
        ],
    }


@pytest.mark.parametrize(
    ("precision", "size"), [(1, 1), (2, 1), (3, 2), (18, 8), (19, 9), (38, 16)]
)
def test_a_decimal_takes_the_fewest_bytes_that_hold_its_digits(precision: int, size: int) -> None:
    schema = Struct(f"f DECIMAL({precision}, 0) NOT NULL").avro_schema
    assert schema["fields"][0]["type"]["size"] == size


@pytest.mark.parametrize(
    "ddl",
    [
        SOME_DDL,
        "a INT, b FLOAT NOT NULL, c DOUBLE, d BOOLEAN, e BINARY, f DATE, g TIMESTAMP_NTZ",
        "a ARRAY<ARRAY<MAP<STRING, STRUCT<x: DECIMAL(38,10)>>>>, b TIME, c VOID, d TIME(0)",
    ],
)
def test_a_struct_comes_back_from_its_avro_schema(ddl: str) -> None:
    format_ = Struct(ddl)
    avro = Avro(format_.avro_schema)
    assert avro.struct_type() == format_.struct_type()
    assert avro.fingerprint == format_.fingerprint
    assert avro != format_


@pytest.mark.parametrize(
    ("type_", "spark", "nullable"),
    [
        (["null", "string"], StringType(), True),
        (["string"], StringType(), False),
        (["int", "long"], LongType(), False),
        (["long", "null", "int"], LongType(), True),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, StringType(), False),
        ({"type": "fixed", "name": "x", "size": 2}, BinaryType(), False),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1},
            DecimalType(5, 1),
            False,
        ),
        ({"type": "long", "logicalType": "timestamp-millis"}, TimestampType(), False),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, TimestampNTZType(), False),
        ({"type": "int", "logicalType": "time-millis"}, IntegerType(), False),
        ({"type": "string", "logicalType": "uuid"}, StringType(), False),
        ({"type": "map", "values": "int"}, MapType(StringType(), IntegerType(), False), False),
    ],
)
def test_avro_types_become_the_spark_types_that_spark_reads_them_as(
    type_: Any, spark: Any, nullable: bool
) -> None:
    format_ = Avro({"type": "record", "name": "r", "fields": [{"name": "f", "type": type_}]})
    assert format_.struct_type() == StructType([StructField("f", spark, nullable)])


@pytest.mark.parametrize(
    "type_",
    [
        ["int", "string"],
        ["null", "int", {"type": "array", "items": "int"}],
        ["int", {"type": "long", "logicalType": "timestamp-micros"}],
        {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 0},
    ],
)
def test_what_spark_has_no_equal_type_for_has_no_struct_type(type_: Any) -> None:
    format_ = Avro({"type": "record", "name": "r", "fields": [{"name": "f", "type": type_}]})
    with pytest.raises(FormatError, match="Field f"):
        format_.struct_type()


@pytest.mark.parametrize(
    ("ddl", "found"),
    [
        ("", "the end of the text at line 1, column 1"),
        ("a", "the end of the text at line 1, column 2"),
        ("a INT,", "the end of the text at line 1, column 7"),
        ("a INT b STRING", "'b' at line 1, column 7"),
        ("a INT,\n  b FOO", "'FOO' at line 2, column 5"),
        ("a STRUCT<b: INT", "the end of the text at line 1, column 16"),
        ("a ARRAY<INT NOT NULL>", "'NOT' at line 1, column 13"),
        ("a MAP<STRING>", "'>' at line 1, column 13"),
        ("a INT DEFAULT 5", "'DEFAULT' at line 1, column 7"),
        ("a INT NULL", "'NULL' at line 1, column 7"),
        ("a DECIMAL(x)", "'x' at line 1, column 11"),
        ("a VARCHAR", "the end of the text at line 1, column 10"),
        ("a TEXT", "'TEXT' at line 1, column 3"),
        ("a INT COMMENT b", "'b' at line 1, column 15"),
        ("a `INT`", "'`INT`' at line 1, column 3"),
        ("INT", "the end of the text at line 1, column 4"),
        ("struct<a: INT> b", "'b' at line 1, column 16"),
    ],
)
def test_malformed_ddl_is_refused_with_the_place(ddl: str, found: str) -> None:
    with pytest.raises(FormatError) as caught:
        Struct(ddl)
    assert caught.value.found == found


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("a INT, a STRING", "Field a"),
        ("a DECIMAL(39, 0)", "Field a"),
        ("a DECIMAL(3, 4)", "Field a"),
        ("a 'open", "Not the DDL"),
    ],
)
def test_what_no_format_can_hold_is_refused_with_the_field(ddl: str, text: str) -> None:
    with pytest.raises(FormatError, match=text):
        Struct(ddl)


def test_other_things_than_a_struct_are_refused() -> None:
    with pytest.raises(FormatError, match="DDL text or a StructType"):
        Struct(IntegerType())  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="Field a"):
        Struct(StructType().add("a", CalendarIntervalType()))


@pytest.mark.parametrize(
    "document",
    [{}, {"kind": "orc", "schema": {}}, {"kind": "struct", "schema": {"fields": [{}]}}, None],
)
def test_json_that_is_not_a_format_is_refused(document: Any) -> None:
    with pytest.raises(FormatError):
        format_from_json(document)
