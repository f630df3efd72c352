"""Processors whose variables change their kinds, their keys and their times to live."""

from __future__ import annotations

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

HOUR = 3_600_000


class Kept(StatefulProcessor):
    """Keeps a count, the values in their order, and a count by region, each for ``LIFE`` ms."""

    LIFE: int | None = None

    def init(self, handle):
        self.count = handle.getValueState("count", "n BIGINT", self.LIFE)
        self.last = handle.getListState("last", "v BIGINT", self.LIFE)
        self.regions = handle.getMapState("regions", "region STRING", "n BIGINT", self.LIFE)

    def handleInputRows(self, key, rows, timerValues):
        for row in sorted(rows, key=lambda row: row.v):
            n = self.count.get()[0] if self.count.exists() else 0
            self.count.update((n + 1,))
            self.last.appendValue((row.v,))
            region = (row.region,)
            seen = self.regions.getValue(region)[0] if self.regions.containsKey(region) else 0
            self.regions.updateValue(region, (seen + 1,))
        regions = sorted((k[0], v[0]) for k, v in self.regions.iterator())
        last = [each[0] for each in self.last.get()]
        yield Row(k=key[0], n=self.count.get()[0], last=str(last), regions=str(regions))


class Expiring(Kept):
    LIFE = HOUR


def _result(events, processor, time="processingTime"):
    return events.groupBy("k").transformWithState(
        processor, "k STRING, n BIGINT, last STRING, regions STRING", "update", time
    )


def kept(events):
    return _result(events, Kept())


def timeless(events):
    return _result(events, Kept(), "none")


def expiring(events):
    return _result(events, Expiring())


class Turned(StatefulProcessor):
    """Has the value as a list, the list as a map, and the map as a value."""

    def init(self, handle):
        self.count = handle.getListState("count", "n BIGINT")
        self.last = handle.getMapState("last", "v BIGINT", "at INT")
        self.regions = handle.getValueState("regions", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            self.count.appendValue((row.v,))
            self.last.updateValue((row.v,), (-1,))
        n = self.regions.get()[0] if self.regions.exists() else 0
        yield Row(
            k=key[0],
            count=str([each[0] for each in self.count.get()]),
            last=str(sorted((k[0], v[0]) for k, v in self.last.iterator())),
            regions=n,
        )


def turned(events):
    return events.groupBy("k").transformWithState(
        Turned(), "k STRING, count STRING, last STRING, regions BIGINT", "update", "none"
    )


class TurnedBack(StatefulProcessor):
    """Has the value as a map, the list as a value, and the map as a list; the key is an initial."""

    def init(self, handle):
        self.count = handle.getMapState("count", "of STRING", "n BIGINT")
        self.last = handle.getValueState("last", "v BIGINT")
        self.regions = handle.getListState("regions", "region STRING, n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        for _ in rows:
            pass
        yield Row(
            k=key[0],
            count=str(sorted((k[0], v[0]) for k, v in self.count.iterator())),
            last=self.last.get()[0] if self.last.exists() else None,
            regions=str([tuple(each) for each in self.regions.get()]),
        )


def turned_back(events):
    by = events.selectExpr("substring(k, 1, 1) AS initial", "v")
    return by.groupBy("initial").transformWithState(
        TurnedBack(), "k STRING, count STRING, last BIGINT, regions STRING", "update", "none"
    )


class Regrouped(StatefulProcessor):
    """Has the same variables under an initial, lists joined and a map by upper case."""

    def init(self, handle):
        self.count = handle.getValueState("count", "n BIGINT")
        self.last = handle.getListState("last", "v BIGINT")
        self.regions = handle.getMapState("regions", "big STRING", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            self.last.appendValue((row.v,))
        yield Row(
            k=key[0],
            n=self.count.get()[0],
            last=str([each[0] for each in self.last.get()]),
            regions=str(sorted((k[0], v[0]) for k, v in self.regions.iterator())),
        )


def regrouped(events):
    by = events.selectExpr("substring(k, 1, 1) AS initial", "v")
    return by.groupBy("initial").transformWithState(
        Regrouped(), "k STRING, n BIGINT, last STRING, regions STRING", "update", "none"
    )
