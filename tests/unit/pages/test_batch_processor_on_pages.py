"""On pages a batch processor leaves the state, and gives the output, of the program by key."""

import struct

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from support.batch_twins import ByKey, ByTable, Program
from support.lens_scripts import lineage_of
from support.page_twins import SMALL, PageTwin, page_of
from support.random_lenses import fitting_changes

from statemigrate import BatchProcessor
from statemigrate.errors import StatemigrateError, UnsupportedError
from statemigrate.formats import Struct
from statemigrate.formats.examples import made_up_values
from statemigrate.pages.page_leaves import SPLITTING
from statemigrate.processor import batch_processor, state_columns

KEYS = [
    *((None, None), ("", None), ("", 0), ("a\x00", 1), ("a", -1), ("a", 1), ("größer", 2**62)),
    *((f"key-{n}", n) for n in range(6)),
]
BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 40)), max_size=40),
        st.booleans(),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=4,
)
RUN = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    # A history takes long to make shorter.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of a few keys, so that a visit has several."""
    monkeypatch.setattr(batch_processor, "FIRST", 3)
    monkeypatch.setattr(batch_processor, "MOST", 5)
    # Some blocks have their values as columns, others one by one.
    monkeypatch.setattr(state_columns, "FEW", 3)


class Twins:
    """The two programs on pages of their own, batch by batch."""

    def __init__(self, **options):
        self.by_key, self.by_table = PageTwin(**options), PageTwin(**options)
        self._ttl = options.get("ttl")

    def deploy(self, *given):
        self.by_key.deploy(*given)
        self.by_table.deploy(*given)

    def run(self, program, batches, *, reorders=False):
        """Whether all went; the twins are compared after each."""
        for rows, asked, pause in batches:
            given = [(*key, act) for key, act in rows]
            pairs = (
                (self.by_key, ByKey(program, self._ttl)),
                (self.by_table, ByTable(program, self._ttl, reorders=reorders)),
            )
            found = [_ran(twin, processor, given, asked, pause) for twin, processor in pairs]
            if isinstance(found[0], str) or isinstance(found[1], str):
                event(f"failed {found[0]}")
                assert {type(each) for each in found} == {str}
                return False
            assert found[0] == found[1]
            assert self.by_key.contents() == self.by_table.contents()
        return True


def _ran(twin, processor, rows, asked, pause):
    twin.spark.now += pause
    try:
        return twin.run(processor, rows, asked=asked)
    except StatemigrateError as error:
        return error.code


def _program(fmt):
    # A NaN is never what it was: the program by key would write what has not changed.
    return Program(fmt, [each for each in made_up_values(fmt, 24) if "nan" not in repr(each)])


MODES = st.sampled_from(["processingtime", "eventtime", "none"])


SIZES = st.sampled_from([SPLITTING, SMALL])


@given(fitting_changes(), BATCHES, BATCHES, MODES, st.booleans(), st.booleans(), SIZES)
@RUN
def test_pages_are_the_same_as_key_by_key_before_and_after_a_migration(
    change, before, after, mode, write_on_read, reorders, splitting
):
    old, new = _program(change.old), _program(change.new)
    if not old.values or not new.values or not change.new.schema.fields:
        return
    twins = Twins(time_mode=mode, write_on_read=write_on_read, splitting=splitting)
    twins.deploy(change.old)
    if not twins.run(old, before, reorders=reorders):
        return
    twins.deploy(change.new, {name: lineage_of(change, store=name) for name in twins.by_key.plans})
    event(f"all went {twins.run(new, after, reorders=reorders)}")


@given(fitting_changes(), BATCHES, BATCHES, st.booleans(), SIZES)
@RUN
def test_values_elements_and_entries_expire_as_key_by_key(
    change, before, after, write_on_read, splitting
):
    old, new = _program(change.old), _program(change.new)
    if not old.values or not new.values or not change.new.schema.fields:
        return
    twins = Twins(ttl=12, write_on_read=write_on_read, splitting=splitting)
    twins.deploy(change.old)
    if not twins.run(old, before):
        return
    twins.deploy(change.new, {name: lineage_of(change, store=name) for name in twins.by_key.plans})
    event(f"all went {twins.run(new, after)}")


class Counting(BatchProcessor):
    """Counts the rows of a key, and has each page's number of keys in its output."""

    def init(self, handle):
        self._handle = handle
        handle.getValueState("counts", "n BIGINT", getattr(self, "ttl", None))

    def handleBatch(self, keys, rows, state, timerValues):
        added = self.aggregate(keys, rows, [([], "count_all")])["count_all"].to_pylist()
        before = [0 if each is None else each["n"] for each in state["counts"].to_pylist()]
        counts = [{"n": one + other} for one, other in zip(before, added, strict=True)]
        new = keys.append_column("counts", pa.array(counts, state.schema.field("counts").type))
        return new, keys.append_column("had", pa.array([len(keys)] * len(keys)))


def _twin(**options):
    twin = PageTwin(**options)
    twin.deploy(Struct("n BIGINT"), None, {"counts": "value"})
    return twin


def test_all_keys_of_a_page_come_in_one_call(monkeypatch):
    monkeypatch.setattr(batch_processor, "FIRST", 1_000)
    rows = [(f"key-{n % 40}", n % 40, 0) for n in range(100)]
    of_page = {page: {row[0] for row in rows if page_of(row[:2]) == page} for page in range(3)}
    for row in _twin().run(Counting(), rows):
        assert row["had"] == len(of_page[page_of((row["a"], row["b"]))])


def test_a_value_that_stays_lives_on_where_its_column_is_returned():
    class Idle(Counting):
        ttl = 10

        def handleBatch(self, keys, rows, state, timerValues):
            if rows["act"].to_pylist() == [1]:
                return None, None
            return state, None

    class Begin(Counting):
        ttl = 10

    twin = _twin(ttl=10)
    twin.run(Begin(), [("a", 1, 0), ("b", 2, 0)])
    twin.spark.now += 6
    twin.run(Idle(), [("a", 1, 0)])
    twin.run(Idle(), [("b", 2, 1)])
    twin.spark.now += 6
    found = []

    class Look(Counting):
        ttl = 10

        def handleBatch(self, keys, rows, state, timerValues):
            found.extend(state.select(["a", "counts"]).to_pylist())
            return None, None

    twin.run(Look(), [("a", 1, 0), ("b", 2, 0)])
    assert sorted(found, key=lambda row: row["a"]) == [
        {"a": "a", "counts": {"n": 1}},
        {"a": "b", "counts": None},
    ]


def test_timers_are_refused_by_name():
    class Timed(Counting):
        def handleBatch(self, keys, rows, state, timerValues):
            self._handle.registerTimer(1)

    with pytest.raises(UnsupportedError) as raised:
        _twin().run(Timed(), [("a", 1, 0)])
    assert raised.value.code == "SM-PROCESSOR-010"


def test_a_page_with_timers_of_an_earlier_release_is_refused_before_anything_is_written():
    class Timed(ByKey):
        def init(self, handle):
            super().init(handle)
            self._handle = handle

        def handleInputRows(self, key, rows, timerValues):
            self._handle.registerTimer(100)
            return iter(())

    program = Program(Struct("n BIGINT"), [{"n": 1}])
    twin = PageTwin()
    twin.deploy(Struct("n BIGINT"))
    twin.run(Timed(program), [("a", 1, 0)])
    before = twin.contents()
    with pytest.raises(UnsupportedError) as raised:
        twin.run(ByTable(program), [("a", 1, 0)])
    assert raised.value.code == "SM-PROCESSOR-010"
    assert "earlier release" in str(raised.value)
    assert twin.contents() == before


def test_the_sign_of_a_zero_in_a_list_and_a_map_is_written():
    class Negate(BatchProcessor):
        def init(self, handle):
            handle.getListState("many", "x DOUBLE")
            handle.getMapState("named", "k STRING, n INT", "x DOUBLE")

        def handleBatch(self, keys, rows, state, timerValues):
            x = {"x": -0.0 if state["many"][0].as_py() else 0.0}
            many, named = [[x]], [[{"key": {"k": "a", "n": 1}, "value": x}]]
            arrays = [
                pa.array(each, state.schema.field(name).type)
                for name, each in (("many", many), ("named", named))
            ]
            return keys.append_column("many", arrays[0]).append_column("named", arrays[1]), None

    twin = PageTwin()
    twin.deploy(Struct("x DOUBLE"), None, {"many": "list", "named": "map"})
    twin.run(Negate(), [("a", 1, 0)])
    first = twin.contents()
    twin.run(Negate(), [("a", 1, 0)])
    (page,) = (cell[0][0] for held in twin.contents().values() for cell in held.values())
    (before,) = (cell[0][0] for held in first.values() for cell in held.values())
    negative = struct.pack("<d", -0.0)
    assert (before.count(negative), page.count(negative)) == (0, 2)
    assert len(page) == len(before)
