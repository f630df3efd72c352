"""What a processor asks for or does that the engine cannot give: an error, never silence."""

import subprocess
import sys

import pytest
from pipelines import Pipeline
from refusals import refused
from tally import (
    AMOUNTS,
    AMOUNTS_SCRIPT,
    CENTS,
    AmountsTally,
    CentsTally,
    Expected,
    batch,
)

from statemigrate import migrated
from statemigrate.errors import (
    CheckpointInUseError,
    ProcessorError,
    StartupError,
    TransformError,
    UnsupportedError,
    ValueMismatchError,
)

pytestmark = pytest.mark.spark

ROWS = batch("first", range(10))


class TimeToLive(CentsTally):
    def init(self, handle):
        self.state = handle.getValueState("tally", self.ddl, 1000)


class DropsState(CentsTally):
    def init(self, handle):
        super().init(handle)
        handle.deleteIfExists("former")


class Twice(CentsTally):
    def init(self, handle):
        super().init(handle)
        handle.getListState("tally", self.ddl)


class Timers(CentsTally):
    def init(self, handle):
        super().init(handle)
        self.handle = handle

    def handleInputRows(self, key, rows, timer_values):
        self.handle.registerTimer(timer_values.getCurrentProcessingTimeInMs() + 1)
        yield from super().handleInputRows(key, rows, timer_values)


class WrongValue(CentsTally):
    def made(self, n, cents, last, moved):
        return (n, "many", last, moved) if n == 2 else (n, cents, last, moved)


class ShortValue(CentsTally):
    def made(self, n, cents, last, moved):
        return (n, cents)


class Counting(CentsTally):
    def init(self, handle):
        super().init(handle)
        self.served = 0

    def handleInputRows(self, key, rows, timer_values):
        self.served += 1
        yield from super().handleInputRows(key, rows, timer_values)


class EmptyList(CentsTally):
    def init(self, handle):
        super().init(handle)
        self.list = handle.getListState("list", "x INT")

    def handleInputRows(self, key, rows, timer_values):
        self.list.put([])
        yield from super().handleInputRows(key, rows, timer_values)


@pytest.mark.parametrize(
    ("processor", "kind", "parts"),
    [
        (TimeToLive(), UnsupportedError, ["no time to live (state tally)", "transformWithState"]),
        (DropsState(), UnsupportedError, ["deleteIfExists('former')"]),
        (Twice(), StartupError, ["declares the state tally twice", "another name"]),
    ],
)
def test_what_init_asks_for_is_refused_at_start(pipeline, processor, kind, parts):
    refused(kind, lambda: pipeline.query(processor).start(), *parts)
    assert not (pipeline.checkpoint / "offsets").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("processor", "kind", "parts"),
    [
        (Timers(), UnsupportedError, ["no timers"]),
        (WrongValue(), ValueMismatchError, ["cents", "many"]),
        (ShortValue(), ValueMismatchError, ["4 fields: n, cents, last, moved", "(1, 7)"]),
        (EmptyList(), UnsupportedError, ["empty list", "clear()"]),
        (Counting(), ProcessorError, ["Counting keeps", "served changed", "('served',)"]),
    ],
)
def test_what_a_processor_does_wrong_ends_the_query_and_writes_nothing(
    pipeline, processor, kind, parts
):
    expected = Expected()
    pipeline.feed(ROWS)
    expected.process(ROWS, CENTS)
    if isinstance(processor, WrongValue):
        pipeline.deploy(processor)
        pipeline.feed(ROWS[:3])
    running = pipeline.query(processor).start()
    refused(kind, lambda: running.awaitTermination(60), *parts)
    if isinstance(processor, WrongValue):
        assert pipeline.stored() == expected.stored(CENTS)
    else:
        assert not list((pipeline.checkpoint / "commits").glob("[0-9]*"))
        assert not list(pipeline.checkpoint.glob("statemigrate/partitions/*/*"))


@pytest.mark.parametrize("column", ["k DOUBLE", "k STRUCT<a: INT>", "k ARRAY<INT>"])
def test_a_key_of_a_type_that_has_no_order_here(spark, tmp_path, column):
    pipeline = Pipeline(spark, tmp_path / "p", rows=f"{column}, cents BIGINT, name STRING", by="k")
    refused(
        UnsupportedError, lambda: pipeline.query(CentsTally()).start(), "column k of type",
        "cannot be a key", "cast it",
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ('raise LookupError("no rate")', ["LookupError: no rate"]),
        ("return None", ["returned no dict", "is a `return` missing?"]),
        ('return {**value, "amount": "x"}', ["cannot hold"]),
    ],
)
def test_a_transform_that_fails_on_a_live_row(pipeline, scripts, body, parts):
    expected = Expected()
    pipeline.feed(ROWS)
    expected.process(ROWS, CENTS)
    pipeline.deploy(CentsTally())
    pipeline.feed(batch("second", [3, 30]))
    wrong = AMOUNTS_SCRIPT.replace("def upgrade(value):", f"def upgrade(value):\n    {body}")
    running = pipeline.query(migrated(AmountsTally(), migrations=scripts.write(wrong))).start()
    with pytest.raises(TransformError) as caught:
        running.processAllAvailable()
    running.stop()
    for part in ["tally", "'k3'", "base", AMOUNTS, *parts]:
        assert part in str(caught.value)
    # As on Spark's own state: see the poison value of the in-memory tests.
    revisions = {"source": "base", "target": AMOUNTS}
    assert caught.value.data == {"store": "tally", "key": ("k3",), **revisions}
    assert pipeline.stored() == expected.stored(CENTS)

    # No batch was committed with the wrong script, so it is not yet "applied".
    pipeline.deploy(migrated(AmountsTally(), migrations=scripts.write()))
    expected.process(batch("second", [3, 30]), AMOUNTS)
    expected.drain(AMOUNTS)
    assert pipeline.stored() == expected.stored(AMOUNTS)
    assert pipeline.handed_rows == expected.output


def test_a_second_query_on_the_checkpoint_in_this_process(pipeline):
    pipeline.feed(ROWS)
    first = pipeline.query(CentsTally()).start()
    refused(
        CheckpointInUseError, lambda: pipeline.query(CentsTally()).start(),
        str(pipeline.checkpoint), "locked by process", "stop that query first",
    )  # fmt: skip
    refused(
        CheckpointInUseError,
        lambda: Pipeline(pipeline.spark, pipeline.root.parent / "other")
        .query(CentsTally(), working_directory=str(pipeline.working))
        .start(),
        "working directory", str(pipeline.working),
    )  # fmt: skip
    pipeline.run(first)
    assert pipeline.deploy(CentsTally()) == []


HOLDER = """
import sys, pathlib
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.layout import DirectoryLock
lock = DirectoryLock(Layout.of(sys.argv[1]).lock, "the checkpoint")
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_second_query_on_the_checkpoint_in_another_process(pipeline):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(pipeline.checkpoint)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout.readline() == "locked\n"
        refused(
            CheckpointInUseError, lambda: pipeline.query(CentsTally()).start(),
            f"locked by process {holder.pid}",
        )  # fmt: skip
        holder.stdin.close()
    pipeline.feed(ROWS)
    pipeline.deploy(CentsTally())
    assert len(pipeline.stored()["tally"]) == len(ROWS)
