"""Our DDL parser and Avro rules against Spark's own, through a real session."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from statemigrate.errors import FormatError
from statemigrate.formats import Avro, Struct

pytestmark = pytest.mark.spark

HELD = [
    "a INT",
    "a TINYINT, b SMALLINT, c BYTE, d SHORT, e INTEGER",
    "a LONG NOT NULL, b BIGINT",
    "a REAL, b FLOAT, c DOUBLE, d BOOLEAN, e BINARY, f STRING",
    "a DEC, b NUMERIC(5), c DECIMAL(18,2), d DECIMAL(38, 0), e decimal( 10 , 2 )",
    "a DECIMAL(1), b DECIMAL(2), c DECIMAL(9), d DECIMAL(18), e DECIMAL(19), f DECIMAL(38,38)",
    "a TIMESTAMP, b TIMESTAMP_NTZ, c TIMESTAMP_LTZ, d DATE",
    "a TIME, b TIME(3) NOT NULL",
    "a VOID, b INT",
    "a: INT, b: STRING",
    "a ARRAY<STRUCT<x: STRING NOT NULL COMMENT 'c', y INT>>, b MAP<STRING,ARRAY<INT>>",
    "struct<a:int,b:struct<c:decimal(9,3)>>",
    "a INT NOT NULL COMMENT 'it''s'",
    "`a` INT, `order` STRING",
    "date DATE, timestamp TIMESTAMP, order INT, select STRING, array ARRAY<INT>, null INT",
    "map MAP<STRING, INT>, struct STRUCT<map: MAP<STRING, INT>>, int INT, comment STRING",
    "a ARRAY<ARRAY<MAP<STRING, STRUCT<d: DECIMAL(10,2), e: STRUCT<f: TIMESTAMP>>>>>",
    "A int, a int",
    "a STRUCT<>",
    "a INT -- a comment",
]
ONLY_DDL = [
    "a CHAR(3), b VARCHAR(5), c CHARACTER(4)",
    "a MAP<INT,STRING>, b MAP<STRUCT<x: INT>, ARRAY<MAP<DATE, INT>>>",
    "`a-b` INT, 1a INT, `t``k` INT, `x.y` STRUCT<`a b`: INT>",
    "a VARIANT, b VARIANT NOT NULL",
    "a INTERVAL DAY TO SECOND, b INTERVAL HOUR, c INTERVAL YEAR, d INTERVAL YEAR TO MONTH",
    "a STRING COLLATE UTF8_LCASE, b MAP<STRING COLLATE UNICODE_CI, ARRAY<STRING COLLATE UNICODE>>",
    "a STRUCT<b: STRING COLLATE UNICODE>, c STRING COLLATE UTF8_BINARY",
]
REFUSED_BY_BOTH = [
    "a INT,",
    "a INT NULL",
    "a INT b INT",
    "a STRUCT<b: INT",
    "a ARRAY<INT NOT NULL>",
    "a FOO",
    "a TEXT",
    "a UINT",
    "a DATETIME",
    "a TIMESTAMPTZ",
    "a-b INT",
    "'a' INT",
    "a DECIMAL(10,2,3)",
    "a DECIMAL()",
    "a VARCHAR",
    "a MAP<STRING>",
    "a INT(3)",
    "a DECIMAL(39,0)",
    "a DECIMAL(3,4)",
    "a.b INT",
]
NOT_HELD = [
    "a TIME(7)",
    "a INTERVAL",
]
AVRO_TYPES = [
    ["int", "null", "long"],
    ["null", "string"],
    ["string"],
    ["float", "double"],
    {"type": "enum", "name": "e", "symbols": ["A"]},
    {"type": "fixed", "name": "x", "size": 3},
    {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "map", "values": ["null", {"type": "array", "items": "bytes"}]},
    "null",
]


def converters(spark: SparkSession) -> Any:
    avro: Any = spark._jvm.org.apache.spark.sql.avro  # type: ignore[union-attr]
    return getattr(avro, "SchemaConverters$").__getattr__("MODULE$")


def without_metadata(spark_type: StructType) -> StructType:
    def kept(metadata: Any) -> Any:
        return {k: v for k, v in metadata.items() if k == "__COLLATIONS"}

    def strip(document: Any) -> Any:
        if isinstance(document, dict):
            return {k: kept(v) if k == "metadata" else strip(v) for k, v in document.items()}
        return [strip(item) for item in document] if isinstance(document, list) else document

    return StructType.fromJson(strip(spark_type.jsonValue()))


@pytest.mark.parametrize("ddl", [*HELD, *ONLY_DDL])
def test_ddl_means_what_it_means_to_spark(spark: SparkSession, ddl: str) -> None:
    expected = without_metadata(StructType.fromDDL(ddl))
    assert Struct(ddl).struct_type() == expected
    assert StructType.fromDDL(Struct(ddl).ddl) == expected


@pytest.mark.parametrize("ddl", HELD)
def test_the_avro_schema_is_the_one_spark_makes(spark: SparkSession, ddl: str) -> None:
    text = StructType.fromDDL(ddl).json()
    jvm: Any = spark._jvm
    spark_type = jvm.org.apache.spark.sql.types.DataType.fromJson(text)
    avro = converters(spark).toAvroType(spark_type, False, "topLevelRecord", "")
    assert Struct(ddl).avro_schema == json.loads(avro.toString())


@pytest.mark.parametrize("type_", AVRO_TYPES, ids=str)
def test_the_struct_type_is_the_one_spark_reads_avro_as(spark: SparkSession, type_: Any) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "f", "type": type_}]}
    jvm: Any = spark._jvm
    parsed = jvm.org.apache.avro.Schema.Parser().parse(json.dumps(schema))
    spark_type = json.loads(converters(spark).toSqlType(parsed).dataType().json())
    assert Avro(schema).struct_type() == StructType.fromJson(spark_type)


@pytest.mark.parametrize("ddl", REFUSED_BY_BOTH)
def test_what_spark_refuses_is_refused(spark: SparkSession, ddl: str) -> None:
    with pytest.raises(Exception, match=r"."):
        StructType.fromDDL(ddl)
    with pytest.raises(FormatError):
        Struct(ddl)


@pytest.mark.parametrize("ddl", NOT_HELD)
def test_spark_types_that_values_cannot_be_kept_in_are_refused(
    spark: SparkSession, ddl: str
) -> None:
    assert StructType.fromDDL(ddl).fields
    with pytest.raises(FormatError):
        Struct(ddl)
