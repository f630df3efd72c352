"""What is said to be the start of a new field is what its rows get, of whatever type."""

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql.types import StructType

from statemigrate.rewrite.plan.asking.starting import plain_start
from statemigrate.rewrite.rows.columns import start

pytestmark = pytest.mark.spark

CASES = {
    "BIGINT": (-(2**63), -(2**63)),
    "DOUBLE": (1.5, 1.5),
    "BOOLEAN": (False, False),
    "STRING": ('a "quoted" \u00e9', 'a "quoted" \u00e9'),
    "BINARY": ("AP8=", bytearray(b"\x00\xff")),
    "DECIMAL(38,2)": (
        "123456789012345678901234567890.25",
        Decimal("123456789012345678901234567890.25"),
    ),
    "DATE": ("2026-02-28", dt.date(2026, 2, 28)),
    "TIMESTAMP_NTZ": ("2026-02-28T12:30:00.000001", dt.datetime(2026, 2, 28, 12, 30, 0, 1)),
    "ARRAY<BIGINT>": ([1, None, 3], [1, None, 3]),
    "MAP<STRING, DOUBLE>": ({"a": 1.5}, {"a": 1.5}),
    "STRUCT<d: DATE, b: BINARY>": (
        {"d": "2026-02-28", "b": "AP8="},
        (dt.date(2026, 2, 28), bytearray(b"\x00\xff")),
    ),
}


@pytest.mark.parametrize("ddl", CASES)
def test_a_start_is_what_was_said(spark, ddl):
    said, expected = CASES[ddl]
    target = StructType.fromDDL(f"x {ddl}")["x"].dataType
    for each, wanted in ((said, expected), (None, None)):
        made = spark.range(2).select(
            start(plain_start("s.x", target.jsonValue(), each), target).alias("x")
        )
        assert made.schema["x"].dataType == target
        assert [row.x for row in made.collect()] == [wanted, wanted]
