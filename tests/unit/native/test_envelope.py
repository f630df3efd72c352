"""The envelope over PySpark's own ``GroupState``, which needs no JVM."""

import json
import random

import pandas as pd
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError, PySparkTypeError, PySparkValueError
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import StructType

from statemigrate import ENVELOPE, Struct, migrated
from statemigrate.errors import (
    CheckpointError,
    LineageError,
    ScriptError,
    StartupError,
    TransformError,
    ValueMismatchError,
)
from statemigrate.native.control_rows import MARKER
from statemigrate.native.functions import MigratedGroupState
from statemigrate.scripts import ScriptFolder

OLD, NEW = Struct("n BIGINT, name STRING"), Struct("m BIGINT, names ARRAY<STRING>")
SCRIPT = '''"""Rename."""
from statemigrate.formats import Struct

revision = "cccc55556666"
down_revision = None
branch_labels = ("names",)
store = "names"
old = Struct("n BIGINT, name STRING")
new = Struct("m BIGINT, names ARRAY<STRING>")


def upgrade(value):
    return {"m": value["n"] + 1, "names": value["name"].split(",")}
'''
HEAD = "cccc55556666"
NOW, WATERMARK = 1_700_000_000_000, 1_600_000_000_000
ROWS = pd.DataFrame({"key": ["a"], "amount": [1]})


@pytest.fixture
def folder(tmp_path):
    scripts = ScriptFolder.create(tmp_path / "migrations")
    (scripts.versions / "rename.py").write_text(SCRIPT)
    return tmp_path / "migrations"


def group_state(envelope=None, timeouts="NoTimeout", timed_out=False):
    """A key's state as Spark hands it over: it never tells the timeout that is set."""
    return GroupState(
        envelope, NOW, WATERMARK, timeouts, timed_out, True,
        envelope is not None, False, False, -1, b"key", StructType(),
    )  # fmt: skip


def old(n, name, timeout=None):
    return ("base", OLD.encode({"n": n, "name": name}), timeout)


def call(folder, function, state, pdfs=(ROWS,), **options):
    wrapped = migrated(function, store="names", migrations=folder, **options)
    return list(wrapped(("a",), iter(pdfs), state))


def reads(key, pdfs, state):
    yield state.getOption


def timeout_of(state):
    return json.loads(state.json())["timeoutTimestamp"]


def test_a_read_writes_the_value_in_the_new_format(folder):
    state = group_state(old(4, "x,y"))
    assert call(folder, reads, state) == [(5, ["x", "y"])]
    revision, payload, timeout = state.get
    assert (revision, timeout) == (HEAD, None)
    assert NEW.decode(payload) == {"m": 5, "names": ["x", "y"]}


def test_every_public_part_of_group_state_is_there():
    public = {name for name in vars(GroupState) if not name.startswith("_")} - {"NO_TIMESTAMP"}
    assert public <= vars(MigratedGroupState).keys()


def test_the_state_looks_as_pysparks_does(folder):
    seen = []

    def looks(key, pdfs, state):
        assert isinstance(state, GroupState)
        seen.append((state.exists, state.getOption, str(state)))
        with pytest.raises(PySparkValueError, match="STATE_NOT_EXISTS"):
            _ = state.get
        state.update((1, ["a"]))
        seen.append((state.exists, state.get, str(state)))
        state.remove()
        seen.append((state.exists, state.getOption, str(state)))
        yield from ()

    call(folder, looks, group_state())
    nothing = (False, None, "GroupState(<undefined>)")
    assert seen == [nothing, (True, (1, ["a"]), "GroupState((1, ['a']))"), nothing]


def test_times_and_timeouts_are_pysparks(folder):
    def asks(key, pdfs, state):
        yield state.getCurrentProcessingTimeMs(), state.getCurrentWatermarkMs(), state.hasTimedOut
        with pytest.raises(PySparkRuntimeError, match="CANNOT_WITHOUT"):
            state.setTimeoutTimestamp(NOW)
        with pytest.raises(PySparkValueError, match="VALUE_NOT_POSITIVE"):
            state.setTimeoutDuration(0)
        with pytest.raises(PySparkTypeError, match="CANNOT_BE_NONE"):
            state.update(None)
        state.setTimeoutDuration(7)
        yield state.oldTimeoutTimestamp

    state = group_state(timeouts="ProcessingTimeTimeout")
    assert call(folder, asks, state) == [(NOW, WATERMARK, False), -1]
    assert (timeout_of(state), state.exists) == (NOW + 7, False)


def test_a_value_and_its_timeout_are_kept_together(folder):
    def waits(key, pdfs, state):
        state.update((1, ["a"]))
        state.setTimeoutDuration(7)
        yield from ()

    state = group_state(old(4, "x", NOW + 1), "ProcessingTimeTimeout")
    call(folder, waits, state)
    assert state.get[0::2] == (HEAD, NOW + 7)


@pytest.mark.parametrize(
    ("timeouts", "timeout"),
    [("ProcessingTimeTimeout", NOW + 1), ("EventTimeTimeout", WATERMARK)],
)
def test_a_migration_alone_sets_the_timeout_again(folder, timeouts, timeout):
    state = group_state(old(4, "x", timeout), timeouts)
    call(folder, reads, state)
    assert state.get[0::2] == (HEAD, timeout)
    assert timeout_of(state) == timeout


@pytest.mark.parametrize(
    ("timeouts", "timeout"),
    [("ProcessingTimeTimeout", NOW), ("EventTimeTimeout", WATERMARK - 1)],
)
def test_a_value_whose_timeout_is_due_is_read_and_stays(folder, timeouts, timeout):
    envelope = old(4, "x", timeout)
    state = group_state(envelope, timeouts, timed_out=True)
    assert call(folder, reads, state) == [(5, ["x"])]
    assert state.get == envelope
    assert not json.loads(state.json())["updated"]


def test_a_write_without_a_timeout_has_none(folder):
    def writes(key, pdfs, state):
        m, names = state.get
        state.update((m, [*names, "z"]))
        yield from ()

    state = group_state(old(4, "x", NOW + 9), "ProcessingTimeTimeout")
    call(folder, writes, state)
    assert state.get[0::2] == (HEAD, None)
    assert NEW.decode(state.get[1]) == {"m": 5, "names": ["x", "z"]}
    assert timeout_of(state) == -1


def test_a_timeout_alone_leaves_the_value_where_it_is(folder):
    def waits(key, pdfs, state):
        state.setTimeoutDuration(7)
        yield from ()

    state = group_state(old(4, "x"), "ProcessingTimeTimeout")
    call(folder, waits, state)
    assert state.get == old(4, "x", NOW + 7)


def test_a_timed_out_call_gets_pysparks_empty_frame_without_the_marker(folder):
    def looks(key, pdfs, state):
        frames = list(pdfs)
        yield [(list(frame.columns), len(frame)) for frame in frames]
        state.remove()

    state = group_state(old(4, "x", NOW - 1), "ProcessingTimeTimeout", timed_out=True)
    empty = pd.DataFrame(columns=["key", "amount", MARKER])
    assert call(folder, looks, state, [empty]) == [[(["key", "amount"], 0)]]
    assert not state.exists
    assert json.loads(state.json())["removed"]


def test_control_rows_alone_do_not_call_the_function(folder):
    def fails(key, pdfs, state):
        raise AssertionError("called")

    control = pd.DataFrame({"key": ["a"], "amount": [None], MARKER: ["query"]})
    state = group_state(old(4, "x", NOW + 9), "ProcessingTimeTimeout")
    assert call(folder, fails, state, [control], write_on_read=False) == []
    assert state.get[0::2] == (HEAD, NOW + 9)
    nothing = group_state()
    assert call(folder, fails, nothing, [control]) == []
    assert not nothing.exists


def test_a_backfill_in_quarantine_leaves_what_does_not_migrate(folder):
    control = pd.DataFrame({"key": ["a"], "amount": [None], MARKER: ["query"]})
    envelope = old(4, None)
    with pytest.raises(TransformError, match=r"\('a',\)"):
        call(folder, reads, group_state(envelope), [control])
    state = group_state(envelope)
    call(folder, reads, state, [control], on_error="quarantine")
    assert state.get == envelope


def test_a_value_the_format_cannot_hold_is_refused_and_nothing_is_written(folder):
    def writes(key, pdfs, state):
        state.update((1, "no list"))
        yield from ()

    envelope = old(4, "x")
    state = group_state(envelope)
    with pytest.raises(ValueMismatchError, match="names"):
        call(folder, writes, state)
    assert state.get == envelope


@pytest.mark.parametrize("revision", ["dddd77778888", "base"])
def test_state_no_way_leads_from_is_refused_with_its_key(folder, revision):
    payload = NEW.encode({"m": 1, "names": []})
    state = group_state((HEAD if revision == "base" else revision, payload, None))
    targets = {"names": "base"} if revision == "base" else {}
    with pytest.raises(StartupError, match=r"key \('a',\)"):
        call(folder, reads, state, targets=targets)
    assert not json.loads(state.json())["updated"]


@pytest.mark.parametrize(
    "envelope", [(1, "x", 0), (None, None, None), ("base", None, None), ("base", b"", "soon"), ()]
)
def test_what_is_no_envelope_is_refused(folder, envelope):
    with pytest.raises(CheckpointError, match="not an envelope"):
        call(folder, reads, group_state(envelope))


def test_bytes_that_are_no_value_are_refused_and_never_run(folder):
    chances = random.Random(1)
    refused = 0
    for size in range(1, 200):
        state = group_state(("base", chances.randbytes(size), None))
        try:
            call(folder, lambda key, pdfs, state: [state.exists and state.getOption], state)
        except (CheckpointError, TransformError):
            refused += 1
    assert refused > 150
    pickled = cloudpickle.dumps(print)
    with pytest.raises(CheckpointError, match="the payload is not a value of revision base"):
        call(folder, reads, group_state(("base", pickled, None)))


def test_a_wrapped_function_travels_by_value(folder, monkeypatch, tmp_path):
    wrapped = migrated(reads, store="names", migrations=folder)
    data = cloudpickle.dumps(wrapped)
    (folder / "versions" / "rename.py").unlink()
    state = group_state(old(4, "x,y"))
    assert list(cloudpickle.loads(data)(("a",), iter([ROWS]), state)) == [(5, ["x", "y"])]


def test_scripts_that_are_missing_are_an_error_when_the_function_is_called(tmp_path):
    wrapped = migrated(reads, store="names", migrations=tmp_path)
    with pytest.raises(ScriptError):
        wrapped(("a",), iter([ROWS]), group_state())


def test_a_store_without_scripts_is_an_error_when_the_function_is_called(folder):
    wrapped = migrated(reads, store="others", migrations=folder)
    with pytest.raises(LineageError, match="store others has no migration script"):
        wrapped(("a",), iter([ROWS]), group_state())


def test_a_function_needs_a_store_and_a_processor_has_its_own(folder):
    with pytest.raises(StartupError, match="store="):
        migrated(reads, migrations=folder)
    with pytest.raises(StartupError, match="store="):
        migrated(StatefulProcessor, store="names", migrations=folder)


def test_the_envelope_is_a_schema_of_spark():
    assert Struct(ENVELOPE).struct_type().simpleString() == (
        "struct<revision:string,payload:binary,timeout:bigint>"
    )
