"""The identity of a key is the same for the same bits alone, whatever Spark takes for equal."""

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from statemigrate.checkpoint.rows.spark_types import arrow_schema
from statemigrate.formats import Struct
from statemigrate.native.backfill_planning import IDENTITY, _Identify, has_equal_twins

FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1.0, None]
COLUMNS = {
    "DOUBLE": [*FLOATS, math.nextafter(1.0, 2)],
    "FLOAT": [*FLOATS[:5], 1e-45, -1e-45, 1.0, None],
    "STRUCT<x: DOUBLE, s: STRING>": [{"x": x, "s": s} for x in FLOATS for s in ("", None)] + [None],
    "ARRAY<DOUBLE>": [[], None, [None], [0.0], [-0.0], [0.0, -0.0], [-0.0, 0.0], [math.nan]],
    "ARRAY<STRUCT<x: ARRAY<FLOAT>>>": [[{"x": [0.0]}], [{"x": [-0.0]}], [{"x": None}], [None], []],
    "STRING": ["", "\u00e9", "e\u0301", "a", "A", "a ", "\x00", "a\x00", None],
    "DECIMAL(38,18)": [Decimal("0"), Decimal("1E-18"), Decimal("-1E-18"), None],
    "BINARY": [b"", b"\x00", b"\x00\x00", b"\xff", None],
    "BIGINT": [0, -1, 2**63 - 1, -(2**63), None],
}


def key_of(ddl) -> StructType:
    return Struct(f"k STRING, x {ddl}").struct_type()


def rows(ddl, values):
    schema = arrow_schema(key_of(ddl).jsonValue())
    keys = pa.array(
        [{"k": k, "x": x} for k in ("", "a", None) for x in values], pa.struct(list(schema))
    )
    return pa.RecordBatch.from_arrays([keys], ["key"])


@pytest.mark.parametrize("ddl", COLUMNS)
def test_every_key_has_one_of_its_own_and_the_same_each_time(ddl):
    batch = rows(ddl, COLUMNS[ddl])
    (made,) = _Identify(key_of(ddl))(iter([batch]))
    (again,) = _Identify(key_of(ddl))(iter([batch.take(pa.array(range(len(batch))[::-1]))]))
    identities = made.column(IDENTITY).to_pylist()
    assert len(set(identities)) == len(identities) == 3 * len(COLUMNS[ddl])
    assert again.column(IDENTITY).to_pylist() == identities[::-1]
    assert repr(made.column("key").to_pylist()) == repr(batch.column("key").to_pylist())


def test_keys_without_floating_point_numbers_need_none():
    needed = {ddl: has_equal_twins(key_of(ddl)) for ddl in COLUMNS}
    assert {ddl for ddl, is_needed in needed.items() if is_needed} == {
        ddl for ddl in COLUMNS if "DOUBLE" in ddl or "FLOAT" in ddl
    }
