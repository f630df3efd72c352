"""Arrow's types of rows, against those with which PySpark hands rows to Python."""

import pyarrow as pa
import pytest
from hypothesis import given

from statemigrate.checkpoint.rows.spark_types import arrow_schema
from tests.support.unsafe_rows import field, leaf_types, schema_of, structs, types


@given(structs(types(leaf_types("interval year to month")), most=6))
def test_the_schema_is_pyspark_s(schema):
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    assert arrow_schema(schema) == to_arrow_schema(StructType.fromJson(schema), timezone="UTC")


@pytest.mark.parametrize(
    ("spark", "kind"),
    [
        ("char(3)", pa.string()),
        ("varchar(30)", pa.string()),
        ("string collate UTF8_BINARY", pa.string()),
        ("interval hour", pa.duration("us")),
        ("interval minute to second", pa.duration("us")),
        ("interval year", pa.int32()),
        ("time(6)", pa.time64("ns")),
        ("null", pa.null()),
    ],
)
def test_other_names_of_types_are_known(spark, kind):
    assert arrow_schema(schema_of(field("f", spark))).field("f").type == kind
