"""A processor with a value, a list and a map."""

from __future__ import annotations

from pyspark.sql.streaming import StatefulProcessor


class Words(StatefulProcessor):
    """Keeps a count, the last three values in their order, and a count by region."""

    def init(self, handle):
        self.count = handle.getValueState("count", "n INT")
        self.last = handle.getListState("last", "v BIGINT")
        self.regions = handle.getMapState("regions", "region STRING", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        import pandas as pd

        frame = pd.concat(list(rows)).sort_values("v")
        n = (self.count.get()[0] if self.count.exists() else 0) + len(frame)
        self.count.update((n,))
        before = [row[0] for row in self.last.get()] if self.last.exists() else []
        values = [*before, *(int(v) for v in frame["v"])][-3:]
        self.last.put([(v,) for v in values])
        for region in frame["region"]:
            seen = self.regions.getValue((region,))[0] if self.regions.containsKey((region,)) else 0
            self.regions.updateValue((region,), (seen + 1,))
        regions = sorted((k[0], v[0]) for k, v in self.regions.iterator())
        yield pd.DataFrame(
            {"k": [key[0]], "n": [n], "last": [str(values)], "regions": [str(regions)]}
        )


def variables(events):
    return events.groupBy("k").transformWithStateInPandas(
        Words(), "k STRING, n INT, last STRING, regions STRING", "update", "none"
    )


class Alarms(StatefulProcessor):
    """Tells of each key, a minute after it was seen last, how often it was seen."""

    def init(self, handle):
        self.handle = handle
        self.seen = handle.getValueState("seen", "n INT, due BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        import pandas as pd

        n, due = self.seen.get() if self.seen.exists() else (0, None)
        if due is not None:
            self.handle.deleteTimer(due)
        frame = pd.concat(list(rows))
        due = int(frame["at"].max().timestamp() * 1000) + 60_000
        self.handle.registerTimer(due)
        self.seen.update((n + len(frame), due))
        yield from ()

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        import pandas as pd

        yield pd.DataFrame({"k": [key[0]], "n": [self.seen.get()[0]]})
        self.seen.clear()


def alarms(events):
    late = events.withWatermark("at", "10 seconds")
    return late.groupBy("k").transformWithStateInPandas(
        Alarms(), "k STRING, n INT", "append", "eventTime"
    )


class WiderWords(StatefulProcessor):
    """Tells what there is: a wider count, and a text beside each of the last values."""

    def init(self, handle):
        self.count = handle.getValueState("count", "n BIGINT")
        self.last = handle.getListState("last", "v BIGINT, said STRING")
        self.regions = handle.getMapState("regions", "region STRING", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        import pandas as pd

        n = self.count.get()[0] if self.count.exists() else 0
        last = [tuple(row) for row in self.last.get()] if self.last.exists() else []
        regions = sorted((k[0], v[0]) for k, v in self.regions.iterator())
        for _ in rows:
            pass
        yield pd.DataFrame(
            {"k": [key[0]], "n": [n], "last": [str(last)], "regions": [str(regions)]}
        )


def wider_variables(events):
    return events.groupBy("k").transformWithStateInPandas(
        WiderWords(), "k STRING, n BIGINT, last STRING, regions STRING", "update", "none"
    )
