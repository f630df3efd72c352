"""A function on groups, and processors that go on with what it kept."""

from __future__ import annotations

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

MINUTE = 60_000


def counted(key, frames, state):
    """Counts and sums, and tells both again a minute after a key was seen last."""
    import pandas as pd

    if state.hasTimedOut:
        n, total = state.get
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "n": [-n], "total": [total]})
        return
    n, total = state.get if state.exists else (0, 0)
    last = 0
    for frame in frames:
        n, total = n + len(frame), total + int(frame["v"].sum())
        last = max(last, int(frame["at"].max().timestamp() * 1000))
    state.update((n, total))
    state.setTimeoutTimestamp(last + MINUTE + 500)
    yield pd.DataFrame({"k": [key[0]], "n": [n], "total": [total]})


def counted_groups(events):
    from pyspark.sql.streaming.state import GroupStateTimeout

    return (
        events.withWatermark("at", "10 seconds")
        .groupBy("k")
        .applyInPandasWithState(
            counted,
            "k STRING, n BIGINT, total BIGINT",
            "n BIGINT, total BIGINT",
            "update",
            GroupStateTimeout.EventTimeTimeout,
        )
    )


class Counted(StatefulProcessor):
    """Does what `counted` does, on rows."""

    STATE = "total BIGINT, n BIGINT"

    def init(self, handle):
        self.handle = handle
        self.kept = handle.getValueState("kept", self.STATE)

    def handleInputRows(self, key, rows, timerValues):
        total, n = self.kept.get() if self.kept.exists() else (0, 0)
        last = 0
        for row in rows:
            n, total = n + 1, total + row.v
            last = max(last, int(row.at.timestamp() * 1000))
        self.kept.update((total, n))
        for due in list(self.handle.listTimers()):
            self.handle.deleteTimer(due)
        self.handle.registerTimer(last + MINUTE + 500)
        yield Row(k=key[0], n=n, total=total)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        total, n = self.kept.get()
        self.kept.clear()
        yield Row(k=key[0], n=-n, total=total)


def counted_rows(events):
    late = events.withWatermark("at", "10 seconds")
    return late.groupBy("k").transformWithState(
        Counted(), "k STRING, n BIGINT, total BIGINT", "update", "eventTime"
    )


class CountedInPandas(Counted):
    """Does the same on frames."""

    def handleInputRows(self, key, rows, timerValues):
        import pandas as pd

        flat = [row for frame in rows for row in frame.itertuples()]
        made = list(super().handleInputRows(key, flat, timerValues))
        yield pd.DataFrame([row.asDict() for row in made])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        import pandas as pd

        made = list(super().handleExpiredTimer(key, timerValues, expiredTimerInfo))
        yield pd.DataFrame([row.asDict() for row in made])


def counted_in_pandas(events):
    late = events.withWatermark("at", "10 seconds")
    return late.groupBy("k").transformWithStateInPandas(
        CountedInPandas(), "k STRING, n BIGINT, total BIGINT", "update", "eventTime"
    )


class Texts(StatefulProcessor):
    """Tells what there is."""

    def init(self, handle):
        self.text = handle.getValueState("text", "said STRING")

    def handleInputRows(self, key, rows, timerValues):
        for _ in rows:
            pass
        said = self.text.get()[0] if self.text.exists() else "nothing"
        yield Row(k=key[0], said=said)


def texts(events):
    return events.groupBy("k").transformWithState(
        Texts(), "k STRING, said STRING", "update", "none"
    )


def summed(key, frames, state):
    """Counts and sums the values of a key."""
    import pandas as pd

    n, total = state.get if state.exists else (0, 0)
    for frame in frames:
        n, total = n + len(frame), total + int(frame["v"].sum())
    state.update((n, total))
    yield pd.DataFrame({"k": [key[0]], "n": [n], "total": [total]})


def in_envelopes(events, function=summed):
    from pyspark.sql.streaming.state import GroupStateTimeout

    from statemigrate import ENVELOPE

    return events.groupBy("k").applyInPandasWithState(
        function,
        "k STRING, n BIGINT, total BIGINT",
        ENVELOPE,
        "update",
        GroupStateTimeout.NoTimeout,
    )
