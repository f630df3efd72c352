"""A batch processor leaves the state, and gives the output, of the same program key by key."""

import datetime as dt
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from support.batch_twins import ByKey, ByTable, Program, Twin
from support.lens_scripts import CHANGE, LINEAGE, OLD, lineage_of, value
from support.random_lenses import fitting_changes

from statemigrate import BatchProcessor
from statemigrate.errors import (
    ProcessorError,
    StartupError,
    StatemigrateError,
    TransformError,
    UnsupportedError,
    ValueMismatchError,
)
from statemigrate.formats import Struct
from statemigrate.formats.examples import made_up_values
from statemigrate.processor import batch_processor, state_columns
from statemigrate.processor.batch_processor import KeyBlocks
from statemigrate.processor.startup import check_called_by_key
from statemigrate.processor.state_columns import check_names

KEYS = [
    *((None, None), ("", None), ("", 0), ("a\x00", 1), ("a", -1), ("a", 1), ("größer", 2**62)),
    *((f"key-{n}", n) for n in range(6)),
]
BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 40)), min_size=1, max_size=60),
    min_size=1,
    max_size=3,
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of a few keys, so that some rows of a key come in another batch of Arrow."""
    monkeypatch.setattr(batch_processor, "FIRST", 3)
    monkeypatch.setattr(batch_processor, "MOST", 5)
    # Some blocks have their values as columns, others one by one.
    monkeypatch.setattr(state_columns, "FEW", 3)


def rows_of(batch):
    return [(*key, act) for key, act in batch]


def ran(twin, processor, batch):
    try:
        return twin.run(processor, rows_of(batch))
    except StatemigrateError as error:
        return error.code


def both(tmp_path_factory, **options):
    return [Twin(tmp_path_factory.mktemp("twin"), **options) for _ in range(2)]


@pytest.mark.long
@given(fitting_changes(), BATCHES, BATCHES, st.booleans(), st.booleans())
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    # A history takes long to make shorter.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
def test_any_state_is_the_same_as_key_by_key_before_and_after_a_migration(
    tmp_path_factory, change, before, after, write_on_read, reorders
):
    # A NaN is never what it was: the program by key would write what has not changed.
    old, new = (
        Program(fmt, [each for each in made_up_values(fmt, 24) if "nan" not in repr(each)])
        for fmt in (change.old, change.new)
    )
    if not old.values or not new.values or not change.new.schema.fields:
        return
    twins = both(tmp_path_factory, write_on_read=write_on_read)
    for twin in twins:
        twin.deploy(change.old)
    for batch in before:
        found = [
            ran(twin, processor, batch)
            for twin, processor in zip(
                twins, (ByKey(old), ByTable(old, reorders=reorders)), strict=True
            )
        ]
        assert found[0] == found[1]
    assert twins[0].contents() == twins[1].contents()
    lineages = {name: lineage_of(change, store=name) for name in twins[0].plans}
    for twin in twins:
        twin.deploy(change.new, lineages)
    for batch in after:
        found = [
            ran(twin, processor, batch)
            for twin, processor in zip(
                twins, (ByKey(new), ByTable(new, reorders=reorders)), strict=True
            )
        ]
        event("failed" if isinstance(found[0], str) else f"touched {found[0][1][2] > 0}")
        if isinstance(found[0], str) or isinstance(found[1], str):
            assert {type(each) for each in found} == {str}
            return
        assert found[0] == found[1]
    assert twins[0].contents() == twins[1].contents()


@given(st.dictionaries(st.sampled_from(KEYS), st.integers(1, 9)), st.integers(1, 9))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_blocks_have_all_rows_of_their_keys_in_their_order(groups, size):
    rows = [(*key, n) for key, number in groups.items() for n in range(number)]
    kinds = [pa.string(), pa.int64(), pa.int32()]
    columns = zip(zip(*rows, strict=True) if rows else [[], [], []], kinds, strict=True)
    table = pa.table([pa.array(each, kind) for each, kind in columns], names=["x", "y", "z"])
    blocks = KeyBlocks(table.to_batches(size), (0, 1), ["a", "b", "n"])
    found = list(blocks)
    assert [tuple(row.values()) for each in found for row in each.rows.to_pylist()] == rows
    assert [tuple(row.values()) for each in found for row in each.keys.to_pylist()] == list(groups)
    for each in found:
        own = {tuple(row.values()) for row in each.keys.to_pylist()}
        assert {tuple(row.values())[:2] for row in each.rows.to_pylist()} == own
        assert each.keys.num_rows <= batch_processor.FIRST
        numbers = BatchProcessor.aggregate(each.keys, each.rows, [("n", "count"), ("n", "max")])
        assert numbers.column_names == ["a", "b", "n_count", "n_max"]
        for *key, count, most in (row.values() for row in numbers.to_pylist()):
            assert (count, most) == (groups[tuple(key)], groups[tuple(key)] - 1)
        assert numbers.select(["a", "b"]).equals(each.keys)
    assert (blocks.rows, blocks.keys) == (len(rows), len(groups))


def test_blocks_are_smaller_where_rows_and_state_are_large():
    blocks = KeyBlocks([], (0,), ["a"])
    blocks.fit_to(10, 16 << 20)
    assert blocks.keys_a_block == batch_processor.MOST
    blocks.fit_to(10, 80 << 20)
    assert blocks.keys_a_block == 2
    blocks.fit_to(1, 1 << 30)
    assert blocks.keys_a_block == 1


COUNTS = "n BIGINT NOT NULL, d DECIMAL(5,2), at TIMESTAMP"


class Counting(BatchProcessor):
    """Counts rows; ``change`` makes what it returns of its state, keys and output."""

    def __init__(self, change=lambda state, keys, output: (state, output)):
        self._change = change

    def init(self, handle):
        handle.getValueState("counts", COUNTS)

    def handleBatch(self, keys, rows, state, timerValues):
        added = self.aggregate(keys, rows, [([], "count_all")])
        before = pc.fill_null(pc.struct_field(state["counts"].chunk(0), "n"), 0)
        n = pc.add(before, added["count_all"].chunk(0))
        moment = dt.datetime.fromtimestamp(
            timerValues.getCurrentProcessingTimeInMs() / 1000, dt.UTC
        )
        arrays = [
            n,
            pa.array([Decimal("1.50")] * len(n), pa.decimal128(5, 2)),
            pa.array([moment] * len(n), pa.timestamp("us", "UTC")),
        ]
        counts = pa.StructArray.from_arrays(arrays, ["n", "d", "at"])
        new = added.select(["a", "b"]).append_column("counts", counts)
        output = added.select(["a", "b"]).append_column("had", pc.cast(n, pa.int32()))
        return self._change(new, keys, output)


@pytest.fixture
def twin(tmp_path):
    """A partition with the one variable of `Counting`, and a batch of four keys in it."""
    made = Twin(tmp_path)
    made.deploy(Struct(COUNTS), kinds={"counts": "value"})
    made.run(Counting(), [("x", n % 4, 0) for n in range(10)])
    return made


def counts(twin):
    (entries,) = twin.contents()[0].values()
    return [Struct(COUNTS).decode(data)["n"] for _, data in entries]


def column(table, name, make):
    """The table with another column of a name."""
    return table.set_column(
        table.column_names.index(name), name, make(table[name].combine_chunks())
    )


def field(table, name, make):
    """The table with another field of the structs in ``counts``."""
    structs = table["counts"].combine_chunks()
    names = [each.name for each in structs.type]
    arrays = [make(structs.field(each)) if each == name else structs.field(each) for each in names]
    made = pa.StructArray.from_arrays(arrays, names)
    return table.set_column(table.column_names.index("counts"), "counts", made)


TAKEN = {
    "a record batch": lambda state, _, output: (state.to_batches()[0], output.to_batches()[0]),
    "a reader": lambda state, _, output: (state.to_reader(), output),
    "Polars": lambda state, _, output: (pl.from_arrow(state), pl.from_arrow(output)),
    "pandas": lambda state, _, output: (
        field(state, "at", lambda each: pa.array(each.to_pandas())),
        output.to_pandas(),
    ),
    "other orders": lambda state, _, output: (
        state.take([*reversed(range(len(state)))]).select(["counts", "b", "a"]),
        output.select(["had", "b", "a"]),
    ),
    "fields in another order": lambda state, *rest: (
        state.set_column(
            2,
            "counts",
            pa.StructArray.from_arrays(
                list(reversed(state["counts"].combine_chunks().flatten())), ["at", "d", "n"]
            ),
        ),
        rest[1],
    ),
    "smaller types": lambda state, _, output: (
        field(state, "n", lambda each: each.cast(pa.uint8())),
        column(output, "had", lambda each: each.cast(pa.int64())),
    ),
    "a dictionary": lambda state, _, output: (
        column(state, "a", lambda each: each.dictionary_encode()),
        output,
    ),
    "another zone": lambda state, _, output: (
        field(state, "at", lambda each: each.cast(pa.timestamp("ns", "Asia/Tokyo"))),
        output,
    ),
}


@pytest.mark.parametrize("case", TAKEN)
def test_tables_of_several_libraries_and_types_are_taken(twin, case):
    before = twin.contents()
    output, _ = twin.run(Counting(TAKEN[case]), [("x", n % 4, 0) for n in range(10)])
    assert counts(twin) == [6, 6, 4, 4]
    assert sorted((row["b"], row["had"]) for row in output) == [(0, 6), (1, 6), (2, 4), (3, 4)]
    assert list(output[0]) == ["a", "b", "had"]
    assert twin.contents() != before


REFUSED = {
    "no pair": (lambda state, *_: state, ProcessorError, "SM-PROCESSOR-003"),
    "three": (lambda *all_: all_, ProcessorError, "SM-PROCESSOR-003"),
    "no table": (lambda *_: ({"a": []}, None), ProcessorError, "SM-PROCESSOR-003"),
    "no table of output": (lambda *_: (None, [1]), ProcessorError, "SM-PROCESSOR-003"),
    "mixed types": (
        lambda state, *_: (
            state.select(["a", "b"]).to_pandas().assign(counts=[1, "2", None, b"3"][: len(state)]),
            None,
        ),
        ProcessorError,
        "SM-PROCESSOR-003",
    ),
    "a key less": (lambda state, *_: (state.slice(1), None), ProcessorError, "SM-PROCESSOR-005"),
    "a key twice": (
        lambda state, *_: (pa.concat_tables([state, state.slice(0, 1)]), None),
        ProcessorError,
        "SM-PROCESSOR-005",
    ),
    "another key": (
        lambda state, *_: (column(state, "b", lambda each: pc.add(each, 100)), None),
        ProcessorError,
        "SM-PROCESSOR-005",
    ),
    "one more key": (
        lambda state, *_: (
            pa.concat_tables([state, column(state, "b", lambda each: pc.add(each, 9))]),
            None,
        ),
        ProcessorError,
        "SM-PROCESSOR-005",
    ),
    "no key column": (
        lambda state, *_: (state.drop_columns(["b"]), None),
        ProcessorError,
        "SM-PROCESSOR-004",
    ),
    "one more column": (
        lambda state, *_: (state.append_column("more", state["b"]), None),
        ProcessorError,
        "SM-PROCESSOR-004",
    ),
    "a column twice": (
        lambda state, *_: (state.append_column("counts", state["counts"]), None),
        ProcessorError,
        "SM-PROCESSOR-004",
    ),
    "no column of output": (
        lambda state, _, output: (state, output.select(["a", "b"])),
        ProcessorError,
        "SM-PROCESSOR-009",
    ),
    "text for a number": (
        lambda state, *_: (field(state, "n", lambda each: each.cast(pa.string())), None),
        ValueMismatchError,
        "SM-PROCESSOR-006",
    ),
    "a float for a number": (
        lambda state, *_: (field(state, "n", lambda each: each.cast(pa.float64())), None),
        ValueMismatchError,
        "SM-PROCESSOR-006",
    ),
    "a wall clock for a moment": (
        lambda state, *_: (field(state, "at", lambda each: each.cast(pa.timestamp("us"))), None),
        ValueMismatchError,
        "SM-PROCESSOR-006",
    ),
    "a nanosecond": (
        lambda state, *_: (
            field(
                state,
                "at",
                lambda each: pc.add(each.cast(pa.int64()), 1).cast(pa.timestamp("ns", "UTC")),
            ),
            None,
        ),
        ValueMismatchError,
        "SM-PROCESSOR-006",
    ),
    "a digit more": (
        lambda state, *_: (
            field(state, "d", lambda each: pc.add(each, Decimal("0.001"))),
            None,
        ),
        ValueMismatchError,
        "SM-PROCESSOR-006",
    ),
    "a field less": (
        lambda state, *_: (
            column(
                state, "counts", lambda each: pa.StructArray.from_arrays([each.field("n")], ["n"])
            ),
            None,
        ),
        ValueMismatchError,
        "SM-PROCESSOR-006",
    ),
    "output too large": (
        lambda state, _, output: (
            state,
            column(output, "had", lambda each: pc.add(each.cast(pa.int64()), 2**40)),
        ),
        ValueMismatchError,
        "SM-PROCESSOR-006",
    ),
    "null for a number": (
        lambda state, *_: (field(state, "n", lambda each: pa.nulls(len(each), each.type)), None),
        ValueMismatchError,
        "SM-VALUE-007",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_state_or_output_is_refused_by_name_and_nothing_is_written(twin, case):
    change, kind, code = REFUSED[case]
    before = twin.contents()
    with pytest.raises(kind) as raised:
        twin.run(Counting(change), [("x", n, 0) for n in range(4)])
    assert raised.value.code == code
    assert twin.contents() == before
    assert counts(twin) == [3, 3, 2, 2]


@pytest.mark.parametrize("hidden", ["1", ""])
def test_an_error_quotes_no_value_where_values_are_hidden(twin, monkeypatch, hidden):
    monkeypatch.setenv("STATEMIGRATE_NO_VALUES", hidden)
    wrong = {
        "a number": lambda _state, _keys, output: (
            None,
            column(output, "had", lambda each: pc.add(each.cast(pa.int64()), 987654321000)),
        ),
        "a key": lambda state, *_: (
            column(state, "b", lambda each: pc.add(each, 987654321000)),
            None,
        ),
        "a mixed column": lambda *_: (
            pl.DataFrame({"a": ["x"]}).to_pandas().assign(b=["987654321003"], counts=[object()]),
            None,
        ),
    }
    for change in wrong.values():
        with pytest.raises(StatemigrateError) as raised:
            twin.run(Counting(change), [("x", 3, 0)])
        assert "98765432" not in str(raised.value) or not hidden


class Labels(BatchProcessor):
    """Writes a map in a value, or a map, in which a key is twice."""

    def __init__(self, store):
        self._store = store

    def init(self, handle):
        handle.getValueState("labels", "m MAP<STRING, INT>")
        handle.getMapState("named", "k STRING, n INT", "m MAP<STRING, INT>")

    def handleBatch(self, keys, rows, state, timerValues):
        labels = [{"m": [("a", 1), ("a", 2)]}]
        named = [[{"key": {"k": "x", "n": 1}, "value": {"m": []}}] * 2]
        values = labels if self._store == "labels" else named
        made = pa.array(values * keys.num_rows, state.schema.field(self._store).type)
        return keys.append_column(self._store, made), None


@pytest.mark.parametrize("store", ["labels", "named"])
def test_a_map_that_has_a_key_twice_is_refused(tmp_path, store):
    twin = Twin(tmp_path)
    twin.deploy(Struct("m MAP<STRING, INT>"), kinds={"labels": "value", "named": "map"})
    with pytest.raises(ValueMismatchError) as raised:
        twin.run(Labels(store), [("x", 1, 0)])
    assert (raised.value.code, raised.value.data["store"]) == ("SM-PROCESSOR-007", store)
    assert not any(twin.contents()[0].values())


def test_none_changes_nothing_and_a_variable_that_is_left_out_does_not_change(twin):
    rows = [("x", n, 0) for n in range(4)]
    output, _ = twin.run(Counting(lambda *_: (None, None)), rows)
    assert (output, counts(twin)) == ([], [3, 3, 2, 2])
    output, _ = twin.run(Counting(lambda state, keys, made: (keys, made)), rows)
    assert (len(output), counts(twin)) == (4, [3, 3, 2, 2])


def test_null_removes_a_value_and_an_equal_one_is_not_written(twin):
    def changed(state, keys, output):
        structs = state["counts"].combine_chunks()
        is_odd = pa.array([key["b"] % 2 == 1 for key in state.to_pylist()])
        return state.set_column(2, "counts", pc.if_else(is_odd, structs, None)), output

    twin.run(Counting(changed), [("x", n, 0) for n in range(4)])
    assert counts(twin) == [4, 3]
    before = twin.state.changelogs

    def unchanged(state, keys, output):
        less = field(state, "n", lambda each: pc.subtract(each, 1))
        return less, output

    twin.run(Counting(unchanged), [("x", 1, 0), ("x", 3, 0)])
    assert counts(twin) == [4, 3]
    assert len(twin.state.changelogs) <= len(before) + 1


def test_one_kind_of_processor_goes_on_with_the_state_of_the_other(tmp_path):
    twins = [Twin(tmp_path / each) for each in ("one", "other", "mixed")]
    program = Program(
        Struct("id BIGINT, text STRING"), [{"id": n, "text": f"{n}"} for n in range(9)]
    )
    for twin in twins:
        twin.deploy(program.format)
    for turn in range(4):
        batch = [(*KEYS[n % len(KEYS)], n * (turn + 2)) for n in range(30)]
        mixed = ByKey if turn % 2 else ByTable
        kinds = (ByKey, ByTable, mixed)
        found = [twin.run(kind(program), batch) for twin, kind in zip(twins, kinds, strict=True)]
        assert found[0] == found[1] == found[2]
    assert twins[0].contents() == twins[1].contents() == twins[2].contents()


def test_a_value_that_no_lens_takes_is_named_with_its_key_and_nothing_is_written(tmp_path):
    twin = Twin(tmp_path)
    twin.deploy(OLD, kinds={"notes": "value"})
    wide = [value(n, 1 << 40 if n == 5 else n) for n in range(9)]

    class Notes(BatchProcessor):
        def init(self, handle):
            handle.getValueState("notes", twin.plans["notes"].declared.schema)

        def handleBatch(self, keys, rows, state, timerValues):
            if twin.version:
                return None, None
            made = pa.array([wide[key["b"]] for key in keys.to_pylist()], state["notes"].type)
            return keys.append_column("notes", made), None

    rows = [("x", n, 0) for n in range(9)]
    twin.run(Notes(), rows)
    before = twin.contents()[1]
    twin.deploy(CHANGE.new, {"notes": LINEAGE}, kinds={"notes": "value"})
    with pytest.raises(TransformError) as raised:
        twin.run(Notes(), rows)
    assert raised.value.data["key"] == ["x", 5] or "('x', 5)" in str(raised.value)
    assert twin.contents()[1] == before
    _, figures = twin.run(Notes(), [row for row in rows if row[1] != 5])
    assert figures == (8, 8, 8)


def test_variables_are_not_called_and_names_are_no_grouping_columns(twin):
    class Calling(Counting):
        def init(self, handle):
            self.counts = handle.getValueState("counts", COUNTS)

        def handleBatch(self, keys, rows, state, timerValues):
            return self.counts.get()

    with pytest.raises(UnsupportedError) as raised:
        twin.run(Calling(), [("x", 1, 0)])
    assert raised.value.code == "SM-PROCESSOR-001"
    declared = [plan.declared for plan in twin.plans.values()]
    check_names(declared, ["a", "b"])
    with pytest.raises(StartupError) as named:
        check_names(declared, ["a", "counts"])
    assert (named.value.code, named.value.data["store"]) == ("SM-PROCESSOR-002", "counts")


def test_what_a_batch_processor_keeps_from_block_to_block_is_refused(twin):
    class Keeping(Counting):
        def __init__(self):
            super().__init__()
            self.seen = 0

        def handleBatch(self, keys, rows, state, timerValues):
            self.seen += keys.num_rows
            return super().handleBatch(keys, rows, state, timerValues)

    with pytest.raises(ProcessorError) as raised:
        twin.run(Keeping(), [("x", n, 0) for n in range(20)])
    assert (raised.value.code, raised.value.data["attributes"]) == ("SM-STATE-032", ["seen"])


def test_an_engine_that_calls_processors_key_by_key_refuses_a_batch_processor():
    with pytest.raises(UnsupportedError) as raised:
        check_called_by_key(Counting())
    assert raised.value.code == "SM-PROCESSOR-008"
    with pytest.raises(UnsupportedError):
        Counting().handleInputRows(("x",), iter(()), None)
    check_called_by_key(ByKey(Program(Struct("n INT"), [])))
