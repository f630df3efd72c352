"""Arrow to Spark's rows and back, against an encoder that handles one value at a time."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.rows.spark_types import arrow_schema
from statemigrate.checkpoint.rows.unsafe_row import RowCodec
from statemigrate.errors import UnsupportedError, ValueMismatchError
from tests.support.arrow_rows import arrow
from tests.support.unsafe_rows import field, leaf_types, row, schema_of, structs, types, values

SCHEMAS = structs(types(leaf_types()), most=6)


@st.composite
def tables(draw):
    schema = draw(SCHEMAS)
    rows = draw(st.lists(values(schema, False), max_size=6))
    return schema, rows


@given(tables())
def test_rows_are_the_bytes_that_one_value_at_a_time_gives(table):
    schema, rows = table
    assert RowCodec(schema).encode(arrow(schema, rows)).to_list() == [row(schema, r) for r in rows]


@given(tables())
def test_what_was_encoded_is_decoded(table):
    schema, rows = table
    codec, made = RowCodec(schema), arrow(schema, rows)
    decoded = codec.decode(codec.encode(made))
    decoded.validate(full=True)
    assert decoded.type == made.type
    assert decoded.equals(made)


@given(tables(), st.integers(0, 6), st.integers(0, 6))
def test_a_slice_of_a_batch_is_encoded_as_its_rows_are(table, start, count):
    schema, rows = table
    part = arrow(schema, rows).slice(start, count)
    encoded = RowCodec(schema).encode(part)
    assert encoded.to_list() == [row(schema, each) for each in rows[start : start + count]]
    assert RowCodec(schema).decode(encoded).equals(part)


@given(tables())
def test_a_batch_of_columns_is_encoded_as_structs_are(table):
    schema, rows = table
    made = arrow(schema, rows)
    columns = [made.field(index) for index in range(len(schema["fields"]))]
    batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))
    assert RowCodec(schema).encode(batch).to_list() == [row(schema, each) for each in rows]


@given(st.lists(st.integers(0, 2**63 - 1) | st.none(), min_size=130, max_size=130))
def test_a_wide_row_has_several_words_of_nulls(numbers):
    schema = schema_of(*(field(f"f{i}", "long") for i in range(130)))
    value = {f"f{i}": number for i, number in enumerate(numbers)}
    codec = RowCodec(schema)
    encoded = codec.encode(arrow(schema, [value, value]))
    assert encoded.to_list() == [row(schema, value)] * 2
    assert codec.decode(encoded).to_pylist() == [value] * 2


@given(st.lists(st.booleans() | st.none(), max_size=200))
def test_a_long_array_has_several_words_of_nulls(flags):
    flagged = {"type": "array", "elementType": "boolean", "containsNull": True}
    schema = schema_of(field("flags", flagged))
    codec = RowCodec(schema)
    encoded = codec.encode(arrow(schema, [{"flags": flags}]))
    assert encoded.to_list() == [row(schema, {"flags": flags})]
    assert codec.decode(encoded).to_pylist() == [{"flags": flags}]


def test_what_a_null_list_or_struct_hides_is_not_encoded():
    listed = {"type": "array", "elementType": "string", "containsNull": False}
    schema = schema_of(field("a", listed), field("s", schema_of(field("x", "string", False))))
    hidden = pa.array(["left", "over", "kept"])
    mask = pa.array([True, False])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), hidden, mask=mask)
    inner = pa.StructArray.from_arrays([pa.array([None, "here"])], ["x"], mask=mask)
    encoded = RowCodec(schema).encode(pa.StructArray.from_arrays([lists, inner], ["a", "s"]))
    expected = [{"a": None, "s": None}, {"a": ["kept"], "s": {"x": "here"}}]
    assert encoded.to_list() == [row(schema, each) for each in expected]


def test_wide_forms_of_strings_binaries_and_lists_are_taken_too():
    listed = {"type": "array", "elementType": "binary", "containsNull": True}
    schema = schema_of(field("s", "string"), field("a", listed))
    kind = pa.struct([("s", pa.large_string()), ("a", pa.large_list(pa.large_binary()))])
    values = [{"s": "é", "a": [b"1", None]}, {"s": None, "a": None}]
    encoded = RowCodec(schema).encode(pa.array(values, kind))
    assert encoded.to_list() == [row(schema, each) for each in values]


@pytest.mark.parametrize(
    ("spark", "named"),
    [
        ("string collate UNICODE_CI", "a collated string"),
        ("variant", "variant"),
        ("interval", "interval"),
        ("decimal(39,0)", "decimal"),
        (
            {"type": "map", "keyType": "void", "valueType": "void", "valueContainsNull": True},
            "keys",
        ),
        ({"type": "udt", "class": "org.Point"}, "udt"),
        ({"type": "array", "elementType": "geometry(4326)", "containsNull": True}, "geometry"),
    ],
)
def test_a_type_that_is_not_known_is_refused_by_its_name(spark, named):
    with pytest.raises(UnsupportedError, match=named) as caught:
        RowCodec(schema_of(field("key", spark)))
    assert caught.value.data["field"].startswith("key")


def test_a_collation_in_a_field_s_metadata_is_refused():
    collated = {**field("key", "string"), "metadata": {"__COLLATIONS": {"key": "icu.UNICODE"}}}
    with pytest.raises(UnsupportedError, match="UNICODE"):
        RowCodec(schema_of(collated))


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"type": "struct"}, [], "long"])
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(UnsupportedError):
        RowCodec(schema)


@pytest.mark.parametrize(("depth", "why"), [(100, "one within another"), (2000, "Recursion")])
def test_a_schema_nested_without_end_is_refused(depth, why):
    schema = schema_of(field("x", "long"))
    for _ in range(depth):
        schema = schema_of(field("x", schema))
    with pytest.raises(UnsupportedError, match=why):
        RowCodec(schema)


def test_a_null_that_a_field_does_not_allow_is_refused():
    schema = schema_of(field("s", schema_of(field("count", "long", False))))
    kind = pa.struct([("s", pa.struct([("count", pa.int64())]))])
    with pytest.raises(ValueMismatchError, match=r"s\.count is null in 1 rows"):
        RowCodec(schema).encode(pa.array([{"s": {"count": None}}, {"s": None}], kind))


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([("k", pa.int32())]),
        pa.struct([("other", pa.int64())]),
        pa.struct([("k", pa.int64()), ("more", pa.int64())]),
        pa.struct([("k", pa.struct([("x", pa.int64())]))]),
    ],
)
def test_columns_that_are_not_the_schema_s_are_refused(kind):
    with pytest.raises(ValueMismatchError, match="what the schema says"):
        RowCodec(schema_of(field("k", "long"))).encode(pa.nulls(1, kind))
