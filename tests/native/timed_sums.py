"""Sums a key that are given out by event-time timers, in two formats."""

import datetime as dt

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

TIMED_ROWS = "key STRING, at TIMESTAMP, n BIGINT"
TIMED_SCRIPT = """
from statemigrate.formats import Struct

revision = "cccc00000001"
down_revision = None
branch_labels = ("sums",)
store = "sums"
old = Struct("n BIGINT, at BIGINT")
new = Struct("at BIGINT, sum STRUCT<n: BIGINT>")


def upgrade(value):
    return {"at": value["at"], "sum": {"n": value["n"]}}
"""


class Sums(StatefulProcessor):
    """Adds up a key's numbers and gives the sum ten seconds of event time after its last row."""

    ddl = "n BIGINT, at BIGINT"

    def init(self, handle):
        self.handle = handle
        self.state = handle.getValueState("sums", self.ddl)

    def handleInputRows(self, key, rows, timer_values):
        n, at = self.read(self.state.get()) if self.state.exists() else (0, 0)
        if at:
            self.handle.deleteTimer(at)
        for row in rows:
            n, at = n + row.n, max(at, int(row.at.timestamp() * 1000) + 10_000)
        self.state.update(self.made(n, at))
        self.handle.registerTimer(at)
        yield from ()

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        n, at = self.read(self.state.get())
        assert at == expiredTimerInfo.getExpiryTimeInMs()
        self.state.clear()
        yield Row(key=key[0], n=n, at=at)

    def read(self, value):
        return value

    def made(self, n, at):
        return n, at

    def close(self):
        pass


class NewSums(Sums):
    ddl = "at BIGINT, sum STRUCT<n: BIGINT>"

    def read(self, value):
        return value[1].n, value[0]

    def made(self, n, at):
        return at, (n,)


def timed(second, keys, n):
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second)
    return [(f"k{number}", at, n) for number in keys]


BEFORE = [timed(0, range(12), 1), timed(5, range(3), 10)]
# The last rows move the watermark over the others' timers; between them a row that is too late.
AFTER = [timed(9, range(2, 5), 100), timed(40, [90], 0), timed(1, [5], 5), timed(80, [91], 0)]
