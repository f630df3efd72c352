"""Time to live and timers: a migration neither prolongs a life nor moves a timer."""

import time

import pytest
from native_pipeline import NativePipeline
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from tally import AMOUNTS, AMOUNTS_SCRIPT, CENTS, AmountsTally, CentsTally, Expected, batch

from statemigrate import migrated
from statemigrate.errors import StartupError

pytestmark = pytest.mark.spark

LIFE = 600_000  # milliseconds; nothing expires while a test runs
SHORT = 60_000  # nothing expires before another batch has run, on a busy machine too


class Expiring:
    life = LIFE

    def init(self, handle):
        self.state = handle.getValueState("tally", self.ddl, self.life)


class ExpiringCents(Expiring, CentsTally):
    pass


class ExpiringAmounts(Expiring, AmountsTally):
    pass


class ShortCents(ExpiringCents):
    life = SHORT


class ShortAmounts(ExpiringAmounts):
    life = SHORT

    def handleInputRows(self, key, rows, timer_values):
        """Reads and leaves alone."""
        found = self.state.get()
        list(rows)
        yield Row(key=key[0], n=found[0] if found else -1, cents=0, last="", moved=0)


@pytest.fixture
def expiring(spark, tmp_path):
    # With processing time Spark would run empty batches without end.
    name = "spark.sql.streaming.noDataMicroBatches.enabled"
    spark.conf.set(name, "false")
    yield NativePipeline(spark, tmp_path / "pipeline", time_mode="ProcessingTime")
    spark.conf.unset(name)


def stored(pipeline, variable):
    """Values and the times they expire at, by key."""
    found = pipeline.state(variable)
    values = {key: each["value"] for key, each in found.items()}
    return values, {key: each["ttlExpirationMs"] for key, each in found.items()}


@pytest.mark.long
def test_a_value_that_expires_is_migrated_when_it_is_written(expiring, scripts):
    folder = scripts.write()
    expected = Expected()
    first, second = batch("first", range(12)), batch("second", range(8, 16))
    expiring.feed(first)
    expiring.deploy_natively(ExpiringCents())
    expected.process(first, CENTS)
    _, times = stored(expiring, "tally")
    expiring.feed(second)
    expiring.deploy_natively(
        migrated(ExpiringAmounts(), migrations=folder, checkpoint=expiring.checkpoint)
    )
    expected.process(second, AMOUNTS)
    old, old_times = stored(expiring, "tally")
    new, _ = stored(expiring, f"tally@{AMOUNTS}")
    assert {"tally": old, f"tally@{AMOUNTS}": new} == expected.stored(CENTS, AMOUNTS)
    assert old_times == {key: times[key] for key in old}


@pytest.mark.long
def test_a_value_that_is_only_read_keeps_its_time_and_runs_out(expiring, scripts):
    folder = scripts.write()
    expiring.feed(batch("first", range(6)))
    expiring.deploy_natively(ShortCents())
    _, times = stored(expiring, "tally")
    expiring.feed(batch("look", range(6)))
    expiring.deploy_natively(migrated(ShortAmounts(), migrations=folder))
    values, now = stored(expiring, "tally")
    assert now == times
    assert sorted(values) == [f"k{number}" for number in range(6)]
    assert {row[1] for row in expiring.handed_by_batch[1]} == {1}
    time.sleep(max(0, max(times.values()) / 1000 - time.time()) + 1)
    expiring.feed(batch("late", range(6)))
    expiring.deploy_natively(migrated(ShortAmounts(), migrations=folder))
    assert {row[1] for row in expiring.handed_by_batch[2]} == {-1}


@pytest.mark.long(weight=1 / 3)
def test_a_script_may_let_the_time_start_again(expiring, scripts):
    folder = scripts.write(AMOUNTS_SCRIPT + '\ntime_to_live = "restart"\n')
    expiring.feed(batch("first", range(6)))
    expiring.deploy_natively(ExpiringCents())
    _, times = stored(expiring, "tally")

    class Reading(ExpiringAmounts):
        def handleInputRows(self, key, rows, timer_values):
            list(rows)
            n, amount, last, moved = self.state.get()
            yield Row(key=key[0], n=n, cents=int(amount * 100), last=last, moved=moved)

    expiring.feed(batch("look", range(4)))
    expiring.deploy_natively(migrated(Reading(), migrations=folder))
    _, old = stored(expiring, "tally")
    _, new = stored(expiring, f"tally@{AMOUNTS}")
    assert old == {key: times[key] for key in ("k4", "k5")}
    assert sorted(new) == ["k0", "k1", "k2", "k3"]
    assert all(new[key] > times[key] for key in new)


@pytest.mark.long(weight=1 / 3)
def test_code_without_a_time_to_live_is_refused_where_values_have_one(expiring, scripts):
    folder = scripts.write()
    expiring.feed(batch("first", range(3)))
    expiring.deploy_natively(ExpiringCents())
    with pytest.raises(StartupError, match="differ in time to live"):
        migrated(AmountsTally(), migrations=folder, checkpoint=expiring.checkpoint)


class Timed(StatefulProcessor):
    """Registers a timer for the second after a row, and says what it holds when it fires."""

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        n, cents, last, moved = self.read(self.state.get())
        yield Row(key=key[0], n=-n, cents=cents, last=last, moved=moved)


class TimedCents(Timed, CentsTally):
    def init(self, handle):
        super().init(handle)
        self.handle = handle

    def handleInputRows(self, key, rows, timer_values):
        self.handle.registerTimer(timer_values.getCurrentProcessingTimeInMs() + 1_000)
        return super().handleInputRows(key, rows, timer_values)


class TimedAmounts(Timed, AmountsTally):
    def handleInputRows(self, key, rows, timer_values):
        list(rows)
        return iter(())


@pytest.mark.long
def test_timers_that_were_registered_before_fire_and_may_migrate(expiring, scripts):
    folder = scripts.write()
    expected = Expected()
    first = batch("first", range(6))
    expiring.feed(first)
    expiring.deploy_natively(TimedCents())
    expected.process(first, CENTS)
    time.sleep(1.5)
    # Another key's row makes a batch; the six timers fire in it.
    expiring.feed(batch("other", [9]))
    expiring.deploy_natively(migrated(TimedAmounts(), migrations=folder))
    for number in range(6):
        expected.move(f"k{number}", AMOUNTS)
    assert expiring.state(f"tally@{AMOUNTS}") == expected.stored(AMOUNTS)[f"tally@{AMOUNTS}"]
    assert expiring.state("tally") == {}
    rows = [row for each in expiring.handed_by_batch.values() for row in each]
    fired = {row[0]: row[1:] for row in rows if row[1] < 0}
    assert fired == {f"k{number}": (-1, 3 * number + 7, "first", 1) for number in range(6)}
