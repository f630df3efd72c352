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
