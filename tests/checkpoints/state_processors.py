"""A processor with a variable of each kind, and timers."""

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor


class Everything(StatefulProcessor):
    """Counts a key's rows, lists and maps their numbers, and tells of a key when a timer ends."""

    def init(self, handle):
        self.handle = handle
        self.count = handle.getValueState("count", "n BIGINT, last STRING")
        self.numbers = handle.getListState("numbers", "n BIGINT")
        self.times = handle.getMapState("times", "n BIGINT", "at STRING")

    def handleInputRows(self, key, rows, timerValues):
        n = self.count.get()[0] if self.count.exists() else 0
        latest = 0
        for row in rows:
            n += 1
            self.numbers.appendValue((row.n,))
            self.times.updateValue((row.n,), (str(row.at),))
            latest = max(latest, int(row.at.timestamp() * 1000))
        self.count.update((n, str(latest)))
        self.handle.registerTimer(latest + 15_000)
        yield Row(k=key[0], n=n, seen=str(sorted(v[0] for v in self.numbers.get())))

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield Row(k=key[0], n=-1, seen=str(expiredTimerInfo.getExpiryTimeInMs()))

    def close(self):
        pass


class Expiring(StatefulProcessor):
    """Keeps a value, a list and a map that expire after a day, and timers of the clock."""

    DAY = 24 * 60 * 60 * 1000

    def init(self, handle):
        self.handle = handle
        self.last = handle.getValueState("last", "n BIGINT, at TIMESTAMP", self.DAY)
        self.all = handle.getListState("all", "n BIGINT, text STRING", self.DAY)
        self.each = handle.getMapState("each", "n BIGINT", "at TIMESTAMP", self.DAY)
        self.plain = handle.getListState("plain", "text STRING")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            self.last.update((row.n, row.at))
            self.all.appendValue((row.n, None if row.n % 3 else f"{row.k},{row.n}"))
            self.each.updateValue((row.n % 5,), (row.at,))
            self.plain.appendList([(f"{row.k},",), (",",)])
            if row.n % 7 == 0:
                self.plain.put([(f"{row.n}",)])
            if row.n % 11 == 0:
                self.each.removeKey((row.n % 5,))
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + self.DAY)
        yield Row(k=key[0], n=len(list(self.all.get())), seen="")

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield from ()

    def close(self):
        pass


class Keeping(StatefulProcessor):
    """Keeps what it is given in a variable of each kind, whose values are of ``schema``."""

    def __init__(self, schema):
        self.schema = schema

    def init(self, handle):
        self.one = handle.getValueState("one", self.schema)
        self.every = handle.getListState("every", self.schema)
        self.each = handle.getMapState("each", "n BIGINT", self.schema)

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            value = tuple(row.v.values())
            self.one.update(value)
            self.every.appendValue(value)
            self.each.updateValue((row.n,), value)
        yield Row(done=1)

    def close(self):
        pass
