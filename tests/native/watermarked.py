"""A query in event time that tells its rows and timers, on pages and on Spark's own state."""

from native_pipeline import NativePipeline
from paged_pipeline import PagedPipeline
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from timed_sums import timed

OUTPUT = "key STRING, what STRING, at TIMESTAMP, watermark BIGINT, rows ARRAY<BIGINT>"


class Watching(StatefulProcessor):
    """Tells what came and which timers a key has, at which watermark."""

    def init(self, handle):
        self.handle = handle
        self.state = handle.getValueState("last", "at TIMESTAMP")

    def handleInputRows(self, key, rows, timerValues):
        rows = sorted(rows, key=lambda row: (row.at, row.n))
        self.state.update((rows[-1].at,))
        for row in rows:
            self.handle.registerTimer(int(row.at.timestamp() * 1000) + 3_000)
        yield self._told(key, f"rows {sorted(self.handle.listTimers())}", rows, timerValues)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        expired = expiredTimerInfo.getExpiryTimeInMs()
        if expired % 5_000 == 0:
            self.handle.registerTimer(expired + 1_000)
        yield self._told(key, f"expired {expired} {self.state.get()}", [], timerValues)

    def _told(self, key, what, rows, times):
        (at,) = self.state.get()
        watermark = times.getCurrentWatermarkInMs()
        return Row(key=key[0], what=what, at=at, watermark=watermark, rows=[r.n for r in rows])

    def close(self):
        pass


class Watermarked:
    def stream(self):
        return super().stream().withWatermark("at", "2 seconds")


class Plain(Watermarked, NativePipeline):
    pass


class Paged(Watermarked, PagedPipeline):
    pass


# The third has rows behind the watermark, and one between that of the batch before and its own.
LIVES = [
    [timed(0, range(6), 1), timed(5, range(3), 2)],
    [
        [*timed(2, [0, 9], 3), *timed(3, [1], 4), *timed(4, [2], 5), *timed(12, [3], 6)],
        [*timed(4, [0], 7), *timed(9, [1], 8), *timed(11, [8], 9), *timed(10, [8], 10)],
        timed(30, [4], 11),
    ],
    [[*timed(27, [5], 12), *timed(28, [5], 13), *timed(29, [0], 14)], timed(60, [90], 15)],
]
