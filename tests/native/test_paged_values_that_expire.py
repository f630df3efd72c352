"""Values, elements and entries of maps expire in pages as they do in Spark's own state."""

import json
import time
from collections import Counter

import pytest
from everything import by_batch, shown
from native_pipeline import NativePipeline
from paged_pipeline import FORMATS, PagedPipeline
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from tally import (
    AMOUNTS,
    AMOUNTS_SCRIPT,
    FAMILIES,
    AmountsTally,
    CentsTally,
    batch,
)

from statemigrate import migrated
from statemigrate.errors import StartupError, UnsupportedError

pytestmark = pytest.mark.spark
LIFE = 5_000
LONG = 600_000


class Lives(StatefulProcessor):
    """Has a number in every kind of state, for some seconds or for ever, and tells what is left."""

    def init(self, handle):
        self.value = handle.getValueState("value", "n INT", LIFE)
        self.list = handle.getListState("list", "n INT", LIFE)
        self.map = handle.getMapState("map", "k INT", "n INT", LIFE)
        self.kept = handle.getListState("kept", "n INT", LONG)
        self.plain = handle.getListState("plain", "n INT")

    def handleInputRows(self, key, rows, timerValues):
        seen = self._seen()
        for row in sorted(rows, key=lambda row: row.n):
            getattr(self, f"_{row.op}")(row.n)
        yield Row(key=key[0], seen=repr(seen), left=repr(self._seen()))

    def _seen(self):
        held = [self.value.exists(), self.value.get()]
        held += [self.list.exists(), list(self.list.get())]
        held += [self.map.exists(), sorted(self.map.iterator()), sorted(self.map.keys())]
        held += [sorted(self.map.values()), self.map.containsKey((1,)), self.map.getValue((1,))]
        return [*held, list(self.kept.get()), list(self.plain.get())]

    def _add(self, n):
        self.value.update((n,))
        for each in (self.list, self.kept, self.plain):
            each.appendValue((n,))
        self.map.updateValue((n % 10,), (n,))

    def _replace(self, n):
        self.list.put([(n,), (n + 1,)])
        self.map.removeKey((1,))

    def _look(self, n):
        pass

    def close(self):
        pass


class Model:
    """What `Lives` tells, worked out from the times of the batches alone."""

    def __init__(self):
        self.state = {}

    def batch(self, rows, now):
        """The rows of a batch."""
        made = []
        for key in sorted({key for key, _, _ in rows}):
            held = self.state.setdefault(key, {name: [] for name in ("v", "l", "m", "p")})
            seen = self._seen(held, now)
            for _, op, n in sorted(row for row in rows if row[0] == key):
                end = now + LIFE
                if op == "add":
                    held["v"] = [(n, end)]
                    held["l"].append((n, end))
                    held["p"].append(n)
                    held["m"] = [each for each in held["m"] if each[0] != n % 10]
                    held["m"].append((n % 10, n, end))
                elif op == "replace":
                    held["l"] = [(n, end), (n + 1, end)]
                    held["m"] = [each for each in held["m"] if each[0] != 1]
            made.append((key, repr(seen), repr(self._seen(held, now))))
        return Counter(map(shown, made))

    def _seen(self, held, now):
        alive = {name: [e for e in held[name] if e[-1] > now] for name in ("v", "l", "m")}
        value = (alive["v"][0][0],) if alive["v"] else None
        items = sorted(((k,), (n,)) for k, n, _ in alive["m"])
        one = dict(items).get((1,))
        plain = [(n,) for n in held["p"]]
        return [
            *(value is not None, value, bool(alive["l"]), [(n,) for n, _ in alive["l"]]),
            *(bool(items), items, [k for k, _ in items], sorted(v for _, v in items)),
            *(one is not None, None if one is None else Row(n=one[0]), plain, plain),
        ]


KEYS = [f"k{number}" for number in range(4)]
BATCHES = [
    ("at once", [(key, "add", n) for key in KEYS for n in (1, 2)]),
    ("at once", [(KEYS[0], "look", 0), (KEYS[1], "replace", 5), ("new", "add", 3)]),
    ("half", [(KEYS[0], "add", 11), (KEYS[1], "add", 4), (KEYS[2], "look", 0)]),
    ("half", [(key, "look", 0) for key in [*KEYS, "new"]]),
    ("over", [(key, "look", 0) for key in [*KEYS, "new"]]),
    ("at once", [(key, "add", 7) for key in KEYS[:2]] + [(KEYS[3], "replace", 1)]),
]


def times_of_batches(pipeline):
    """When each batch began, in milliseconds since the epoch."""
    found = {}
    for path in (pipeline.checkpoint / "offsets").glob("[0-9]*"):
        found[int(path.name)] = json.loads(path.read_text().splitlines()[1])["batchTimestampMs"]
    return found


@pytest.mark.usefixtures("without_empty_batches")
@pytest.mark.long
@pytest.mark.parametrize("kind", [NativePipeline, PagedPipeline])
def test_every_kind_of_state_expires_as_it_does_in_spark(spark, tmp_path, kind):
    pipeline = kind(
        spark,
        tmp_path,
        rows="key STRING, op STRING, n INT",
        output="key STRING, seen STRING, left STRING",
        time_mode="ProcessingTime",
    )
    waits = {"at once": 0, "half": LIFE / 2_000, "over": LIFE / 1_000}
    # The second life finds the state of the first.
    for life in (BATCHES[:3], BATCHES[3:]):
        query = pipeline.start(pipeline.result(Lives()))
        try:
            for wait, rows in life:
                time.sleep(waits[wait])
                pipeline.feed(rows)
                query.processAllAvailable()
        finally:
            query.stop()
    model, times = Model(), times_of_batches(pipeline)
    expected = {n: model.batch(rows, times[n]) for n, (_, rows) in enumerate(BATCHES)}
    assert by_batch(pipeline) == expected


class Expiring:
    def init(self, handle):
        self.state = handle.getValueState("tally", self.ddl, LONG)


class ExpiringCents(Expiring, CentsTally):
    pass


class ExpiringAmounts(Expiring, AmountsTally):
    pass


@pytest.fixture
def expiring(spark, tmp_path, without_empty_batches):
    """A query on pages whose values expire, after a batch of twelve keys."""
    pipeline = PagedPipeline(spark, tmp_path, pages=2, time_mode="ProcessingTime")
    pipeline.feed(batch("first", range(12)))
    pipeline.deploy_natively(ExpiringCents())
    return pipeline


@pytest.mark.long
@pytest.mark.parametrize("words", ["keep", "restart"])
def test_a_migrated_value_keeps_its_time_unless_a_script_lets_it_restart(expiring, scripts, words):
    folder = scripts.write(f'{AMOUNTS_SCRIPT}\ntime_to_live = "{words}"\n')
    # A page is touched through one of its keys, and migrates whole.
    expiring.feed(batch("second", range(3)))
    expiring.deploy_natively(migrated(ExpiringAmounts(), migrations=folder))
    found, times = expiring.expiries(FORMATS), times_of_batches(expiring)
    assert times[0] < times[1]
    assert found.keys() == {FAMILIES[AMOUNTS]}
    moved = times[words == "restart"] + LONG
    assert found[FAMILIES[AMOUNTS]] == {
        **{f"k{number}": moved for number in range(12)},
        **{f"k{number}": times[1] + LONG for number in range(3)},
    }


class Listed(StatefulProcessor):
    ddl = "n BIGINT"

    def init(self, handle):
        self.state = handle.getListState("sums", self.ddl, LONG)

    def handleInputRows(self, key, rows, timerValues):
        self.state.appendList([self.made(row.cents) for row in rows])
        yield Row(key=key[0], n=len(list(self.state.get())), cents=0, last="", moved=0)

    def made(self, cents):
        return (cents,)

    def close(self):
        pass


class ListedAsText(Listed):
    ddl = "text STRING"

    def made(self, cents):
        return (str(cents),)


LIST_SCRIPT = """
from statemigrate.formats import Struct

revision = "cccc00000001"
down_revision = None
branch_labels = ("sums",)
store = "sums"
old = Struct("n BIGINT")
new = Struct("text STRING")


def upgrade(value):
    return {"text": str(value["n"])}
"""


@pytest.mark.long
def test_every_element_of_a_migrated_list_keeps_its_time(
    spark, tmp_path, scripts, without_empty_batches
):
    pipeline = PagedPipeline(spark, tmp_path, pages=1, time_mode="ProcessingTime")
    pipeline.feed([("a", 1, ""), ("b", 1, "")], [("a", 2, ""), ("a", 3, "")])
    pipeline.deploy_natively(Listed())
    pipeline.feed([("b", 4, "")])
    pipeline.deploy_natively(migrated(ListedAsText(), migrations=scripts.write(LIST_SCRIPT)))
    times = times_of_batches(pipeline)
    first, second, third = (times[n] + LONG for n in range(3))
    assert first < second < third
    assert pipeline.elements("sums@cccc00000001", "text STRING") == {
        "a": [("1", first), ("2", second), ("3", second)],
        "b": [("1", first), ("4", third)],
    }
    assert pipeline.expiries({"sums@cccc00000001": "text STRING"}) == {
        "sums@cccc00000001": {"a": second, "b": third}
    }


@pytest.mark.long
def test_a_time_to_live_that_comes_or_goes_is_refused(expiring, stopped_without):
    with pytest.raises(StartupError, match="differ in time to live"):
        expiring.result(CentsTally())
    with pytest.raises(StartupError, match="differ in time to live"):
        stopped_without.result(ExpiringCents())


@pytest.fixture
def stopped_without(spark, tmp_path, without_empty_batches):
    pipeline = PagedPipeline(spark, tmp_path / "without", time_mode="ProcessingTime")
    pipeline.feed(batch("first", range(2)))
    pipeline.deploy_natively(CentsTally())
    return pipeline


def test_a_time_to_live_outside_of_processing_time_is_refused_as_in_spark(spark, tmp_path):
    pipeline = PagedPipeline(spark, tmp_path)
    with pytest.raises(UnsupportedError, match="counts in processing time"):
        pipeline.result(ExpiringCents())
