"""Fields that go by name become what Spark's own casts make of them, and start as it is said."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from statemigrate.rewrite.arrow_types import arrow_row, row_type
from statemigrate.rewrite.column_pairing import is_wider
from statemigrate.rewrite.entry_functions import changed_struct, started
from statemigrate.rewrite.fields import match_fields

pytestmark = pytest.mark.spark

MOMENT = dt.datetime(1582, 10, 5, 23, 59, 59, 999999)
VALUES = {
    "byte": st.sampled_from([0, 127, -128]),
    "short": st.sampled_from([0, 2**15 - 1, -(2**15)]),
    "integer": st.sampled_from([0, 2**31 - 1, -(2**31), 16777217]),
    "long": st.sampled_from([0, 2**63 - 1, -(2**63)]),
    "float": st.sampled_from([0.0, -0.0, 1.5, 3.4028234663852886e38, float("-inf")]),
    "double": st.sampled_from([0.1, -1e300]),
    "boolean": st.booleans(),
    "string": st.sampled_from(["", "\u00e9", "long " * 9]),
    "binary": st.sampled_from([b"", b"\0\xff"]),
    "date": st.sampled_from([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    "timestamp_ntz": st.sampled_from([MOMENT, dt.datetime(2026, 2, 28, 12)]),
    "timestamp": st.sampled_from([MOMENT.replace(tzinfo=dt.UTC)]),
    "decimal(5,2)": st.sampled_from([Decimal("999.99"), Decimal("-0.01")]),
}
WIDER = [*VALUES, "decimal(7,4)", "decimal(38,3)", "decimal(20,0)", "decimal(10,0)"]


def struct(fields):
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in fields.items()
        ],
    }


@st.composite
def changes(draw, depth=2):
    """An old struct, a new one, and a strategy of the old one's rows."""
    old, new, rows = {}, {}, {}
    for number in range(draw(st.integers(1, 6))):
        name = f"f{number}"
        kinds = [*VALUES, "list", "map", *(["struct"] * 4 if depth else [])]
        kind = draw(st.sampled_from(kinds))
        after = None
        if kind == "struct":
            kind, after, values = draw(changes(depth=depth - 1))
        elif kind == "list":
            kind = {"type": "array", "elementType": "short", "containsNull": True}
            values = st.lists(st.none() | VALUES["short"], max_size=3)
        elif kind == "map":
            kind = {"type": "map", "keyType": "string", "valueType": "date"}
            kind["valueContainsNull"] = True
            values = st.lists(st.tuples(st.sampled_from("ab"), VALUES["date"]), max_size=1)
        else:
            values = VALUES[kind]
            after = draw(st.sampled_from([kind, *(w for w in WIDER if is_wider(kind, w))]))
        old[name], rows[name] = kind, st.none() | values
        if draw(st.integers(0, 4)):
            new[name] = after or kind
    new["new"] = draw(st.sampled_from(list(VALUES)))
    names = draw(st.permutations(list(new)))
    return struct(old), struct({name: new[name] for name in names}), st.fixed_dictionaries(rows)


def as_spark_casts(row, old, new):
    """The new struct as columns of Spark's."""
    there = {each["name"]: each["type"] for each in old["fields"]}
    columns = []
    for field in row_type(new).fields:
        source, before = row.getField(field.name), there.get(field.name)
        if before is None:
            column = F.lit(None).cast(field.dataType)
        elif isinstance(before, dict) and before["type"] == "struct":
            inner = as_spark_casts(source, before, field.dataType.jsonValue())
            column = F.when(source.isNotNull(), inner)
        else:
            column = source.cast(field.dataType)
        columns.append(column.alias(field.name))
    return F.struct(*columns)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_fields_become_what_spark_makes_of_them(spark, data):
    old, new, rows = data.draw(changes())
    values = pa.array(data.draw(st.lists(rows, min_size=1, max_size=6)), arrow_row(old))
    change = match_fields(old, new, {}, "s")
    starts = {each.label: started(each.label, each.type, {}) for each in change.added}
    made = changed_struct(values, change, arrow_row(new), starts)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    schema = StructType().add("row", row_type(old))
    frame = session.createDataFrame(pa.table({"row": values}), schema)
    expected = frame.select(as_spark_casts(F.col("row"), old, new).alias("row")).toArrow()
    assert list(map(repr, made.to_pylist())) == list(map(repr, expected["row"].to_pylist()))
    assert made.type == arrow_row(new)


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
    kind = StructType.fromDDL(f"x {ddl}").jsonValue()["fields"][0]["type"]
    for each, wanted in ((said, expected), (None, None)):
        made = started("s.x", kind, {"s.x": each})
        # Spark takes it for that type.
        row = spark.createDataFrame(pa.table({"x": made}), f"x {ddl}").collect()
        assert [each.x for each in row] == [wanted]
