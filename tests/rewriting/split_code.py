"""A processor with one variable, and one that has its fields in two."""

from __future__ import annotations

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor


class Together(StatefulProcessor):
    """Counts and sums in one variable."""

    def init(self, handle):
        self.totals = handle.getValueState("totals", "n BIGINT, total BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        n, total = self.totals.get() if self.totals.exists() else (0, 0)
        values = [row.v for row in rows]
        self.totals.update((n + len(values), total + sum(values)))
        yield Row(k=key[0], n=n + len(values), total=total + sum(values))


class Apart(StatefulProcessor):
    """Counts in one variable, and sums in another."""

    def init(self, handle):
        self.count = handle.getValueState("count", "n BIGINT")
        self.sum = handle.getValueState("sum", "total BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        n = self.count.get()[0] if self.count.exists() else 0
        total = self.sum.get()[0] if self.sum.exists() else 0
        values = [row.v for row in rows]
        self.count.update((n + len(values),))
        self.sum.update((total + sum(values),))
        yield Row(k=key[0], n=n + len(values), total=total + sum(values))


def _result(events, processor):
    return events.groupBy("k").transformWithState(
        processor, "k STRING, n BIGINT, total BIGINT", "update", "none"
    )


def together(events):
    return _result(events, Together())


def apart(events):
    return _result(events, Apart())


class Converted(StatefulProcessor):
    """Counts in threes and rest, and sums in another type by whether they are even."""

    def init(self, handle):
        self.count = handle.getValueState("count", "threes INT, rest INT")
        self.sum = handle.getMapState("sum", "even BOOLEAN", "text STRING")

    def handleInputRows(self, key, rows, timerValues):
        threes, rest = self.count.get() if self.count.exists() else (0, 0)
        kept = [(k, int(v[0])) for k, v in self.sum.iterator()]
        values = [row.v for row in rows]
        n, total = threes * 3 + rest + len(values), sum(v for _, v in kept) + sum(values)
        self.count.update(divmod(n, 3))
        for even, _ in kept:
            self.sum.removeKey(even)
        self.sum.updateValue((total % 2 == 0,), (str(total),))
        yield Row(k=key[0], n=n, total=total)


def converted(events):
    return _result(events, Converted())


class Slimmer(Apart):
    """Counts in the variable that had both, and sums in another."""

    def init(self, handle):
        self.count = handle.getValueState("totals", "n BIGINT")
        self.sum = handle.getValueState("sum", "total BIGINT")


def slimmer(events):
    return _result(events, Slimmer())


class Sides(StatefulProcessor):
    """Counts even values in one variable, and sums odd ones in another."""

    def init(self, handle):
        self.count = handle.getValueState("count", "n BIGINT")
        self.sum = handle.getValueState("sum", "total BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        n = self.count.get()[0] if self.count.exists() else None
        total = self.sum.get()[0] if self.sum.exists() else None
        n, total = _counted(n, total, [row.v for row in rows])
        if n is not None:
            self.count.update((n,))
        if total is not None:
            self.sum.update((total,))
        yield Row(k=key[0], n=n, total=total)


class OneSide(StatefulProcessor):
    """The same in one variable."""

    def init(self, handle):
        self.totals = handle.getValueState("totals", "n BIGINT, total BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        n, total = self.totals.get() if self.totals.exists() else (None, None)
        n, total = _counted(n, total, [row.v for row in rows])
        self.totals.update((n, total))
        yield Row(k=key[0], n=n, total=total)


def _counted(n, total, values):
    even, odd = [v for v in values if v % 2 == 0], [v for v in values if v % 2]
    n = (n or 0) + len(even) if even else n
    return n, (total or 0) + sum(odd) if odd else total


def sides(events):
    return _result(events, Sides())


def one_side(events):
    return _result(events, OneSide())


class Two(StatefulProcessor):
    """Keeps even values in one value, list and map, odd ones in others."""

    LIVES = (None, None)

    def init(self, handle):
        first, second = self.LIVES
        self.values = [
            handle.getValueState("even", "n INT", first),
            handle.getValueState("odd", "n BIGINT, last BIGINT", second),
        ]
        self.lists = [handle.getListState(name, "v BIGINT") for name in ("evens", "odds")]
        self.maps = [
            handle.getMapState(name, "region STRING", "n BIGINT") for name in ("at", "too")
        ]

    def handleInputRows(self, key, rows, timerValues):
        for row in sorted(rows, key=lambda row: row.v):
            side = row.v % 2
            value, region = self.values[side], (row.region,)
            n = value.get()[0] if value.exists() else 0
            value.update((n + 1, row.v) if side else (n + 1,))
            self.lists[side].appendValue((row.v,))
            seen = self.maps[side]
            before = seen.getValue(region)[0] if seen.containsKey(region) else 0
            seen.updateValue(region, (before + 1,))
        yield Row(k=key[0], n=0, last=None, values="", regions="")


class TwoThatExpire(Two):
    LIVES = (3_600_000, None)


class One(StatefulProcessor):
    """Keeps all values in one value, list and map."""

    LIFE: int | None = None

    def init(self, handle):
        self.both = handle.getValueState("both", "n BIGINT, last BIGINT", self.LIFE)
        self.all = handle.getListState("all", "v BIGINT")
        self.regions = handle.getMapState("regions", "region STRING", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        n, last = self.both.get() if self.both.exists() else (0, None)
        for row in rows:
            n, last = n + 1, row.v
            self.all.appendValue((row.v,))
        self.both.update((n, last))
        regions = sorted((k[0], v[0]) for k, v in self.regions.iterator())
        values = [each[0] for each in self.all.get()]
        yield Row(k=key[0], n=n, last=last, values=str(values), regions=str(regions))


class OneThatExpires(One):
    LIFE = 3_600_000


def _kept(events, processor, time="none"):
    schema = "k STRING, n BIGINT, last BIGINT, values STRING, regions STRING"
    return events.groupBy("k").transformWithState(processor, schema, "update", time)


def two(events):
    return _kept(events, Two())


def one(events):
    return _kept(events, One())


def two_that_expire(events):
    return _kept(events, TwoThatExpire(), "processingTime")


def one_that_expires(events):
    return _kept(events, OneThatExpires(), "processingTime")
