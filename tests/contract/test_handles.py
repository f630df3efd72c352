"""The native and the paged handle's state variables against a plain model, without a JVM.

Everything a processor may do with value, list and map state, values that expire, timers, backfill
and its control rows, batches that end anyhow, restarts with any other target. Spark's variables are
`support.spark_variables`. On failure hypothesis prints the steps; they are the same on every run.
"""

from __future__ import annotations

import copy
import struct
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyspark.sql import Row
from support.model import Model
from support.notes import FIELDS, FORMATS, NEW, OLD, REVISIONS, family, lineage
from support.spark_variables import SparkVariables

from statemigrate.access import DualAccess, DualList
from statemigrate.deployment import Declared, DeploymentSettings, StoredStore, plan_store
from statemigrate.errors import StatemigrateError
from statemigrate.families import Span
from statemigrate.formats import Struct
from statemigrate.native.control_rows import MARKER
from statemigrate.native.deployed_variables import Deployed
from statemigrate.native.variable_families import NativeMapFamily
from statemigrate.native.worker import NativeHandle, VariableStores
from statemigrate.pages.deployed_pages import PagedDeployment
from statemigrate.pages.packed_rows import BUCKET, Unpacking, pack
from statemigrate.pages.page_leaves import SPLITTING, Splitting
from statemigrate.pages.visit import PagedProcessor
from statemigrate.processor.keys import TupleKeyCodec

KINDS = {"notes": "value", "fading": "value", "lists": "list", "maps": "map"}
LIFE = 10
"""Milliseconds for which a value of ``fading`` lives."""
KEY, USER_KEY = Struct("k STRING, x DOUBLE").struct_type(), Struct("n DOUBLE").struct_type()
ROWS = Struct("k STRING, x DOUBLE, at BIGINT").struct_type()
KEYS, USER_KEYS = TupleKeyCodec(KEY), TupleKeyCodec(USER_KEY)
PAGES = 2
GROUPS = [("a", 0.0), ("a", -0.0), ("b", 1.5), (None, None)]
NUMBERS = [(0.0,), (-0.0,), (7.0,)]

groups = st.sampled_from(range(len(GROUPS)))
texts = st.sampled_from(["x", "y", "z" * 300])
several = st.lists(texts, min_size=1, max_size=3)
numbers = st.sampled_from(range(len(NUMBERS)))
plain = st.sampled_from(["notes", "fading"])
operation = st.one_of(
    st.tuples(st.sampled_from(["get", "exists", "clear"]), st.sampled_from(sorted(KINDS))),
    st.tuples(st.just("clear"), st.just("maps")),
    st.tuples(st.just("update"), plain, texts),
    st.tuples(st.sampled_from(["put", "append"]), st.just("lists"), several),
    st.tuples(st.just("append_one"), st.just("lists"), texts),
    st.tuples(st.sampled_from(["value", "contains", "remove"]), st.just("maps"), numbers),
    st.tuples(st.just("set"), st.just("maps"), numbers, texts),
    st.tuples(st.sampled_from(["keys", "values"]), st.just("maps")),
    st.tuples(st.just("timer"), st.sampled_from(["register", "delete"]), st.integers(1, 60)),
)
visit = st.lists(
    st.tuples(groups, st.lists(operation, min_size=1, max_size=4)), min_size=1, max_size=3
)


def bits(key: Any) -> Any:
    """A key of which only the same bits are equal."""
    return tuple(struct.pack(">d", part) if isinstance(part, float) else part for part in key)


def declared(store: str, target: str) -> Declared:
    user_key = USER_KEY if KINDS[store] == "map" else None
    life = LIFE if store == "fading" else None
    return Declared(store, KINDS[store], FORMATS[target].struct_type(), user_key, life)


@cache
def lineages() -> dict[str, Any]:
    return {store: lineage(store) for store in KINDS}


class Told(Model):
    """The model of dual access, with values that expire, and timers.

    ``whole`` says that whoever touches a key migrates its whole page, as `page_of` numbers it.
    """

    def __init__(self, *, whole: bool) -> None:
        super().__init__(dict(KINDS))
        self.whole = whole
        self.until: dict[bytes, int] = {}
        self.timers: set[tuple[bytes, int]] = set()
        self.live = {store: frozenset(REVISIONS) for store in KINDS}
        self.commit()

    def _state(self) -> Any:
        return super()._state(), copy.deepcopy(
            (getattr(self, "until", {}), getattr(self, "timers", set()))
        )

    def begin(self, target: str, *, write_on_read: bool) -> None:
        state, (until, timers) = copy.deepcopy(self._committed)
        self.families, self.cursors, self.quarantined, self.live = state
        self.until, self.timers = until, timers
        self.target, self.write_on_read = target, write_on_read

    def expire(self, now: int) -> None:
        for key in [key for key, until in self.until.items() if until <= now]:
            self.delete("fading", key)
            del self.until[key]

    def migrate(self, keys: list[bytes]) -> None:
        """What a backfill does with these keys, each with all that lies under it."""
        for store in KINDS:
            if store == "fading" and not self.whole:
                continue  # a migrated value would live longer than it was to
            for revision in self.sources(store):
                for key in [k for k in self.entries(store, revision) if k.startswith(tuple(keys))]:
                    self.put(store, key, self.shown(store, revision, key))

    def do(self, group: bytes, op: tuple[Any, ...], now: int) -> Any:  # noqa: PLR0911, PLR0912
        """What an operation gives, and what it changes."""
        name, store, *rest = op
        span = Span.prefix(group)
        if name == "timer":
            moment = (group, rest[0])
            self.timers = self.timers | {moment} if store == "register" else self.timers - {moment}
            return sorted(at for key, at in self.timers if key == group)
        if store == "maps":
            at = group if not rest else group + USER_KEYS.encode(NUMBERS[rest[0]])
            entries = self.scan(store, span)
            match name:
                case "get":
                    return [(key[len(group) :], self.row(value)) for key, value in entries]
                case "exists":
                    return bool(entries)
                case "clear":
                    return self.clear(store, span)
                case "value":
                    return self.row(self.get(store, at))
                case "contains":
                    return self.found(store, at) is not None
                case "remove":
                    return self.delete(store, at)
                case "keys":
                    return [key[len(group) :] for key, _ in entries]
                case "values":
                    return sorted(self.row(value) for _, value in entries)
            return self.put(store, at, self.note(rest[1]))
        match name:
            case "exists":
                return self.found(store, group) is not None
            case "clear":
                self.until.pop(group, None) if store == "fading" else None
                return self.delete(store, group)
            case "update":
                if store == "fading":
                    self.until[group] = now + LIFE
                return self.put(store, group, self.note(rest[0]))
            case "put":
                return self.put(store, group, [self.note(each) for each in rest[0]])
            case "append":
                return self.append(store, group, [self.note(each) for each in rest[0]])
            case "append_one":
                return self.append(store, group, [self.note(rest[0])])
        pure = store == "fading" and not self.whole
        found = self.peek(store, group) if pure else self.get(store, group)
        if KINDS[store] == "list":
            return [self.row(each) for each in found or []]
        return self.row(found)

    def note(self, text: str) -> Any:
        return {FIELDS[self.target]: text, "ups": 0, "downs": 0}

    def row(self, value: Any) -> Any:
        if value is None:
            return None
        return value[FIELDS[self.target]], value["ups"], value["downs"]


def perform(variables: dict[str, Any], op: tuple[Any, ...]) -> Any:  # noqa: PLR0911, PLR0912
    """The same operation on the variables of a handle, its result as `Told.do` gives it.

    The order of a map is Spark's affair where it has one family only.
    """
    name, store, *rest = op
    if name == "timer":
        handle = variables["handle"]
        getattr(handle, f"{store}Timer")(rest[0])
        return sorted(handle.listTimers())
    variable = variables[store]
    row = lambda text: (text, 0, 0)  # noqa: E731
    key = NUMBERS[rest[0]] if store == "maps" and rest else None
    match name:
        case "get" if store == "maps":
            return sorted((USER_KEYS.encode(k), tuple(v)) for k, v in variable.iterator())
        case "get" if store == "lists":
            return [tuple(each) for each in variable.get()]
        case "get":
            found = variable.get()
            return None if found is None else tuple(found)
        case "exists":
            return variable.exists()
        case "clear":
            return variable.clear()
        case "update":
            return variable.update(row(rest[0]))
        case "put":
            return variable.put([row(each) for each in rest[0]])
        case "append":
            return variable.appendList([row(each) for each in rest[0]])
        case "append_one":
            return variable.appendValue(row(rest[0]))
        case "value":
            found = variable.getValue(key)
            return None if found is None else tuple(found)
        case "contains":
            return variable.containsKey(key)
        case "remove":
            return variable.removeKey(key)
        case "keys":
            return sorted(USER_KEYS.encode(each) for each in variable.keys())  # noqa: SIM118
        case "values":
            return sorted(tuple(each) for each in variable.values())
    return variable.updateValue(key, row(rest[1]))


def opened(handle: Any, target: str) -> dict[str, Any]:
    """What ``init`` of a processor declares."""
    schema = FORMATS[target].struct_type()
    return {
        "handle": handle,
        "notes": handle.getValueState("notes", schema),
        "fading": handle.getValueState("fading", schema, LIFE),
        "lists": handle.getListState("lists", schema),
        "maps": handle.getMapState("maps", USER_KEY, schema),
    }


class Native:
    """`NativeHandle`, called for one key after the other."""

    whole = False

    def __init__(self) -> None:
        self.spark = SparkVariables()

    def start(self, target: str, *, write_on_read: bool, seen: bool) -> None:
        """A deployment: what was ``seen`` of the state travels with it, or nothing was."""
        stored, drained = self._looked_at(target) if seen else (None, {})
        given = DeploymentSettings(
            targets=dict.fromkeys(KINDS, target), write_on_read=write_on_read
        )
        self._deployed = Deployed(given, lineages(), stored, drained)
        self._target = target

    def begin(self) -> None:
        self.spark.begin()
        self._handle = NativeHandle(self.spark, self._deployed)
        self._variables = opened(self._handle, self._target)

    def visit(self, group: tuple[Any, ...]) -> dict[str, Any]:
        self.spark.key = KEYS.encode(group)
        self._handle.visit(group)
        return self._variables

    def serve(self, calls: list[Any], check: Any) -> None:
        for group, ops in calls:
            variables = self.visit(group)
            for op in ops:
                check(group, op, perform(variables, op))
            self._handle.leave()

    def migrate(self, asked: list[Any]) -> None:
        for group in asked:
            self.visit(group)
            self._handle.migrate()
            self._handle.leave()

    def _looked_at(self, target: str) -> Any:
        stored, drained = {}, {}
        for store, kind in KINDS.items():
            here = [family(store, revision) for revision in REVISIONS]
            here = [each for each in here if each.name in self.spark.committed]
            full = [each for each in here if self.spark.committed[each.name]]
            user_key = declared(store, target).user_key
            document = None if user_key is None else user_key.jsonValue()
            stored[store] = StoredStore(kind, tuple(full), {}, document)
            drained[store] = tuple(
                each for each in here if each not in full and each.revision != target
            )
        return stored, drained


class Scripted:
    """A processor that does what a test says; what it says lies outside of it."""

    now: Any = None

    def init(self, handle: Any) -> None:
        type(self).variables = opened(handle, type(self).now.target)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            ops, check = self.now.script[row.at]
            for op in ops:
                check(tuple(key), op, perform(self.variables, op))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        self.now.fired.append((KEYS.encode(key), expiredTimerInfo.getExpiryTimeInMs()))
        return iter(())

    def close(self) -> None:
        pass


class Paged:
    """`PagedProcessor`, called for one page after the other."""

    whole = True
    splitting = SPLITTING

    def __init__(self) -> None:
        self.spark = SparkVariables()
        self.fired: list[Any] = []

    def start(self, target: str, *, write_on_read: bool, seen: bool) -> None:
        given = DeploymentSettings(
            targets=dict.fromkeys(KINDS, target), write_on_read=write_on_read
        )
        plans = {}
        for store, kind in KINDS.items():
            here = declared(store, target)
            document = None if here.user_key is None else here.user_key.jsonValue()
            every = tuple(family(store, revision) for revision in REVISIONS)
            stored = StoredStore(kind, every, {}, document)
            plans[store] = plan_store(here, lineages()[store], stored, given)
        seen_nothing: Any = SimpleNamespace(compare_in_task=lambda: None, deployment="d")
        record: Any = SimpleNamespace(pages=PAGES)
        self._deployment = PagedDeployment(
            KEY, (0, 1), Struct("o INT").struct_type(), plans, given, seen_nothing, record,
            note=cast(Any, None), time_mode="processingtime",
        )  # fmt: skip
        self.target = target

    def begin(self) -> None:
        self.spark.begin()
        self.script: list[Any] = []
        self.fired = []
        Scripted.now = self
        self._processor = PagedProcessor(
            Scripted(), self._deployment, ROWS, gives_rows=True, splitting=self.splitting
        )
        self._processor.init(self.spark)

    def serve(self, calls: list[Any], check: Any) -> None:
        self.script = [(ops, check) for _, ops in calls]
        rows = [(*group, at, page_of(group)) for at, (group, _) in enumerate(calls)]
        names = ["k", "x", "at", BUCKET]
        types = [pa.string(), pa.float64(), pa.int64(), pa.int32()]
        columns = [
            pa.array(part, kind) for part, kind in zip(zip(*rows, strict=True), types, strict=True)
        ]
        (packed,) = pack(iter([pa.RecordBatch.from_arrays(columns, names)]))
        for each in packed.to_pylist():
            self._visit(each[BUCKET], [Row(*each, MARKER)(*each.values(), None)])

    def migrate(self, asked: list[Any]) -> None:
        for page in sorted({page_of(group) for group in asked}):
            self._visit(page, [Row(BUCKET, "layout", "rows", MARKER)(page, None, None, "query")])

    def fire(self) -> None:
        """Call for every page whose timer is due, as Spark does with each batch."""
        for page in range(PAGES):
            self.spark.key = struct.pack(">i", page)
            for moment in [each for each in self.spark.listTimers() if each <= self.spark.now]:
                info: Any = SimpleNamespace(getExpiryTimeInMs=lambda moment=moment: moment)
                list(self._processor.handleExpiredTimer((page,), self._times(), info))
                self.spark.deleteTimer(moment)

    def _visit(self, page: int, rows: list[Any]) -> None:
        self.spark.key = struct.pack(">i", page)
        assert not list(self._processor.handleInputRows((page,), iter(rows), self._times()))

    def _times(self) -> Any:
        return SimpleNamespace(getCurrentProcessingTimeInMs=lambda: self.spark.now)


class InLeaves(Paged):
    """Pages that split with every few entries."""

    splitting = Splitting(page=60, leaf=40)


def page_of(group: tuple[Any, ...]) -> int:
    return sum(KEYS.encode(group)) % PAGES


class Handles(RuleBasedStateMachine):
    """Batches, and in each of them visits of keys."""

    engine_type: Any = None

    @initialize(first=st.lists(operation, min_size=4, max_size=8), write_on_read=st.booleans())
    def old_state(self, first: list[Any], write_on_read: bool) -> None:
        """Start as a query does that has run at the old revision and now gets a newer target."""
        self.engine = self.engine_type()
        self.model = Told(whole=self.engine.whole)
        self.deploy(OLD)
        for at in range(len(GROUPS)):
            filled = [("update", "notes", "x"), ("update", "fading", "x"),
                      ("append", "lists", ["x", "y"]),
                      ("set", "maps", 0, "x"), ("set", "maps", 1, "y")]  # fmt: skip
            self.visit([(at, [*filled, *first])])
        self.end(committed=True)
        self.deploy(NEW, write_on_read=write_on_read)

    def deploy(self, target: str, *, write_on_read: bool = True, seen: bool = True) -> None:
        self.target, self.write_on_read = target, write_on_read
        self.engine.start(target, write_on_read=write_on_read, seen=seen)
        self.begin()

    def begin(self) -> None:
        self.engine.begin()
        self.model.begin(self.target, write_on_read=self.write_on_read)
        self.model.expire(self.engine.spark.now)

    def end(self, *, committed: bool) -> None:
        if committed:
            self.engine.spark.commit()
            self.model.commit()

    @rule(calls=visit)
    def serve(self, calls: list[Any]) -> None:
        self.visit(calls)

    def visit(self, calls: list[Any]) -> None:
        # A batch has one visit of a key, or of a page.
        once = dict(calls)
        order = sorted(once, key=lambda at: page_of(GROUPS[at])) if self.engine.whole else once
        self.engine.serve([(GROUPS[at], once[at]) for at in order], self.check)
        if self.engine.whole and self.write_on_read:
            self.touch({page_of(GROUPS[at]) for at in once})

    def check(self, group: Any, op: Any, found: Any) -> None:
        expected = self.model.do(KEYS.encode(group), op, self.engine.spark.now)
        assert found == expected, (group, op, found, expected)

    @rule(asked=st.lists(groups, min_size=1, max_size=3, unique=True))
    def backfill(self, asked: list[int]) -> None:
        self.engine.migrate([GROUPS[at] for at in asked])
        if self.engine.whole:
            self.touch({page_of(GROUPS[at]) for at in asked})
        else:
            self.model.migrate([KEYS.encode(GROUPS[at]) for at in asked])

    def touch(self, pages: set[int]) -> None:
        self.model.migrate([KEYS.encode(each) for each in GROUPS if page_of(each) in pages])

    @rule(committed=st.booleans(), later=st.sampled_from([0, 3, 8, LIFE]))
    def next_batch(self, committed: bool, later: int) -> None:
        self.end(committed=committed)
        self.engine.spark.now += later
        self.begin()
        if self.engine.whole:
            self.fire()

    def fire(self) -> None:
        now = self.engine.spark.now
        due = sorted(each for each in self.model.timers if each[1] <= now)
        pages = {page_of(each) for each in GROUPS for key, _ in due if key == KEYS.encode(each)}
        self.engine.fire()
        assert sorted(self.engine.fired) == due
        self.model.timers -= set(due)
        if self.write_on_read:
            self.touch(pages)

    @rule(
        revision=st.sampled_from(REVISIONS),
        write_on_read=st.booleans(),
        seen=st.booleans(),
        committed=st.booleans(),
    )
    def restart(self, revision: str, write_on_read: bool, seen: bool, committed: bool) -> None:
        """Roll forward or back, or stay, from what is committed."""
        self.end(committed=committed)
        self.deploy(revision, write_on_read=write_on_read, seen=seen)
        if self.engine.whole:
            self.fire()

    @rule()
    def look_at_all(self) -> None:
        """Every key of every store, as a processor finds it."""
        looks = [("get", store) for store in ("notes", "fading", "lists", "maps")]
        self.visit([(at, looks) for at in range(len(GROUPS))])

    @precondition(lambda self: not self.engine.whole)
    @rule()
    def families_are_what_they_should_be(self) -> None:
        """No key is in two families, and every one where the model has it."""
        now = self.engine.spark.now
        for store in ("notes", "lists", "fading"):
            for revision in REVISIONS:
                held = self.engine.spark.held.get(family(store, revision).name, {})
                cells = {k: c if store == "lists" else [c] for k, c in held.items()}
                alive = {k for k, c in cells.items() if any(e[1] is None or e[1] > now for e in c)}
                assert alive == set(self.model.entries(store, revision)), (store, revision)


class NativeHandles(Handles):
    engine_type = Native


class PagedHandles(Handles):
    engine_type = Paged


class HandlesOfLeaves(Handles):
    engine_type = InLeaves


MACHINES = {"native": NativeHandles, "paged": PagedHandles, "in leaves": HandlesOfLeaves}


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_handles_variables_follow_the_model_whatever_happens(machine: Any) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=20, stateful_step_count=25))


def _deletes_in_the_target_alone(self: DualAccess[Any], key: bytes) -> None:
    self.target.delete(key)


def _clears_in_the_target_alone(self: DualAccess[Any], span: Span) -> None:
    for key, _ in list(self.target.scan(span)):
        self.target.delete(key)


def _appends_before_it_migrates(self: DualList, key: bytes, values: Any) -> None:
    self.target.append(key, self.target.conform(list(values)))


def _writes_beside_the_old_value(self: DualAccess[Any], key: bytes, value: Any) -> None:
    self.target.put(key, self.target.conform(value))


def _takes_zeros_of_a_map_for_one(self: NativeMapFamily, key: bytes) -> Any:
    return tuple(part + 0.0 for part in _user_key(self, key))


def _takes_zeros_of_rows_for_one(self: Unpacking, row: Any) -> bytes:
    return KEYS.encode([row[0], None if row[1] is None else row[1] + 0.0])


def _migrates_what_expires(self: VariableStores, span: Span) -> None:
    self._migrating = list(self.accesses)
    _migrate(self, span)


_user_key, _migrate = NativeMapFamily._user_key, VariableStores.migrate
FAULTS = {
    "delete": (DualAccess, "delete", _deletes_in_the_target_alone, ("native", "paged")),
    "clear": (DualAccess, "clear", _clears_in_the_target_alone, ("native", "paged")),
    "append": (DualList, "append", _appends_before_it_migrates, ("native", "paged")),
    "put": (DualAccess, "put", _writes_beside_the_old_value, ("native", "paged")),
    "zeros of a map": (NativeMapFamily, "_user_key", _takes_zeros_of_a_map_for_one, ("native",)),
    "zeros of rows": (Unpacking, "_encoded", _takes_zeros_of_rows_for_one, ("paged",)),
    "expiring": (VariableStores, "migrate", _migrates_what_expires, ("native",)),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "engine"), [(name, each) for name, fault in FAULTS.items() for each in fault[-1]]
)
def test_a_fault_that_is_put_back_is_found(fault: str, engine: str, monkeypatch: Any) -> None:
    owner, name, broken, _ = FAULTS[fault]
    monkeypatch.setattr(owner, name, broken)
    found = settings(max_examples=400, stateful_step_count=25, phases=[Phase.generate])
    with pytest.raises((AssertionError, StatemigrateError)):
        run_state_machine_as_test(MACHINES[engine], settings=found)
