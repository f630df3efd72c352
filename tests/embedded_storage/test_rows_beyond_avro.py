"""Rows and plain values of types that Avro has not."""

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import Row
from pyspark.sql.types import VariantVal

from statemigrate.access import DualAccess
from statemigrate.errors import ValueMismatchError
from statemigrate.families import MemoryFamily
from statemigrate.formats import Struct
from statemigrate.processor.rows import TupleCodec
from statemigrate.processor.variables import put_row

LOCAL = dt.datetime(2026, 7, 1, 12, 30)
AWARE = LOCAL.astimezone(dt.UTC)
PARTS = {"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}
CASES = {
    "MAP<INT, TIMESTAMP>": ({1: LOCAL, 2: None}, {1: AWARE, 2: None}),
    "MAP<TIMESTAMP, INT>": ({LOCAL: 1}, {AWARE: 1}),
    "MAP<DECIMAL(5,2), ARRAY<MAP<INT, DATE>>>": (
        {Decimal("1.00"): [{1: dt.date(1, 1, 1)}]},
        {Decimal("1.00"): [{1: dt.date(1, 1, 1)}]},
    ),
    "MAP<STRUCT<x: INT, at: TIMESTAMP>, INT>": ({Row(x=1, at=LOCAL): 5}, {(1, AWARE): 5}),
    "MAP<ARRAY<TIMESTAMP>, INT>": ({(LOCAL, None): 5}, {(AWARE, None): 5}),
    "INTERVAL DAY TO SECOND": (dt.timedelta(1), dt.timedelta(1)),
    "STRUCT<`a.b`: INTERVAL MINUTE>": (Row(**{"a.b": dt.timedelta(1)}), {"a.b": dt.timedelta(1)}),
}


@pytest.mark.parametrize("ddl", CASES)
def test_a_row_becomes_a_plain_value_and_comes_back(ddl):
    given, plain = CASES[ddl]
    format_ = Struct(f"f {ddl}")
    rows = TupleCodec(format_.struct_type())
    assert rows.to_value((given,)) == {"f": plain}
    stored = format_.decode(format_.encode({"f": plain}))
    assert repr(rows.to_tuple(stored)) == repr((given,))


def test_a_variant_is_its_two_parts():
    format_ = Struct("f VARIANT, many ARRAY<VARIANT>")
    for rows in (TupleCodec(format_.struct_type(), rows=each) for each in (True, False)):
        value = rows.to_value((VariantVal(**PARTS), [VariantVal(bytearray(b"x"), b"y"), None]))
        assert value == {"f": PARTS, "many": [{"value": b"x", "metadata": b"y"}, None]}
        one, (other, nothing) = rows.to_tuple(format_.decode(format_.encode(value)))
        assert (one.value, one.metadata) == (PARTS["value"], PARTS["metadata"])
        assert (type(one), other.value, nothing) == (VariantVal, b"x", None)


def test_keys_of_a_map_are_taken_as_spark_takes_them():
    np, pd = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    format_ = Struct("f MAP<INT, INT>, g MAP<ARRAY<INT>, DATE>, h MAP<STRUCT<x: DATE>, INT>")
    family = MemoryFamily("s", "base", format_)
    rows = TupleCodec(format_.struct_type())
    day = dt.date(2026, 7, 1)
    given = ({np.int64(1): np.int8(2)}, {(np.int32(1), None): LOCAL}, {(pd.Timestamp(LOCAL),): 1})
    put_row(DualAccess("s", family), rows, b"k", given)
    assert family.get(b"k") == {"f": {1: 2}, "g": {(1, None): day}, "h": {(day,): 1}}
    with pytest.raises(ValueMismatchError, match=r"^The processor put into state s"):
        put_row(DualAccess("s", family), rows, b"k", ({}, {}, {(LOCAL,): 1, (day,): 2}))
