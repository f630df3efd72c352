"""Rows that two sides have alike are left out, and no others; of any schema that Spark has."""

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.arrow_rows import arrow
from support.unsafe_rows import leaf_types, structs, types, values

from statemigrate.checkpoint.rows import RowCodec, arrow_schema, schema_json
from statemigrate.state import RowStream, unequal_after, unequal_rows
from statemigrate.state.equal_rows import ChangedRows


def bytes_of(codec, table):
    rows = [codec.encode(batch).to_list() for batch in table.to_batches() if batch.num_rows]
    return Counter(each for part in rows for each in part)


@st.composite
def sides(draw):
    """A schema, and the rows of two sides in any order, many of which both have."""
    schema = draw(structs(types(leaf_types())))
    some = draw(st.lists(values(schema, nullable=False), min_size=1, max_size=6))
    chosen = st.lists(st.sampled_from(some), max_size=12)
    return schema, draw(chosen), draw(chosen)


def table(schema, rows):
    own = arrow_schema(schema)
    columns = arrow(schema, rows).flatten() if rows else [pa.array([], each.type) for each in own]
    return pa.Table.from_arrays(columns, schema=pa.schema([(f.name, f.type) for f in own]))


@given(sides(), st.integers(1, 4), st.integers(1, 9))
def test_what_both_sides_have_equally_often_is_left_out_and_nothing_else(given, size, fewest):
    schema, *rows = given
    old, new = (table(schema, each) for each in rows)
    streams = [RowStream(each.schema, each.to_batches(size)) for each in (old, new)]
    found = unequal_rows(*streams, old.column_names, fewest=fewest)
    codec = RowCodec(schema_json(old.schema))
    before, after = bytes_of(codec, old), bytes_of(codec, new)
    rest = bytes_of(codec, found.old), bytes_of(codec, found.new)
    assert found.count == len(rows[1])
    # A row that one side has more often may have met some of its copies on the way.
    assert rest[0] - rest[1] == before - after
    assert rest[1] - rest[0] == after - before
    assert not [each for each in before if before[each] == after[each] and each in rest[0]]


@given(structs(types(leaf_types())))
def test_a_schema_made_of_columns_has_the_columns_of_the_first(schema):
    own = arrow_schema(schema)
    assert [each.type for each in arrow_schema(schema_json(own))] == [each.type for each in own]


def test_columns_of_other_types_and_of_types_that_spark_has_not_leave_all_rows():
    old = pa.table({"k": [1, 2], "n": pa.array([1, 2], pa.int64())})
    new = old.set_column(1, "n", pa.array([1, 2], pa.int32()))
    found = unequal_rows(RowStream.of(old), RowStream.of(new), ["k", "n"])
    assert (found.old, found.new) == (old, new)
    found = unequal_rows(RowStream.of(old), RowStream.of(new), ["k"])
    assert (found.old.num_rows, found.new.num_rows) == (0, 0)
    strange = pa.table({"k": pa.array([1, 2], pa.uint64())})
    found = unequal_rows(RowStream.of(strange), RowStream.of(strange), ["k"])
    assert (found.old, found.new) == (strange, strange)


def test_a_zero_with_a_sign_stays_and_a_nan_with_the_same_bits_goes():
    old, new = pa.table({"x": [0.0, float("nan")]}), pa.table({"x": [-0.0, float("nan")]})
    found = unequal_rows(RowStream.of(old), RowStream.of(new), ["x"])
    assert (found.old["x"].to_pylist(), found.new["x"].to_pylist()) == ([0.0], [-0.0])


def test_a_null_where_the_schema_has_none_leaves_all_rows():
    kind = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    rows = pa.table({"k": [1, 2], "s": pa.array([{"a": None}, {"a": 1}], kind)})
    found = unequal_rows(RowStream.of(rows), RowStream.of(rows), ["k", "s"])
    assert (found.old, found.new, found.count) == (rows, rows, 2)


VALUES = pa.schema(
    [
        ("k", pa.string()),
        ("_index", pa.int64()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.struct([("nothing", pa.null()), ("n", pa.int64())])),
    ]
)
places = st.tuples(st.sampled_from(["a", "b", None, ""]), st.integers(0, 2))
contents = st.tuples(
    st.sampled_from([None, 0, 1]),
    st.sampled_from([0.0, -0.0, float("nan")]),
    st.sampled_from([None, {"nothing": None, "n": 1}, {"nothing": None, "n": None}]),
)
states = st.dictionaries(places, contents, max_size=8)


def state(found, keys=None, order=()):
    """Rows of a side as a table; of some keys alone where these are given."""
    rows = [(*key, *found[key]) for key in sorted(found, key=repr) if keys is None or key in keys]
    columns = list(zip(*rows, strict=True)) or [()] * len(VALUES)
    arrays = [pa.array(each, kind) for each, kind in zip(columns, VALUES.types, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=VALUES)
    return table.select(list(order)) if order else table


@st.composite
def batches(draw, before):
    """What a batch makes of a state: some keys are written, to what they were too, or removed."""
    after = {**before, **draw(states)}
    for key in draw(st.lists(places, max_size=4)):
        after.pop(key, None)
    return after


@given(states, states, st.data())
def test_rows_unequal_after_each_batch_are_those_that_a_look_at_all_rows_finds(old, new, data):
    names = VALUES.names
    orders = (names, ["x", "s", "k", "n", "_index"])

    def whole():
        tables = [state(each, order=order) for each, order in zip((old, new), orders, strict=True)]
        return unequal_rows(*map(RowStream.of, tables), names)

    found = whole()
    for _ in range(3):
        before = (old, new)
        old, new = (data.draw(batches(each)) for each in before)
        written = [
            # Keys that were written are there too, though nothing of them has changed.
            {key for key in {*was, *now} if repr(was.get(key)) != repr(now.get(key))}
            | set(data.draw(st.lists(places, max_size=2)))
            for was, now in zip(before, (old, new), strict=True)
        ]
        changed = [
            ChangedRows(state(was, keys, order), state(now, keys, order))
            for was, now, keys, order in zip(before, (old, new), written, orders, strict=True)
        ]
        found = unequal_after(found, *changed, ["k", "_index"], names)
        expected = whole()
        assert found.count == expected.count == len(new)
        for one, other in ((found.old, expected.old), (found.new, expected.new)):
            texts = [sorted(map(repr, each.select(names).to_pylist())) for each in (one, other)]
            assert texts[0] == texts[1]


def test_sides_with_other_columns_or_without_a_key_are_looked_at_as_a_whole():
    rows = state({("a", 0): (1, 0.0, None)})
    wider = rows.append_column("more", pa.array([1]))
    none = ChangedRows(rows.slice(0, 0), rows.slice(0, 0))
    more = ChangedRows(wider.slice(0, 0), wider.slice(0, 0))
    found = unequal_rows(RowStream.of(rows), RowStream.of(wider), ["k", "n"])
    assert unequal_after(found, none, more, ["k"], ["k", "n"]) is None
    found = unequal_rows(RowStream.of(rows), RowStream.of(rows), ["n"])
    assert unequal_after(found, none, none, [], ["n"]) is None
