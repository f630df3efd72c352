"""Queries of the embedded engine: what is deployed, changes of it with their script, and faults."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from previewed_code import Events, Means, Totals, WrongMeans, WrongTotals
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

from statemigrate import (
    BatchProcessor,
    EmbeddedOptions,
    EmbeddedQuery,
    migrated,
)

CHECKPOINT = "/nowhere/checkpoint"
MIGRATIONS = None
"""Where a test has its scripts; without them code is not marked with `migrated`."""
OPTIONS = {"partitions": 2, "snapshot_every": 3}
FIRST = 180
"""The id from which on `totals_wrong_later` is wrong."""
HANDED = []
"""The batches that the sink got, with their rows."""
TOTALS = "k STRING, n BIGINT, sum BIGINT"


def sink(rows, batch):
    HANDED.append((batch, sorted(map(tuple, rows.collect()))))


def query(events, processor, output=TOTALS):
    if MIGRATIONS is not None:
        processor = migrated(processor, migrations=MIGRATIONS)
    return EmbeddedQuery(
        events,
        by="k",
        processor=processor,
        outputStructType=output,
        checkpoint=CHECKPOINT,
        sink=sink,
        options=EmbeddedOptions(**OPTIONS),
    )


def totals(events: Events):
    return query(events, Totals())


def wrong_totals(events: Events):
    return query(events, WrongTotals())


def means(events: Events):
    return query(events, Means())


def wrong_means(events: Events):
    return query(events, WrongMeans())


class ColumnTotals(BatchProcessor):
    """`Totals` by columns."""

    step = 0

    def init(self, handle):
        handle.getValueState("total", "n BIGINT, sum BIGINT")

    def handleBatch(self, keys, rows, state, timerValues):
        sevens = pc.if_else(pc.equal(rows["v"], 7), self.step, 0)
        rows = rows.set_column(rows.schema.get_field_index("v"), "v", pc.add(rows["v"], sevens))
        added = self.aggregate(keys, rows, [("v", "sum"), ("v", "count")])
        had = [pc.fill_null(pc.struct_field(state["total"], name), 0) for name in ("n", "sum")]
        n, total = pc.add(had[0], added["v_count"]), pc.add(had[1], added["v_sum"])
        made = pa.chunked_array(
            [
                pc.make_struct(*each, field_names=["n", "sum"])
                for each in [(n.combine_chunks(), total.combine_chunks())]
            ]
        )
        output = keys.append_column("n", n).append_column("sum", total)
        return keys.append_column("total", made), output


class WrongColumnTotals(ColumnTotals):
    """Adds one too many to every seven."""

    step = 1


class ColumnMeans(BatchProcessor):
    """`Means` by columns."""

    step = 0

    def init(self, handle):
        handle.getValueState("total", "n BIGINT, sum BIGINT, mean DOUBLE")

    def handleBatch(self, keys, rows, state, timerValues):
        added = self.aggregate(keys, rows, [("v", "sum"), ("v", "count")])
        had = [pc.fill_null(pc.struct_field(state["total"], name), 0) for name in ("n", "sum")]
        n = pc.add(had[0], added["v_count"]).combine_chunks()
        more = pc.multiply(added["v_count"], self.step)
        total = pc.add(pc.add(had[1], added["v_sum"]), more).combine_chunks()
        mean = pc.divide(total.cast("float64"), n.cast("float64"))
        made = pc.make_struct(n, total, mean, field_names=["n", "sum", "mean"])
        output = keys.append_column("n", n).append_column("sum", total)
        return keys.append_column("total", made), output


class WrongColumnMeans(ColumnMeans):
    """Adds one too many."""

    step = 1


def column_totals(events: Events):
    return query(events, ColumnTotals())


def wrong_column_totals(events: Events):
    return query(events, WrongColumnTotals())


def column_means(events: Events):
    return query(events, ColumnMeans())


def wrong_column_means(events: Events):
    return query(events, WrongColumnMeans())


class Visits(StatefulProcessor):
    """When a key came, by processing time, and how often it had each value."""

    def init(self, handle):
        self.times = handle.getListState("times", "at BIGINT")
        self.values = handle.getMapState("values", "v BIGINT", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        now = timerValues.getCurrentProcessingTimeInMs()
        for row in rows:
            n = self.values.getValue((row.v,))[0] if self.values.containsKey((row.v,)) else 0
            self.values.updateValue((row.v,), (n + 1,))
        self.times.appendValue((now,))
        yield Row(k=key[0], at=now)

    def close(self):
        pass


class LateVisits(Visits):
    """Counts a value of seven twice."""

    def handleInputRows(self, key, rows, timerValues):
        rows = list(rows)
        yield from super().handleInputRows(key, rows + [r for r in rows if r.v == 7], timerValues)


def visits(events: Events):
    return query(events, Visits(), "k STRING, at BIGINT")


def late_visits(events: Events):
    return query(events, LateVisits(), "k STRING, at BIGINT")


def visits_until_now(events: Events):
    """The stream asks for the time, so that each batch runs by itself."""
    some = events.where(F.col("at") < F.current_timestamp())
    return query(some, Visits(), "k STRING, at BIGINT")


class Failing(Totals):
    """Does not get past an id."""

    def handleInputRows(self, key, rows, timerValues):
        rows = list(rows)
        if any(row.id >= 240 for row in rows):
            raise ValueError("no such id")
        return super().handleInputRows(key, rows, timerValues)


def failing(events: Events):
    return query(events, Failing())


def started(events: Events):
    return totals(events).start(availableNow=True)


def minutes_of_the_day(events: Events):
    """The key depends on the session's time zone."""
    return query(events.withColumn("k", F.date_format("at", "HH:mm")), Totals())


def no_query(events: Events):
    return events


def another_key(events: Events):
    return query(events.withColumn("k", F.col("v")), Totals(), "k BIGINT, n BIGINT, sum BIGINT")


def without_doubles(events: Events):
    late = events.withWatermark("at", "1 minute")
    return query(late.dropDuplicates(["k", "at"]), Totals())


class TotalsFrom(Totals):
    """Adds one too many to sevens whose id is large enough."""

    def __init__(self, first):
        self.first = first

    def handleInputRows(self, key, rows, timerValues):
        n, total = self.total.get() if self.total.exists() else (0, 0)
        for row in rows:
            wrong = row.v == 7 and row.id >= self.first
            n, total = n + 1, total + row.v + wrong
        self.total.update((n, total))
        yield Row(k=key[0], n=n, sum=total)


def totals_wrong_later(events: Events):
    return query(events, TotalsFrom(FIRST))


def both(left: Events, right: Events):
    return query(left.union(right.withColumn("k", F.concat(F.lit("other "), "k"))), Totals())


def both_but_some(left: Events, right: Events):
    return both(left, right.where("v <> 7"))


class MeansWithMore(StatefulProcessor):
    """Another script leads to its format."""

    def init(self, handle):
        self.total = handle.getValueState("total", "n BIGINT, sum BIGINT, mean DOUBLE, more STRING")

    def handleInputRows(self, key, rows, timerValues):
        n, total = self.total.get()[:2] if self.total.exists() else (0, 0)
        for row in rows:
            n, total = n + 1, total + row.v
        self.total.update((n, total, total / n, "none"))
        yield Row(k=key[0], n=n, sum=total)

    def close(self):
        pass


def means_with_more(events: Events):
    return query(events, MeansWithMore())


def totals_until_now(events: Events):
    """The stream asks for the time, so that each batch runs by itself."""
    return query(events.where(F.col("at") < F.current_timestamp()), Totals())


def means_until_now(events: Events):
    return query(events.where(F.col("at") < F.current_timestamp()), Means())
