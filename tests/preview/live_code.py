"""Queries whose operators migrate live, on the checkpoint and with the scripts that a test sets."""

from __future__ import annotations

import pandas
from previewed_code import Events, Means, Totals, WrongMeans, WrongTotals
from pyspark.sql import Row, functions
from pyspark.sql.streaming import StatefulProcessor

from statemigrate import ENVELOPE, migrated, paged, stateful, with_backfill

CHECKPOINT = "/nowhere/checkpoint"
MIGRATIONS = "migrations"
OUTPUT = "k STRING, n BIGINT, sum BIGINT"
MEANS = "aaaa11112222"
"""The revision of what the means keep."""


def _stateful(events, processor, **options):
    return stateful(
        events,
        by="k",
        processor=processor,
        output=OUTPUT,
        checkpoint=CHECKPOINT,
        migrations=MIGRATIONS,
        **options,
    )


def stateful_totals(events: Events):
    return _stateful(events, Totals())


def stateful_minutes(events: Events):
    """The key depends on the session's time zone."""
    return _stateful(events.withColumn("k", functions.date_format("at", "HH:mm")), Totals())


def stateful_means(events: Events):
    return _stateful(events, Means())


def stateful_wrong_totals(events: Events):
    return _stateful(events, WrongTotals())


def stateful_wrong_means(events: Events):
    return _stateful(events, WrongMeans())


def _with_backfill(events, processor):
    fed = with_backfill(events, "k", checkpoint=CHECKPOINT)
    own = migrated(processor, migrations=MIGRATIONS, checkpoint=CHECKPOINT)
    return fed.groupBy("k").transformWithState(own, OUTPUT, "Update", "None")


def marked_totals(events: Events):
    own = migrated(Totals(), migrations=MIGRATIONS, checkpoint=CHECKPOINT)
    return events.groupBy("k").transformWithState(own, OUTPUT, "Update", "None")


def marked_means(events: Events):
    own = migrated(Means(), migrations=MIGRATIONS, checkpoint=CHECKPOINT)
    return events.groupBy("k").transformWithState(own, OUTPUT, "Update", "None")


def stateful_back(events: Events):
    """The code that `rollback` asks for."""
    return _stateful(events, Totals(), targets={"total": "base"})


def marked_back(events: Events):
    own = migrated(
        Totals(), migrations=MIGRATIONS, checkpoint=CHECKPOINT, targets={"total": "base"}
    )
    return events.groupBy("k").transformWithState(own, OUTPUT, "Update", "None")


def plain_totals(events: Events):
    return events.groupBy("k").transformWithState(Totals(), OUTPUT, "Update", "None")


def plain_means(events: Events):
    """The code without its scripts."""
    return events.groupBy("k").transformWithState(Means(), OUTPUT, "Update", "None")


def backfilled_totals(events: Events):
    return _with_backfill(events, Totals())


def backfilled_means(events: Events):
    return _with_backfill(events, Means())


def backfilled_wrong_totals(events: Events):
    return _with_backfill(events, WrongTotals())


def backfilled_wrong_means(events: Events):
    return _with_backfill(events, WrongMeans())


def _paged(events, processor):
    own = migrated(processor, migrations=MIGRATIONS)
    return paged(events, by="k", processor=own, output=OUTPUT, checkpoint=CHECKPOINT, pages=4)


def paged_totals(events: Events):
    return _paged(events, Totals())


def paged_means(events: Events):
    return _paged(events, Means())


def paged_wrong_totals(events: Events):
    return _paged(events, WrongTotals())


def paged_wrong_means(events: Events):
    return _paged(events, WrongMeans())


def _stateful_pages(events, processor):
    return _stateful(events, processor, pages=4, operator="totals")


def stateful_pages_totals(events: Events):
    return _stateful_pages(events, Totals())


def stateful_pages_means(events: Events):
    return _stateful_pages(events, Means())


def stateful_pages_wrong_totals(events: Events):
    return _stateful_pages(events, WrongTotals())


def stateful_pages_wrong_means(events: Events):
    return _stateful_pages(events, WrongMeans())


def _function(events, revision, step=0):
    """The same totals by a function, whose values say which revision each has."""

    def totals(key, frames, state):
        n, total, *_ = state.get if state.exists else (0, 0)
        for frame in frames:
            n, total = n + len(frame), total + int(frame["v"].sum()) + step
        state.update((n, total, total / n) if revision == MEANS else (n, total))
        yield pandas.DataFrame([(key[0], n, total)], columns=["k", "n", "sum"])

    fed = with_backfill(events, "k", checkpoint=CHECKPOINT)
    own = migrated(
        totals,
        store="total",
        migrations=MIGRATIONS,
        targets={"total": revision},
        checkpoint=CHECKPOINT,
    )
    return fed.groupBy("k").applyInPandasWithState(own, OUTPUT, ENVELOPE, "Update", "NoTimeout")


def function_totals(events: Events):
    return _function(events, "base")


def function_means(events: Events):
    return _function(events, MEANS)


def function_wrong_totals(events: Events):
    return _function(events, "base", 1)


def function_wrong_means(events: Events):
    return _function(events, MEANS, 1)


def timed_function(events: Events):
    """The totals of some keys; the others have a timeout alone."""

    def totals(key, frames, state):
        if not state.hasTimedOut and key[0] in ("k1", "k2"):
            n, total = state.get if state.exists else (0, 0)
            state.update((n + sum(map(len, frames)), total))
        state.setTimeoutDuration(3_600_000)
        yield pandas.DataFrame([(key[0], 0, 0)], columns=["k", "n", "sum"])

    own = migrated(totals, store="total", migrations=MIGRATIONS, targets={"total": "base"})
    return events.groupBy("k").applyInPandasWithState(
        own, OUTPUT, ENVELOPE, "Update", "ProcessingTimeTimeout"
    )


def unmarked_function(events: Events):
    """A function that gets envelopes as they are."""

    def totals(key, frames, state):
        yield pandas.DataFrame([(key[0], 0, 0)], columns=["k", "n", "sum"])

    return events.groupBy("k").applyInPandasWithState(
        totals, OUTPUT, ENVELOPE, "Update", "NoTimeout"
    )


class Latest(StatefulProcessor):
    """Keeps the newest id of a key."""

    def init(self, handle):
        self.latest = handle.getValueState("latest", "id BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        (latest,) = self.latest.get() if self.latest.exists() else (0,)
        latest = max([latest, *(row.id for row in rows)])
        self.latest.update((latest,))
        yield Row(k=key[0], n=latest, sum=0)

    def close(self):
        pass


def _two(first, second, processor):
    """Both sides of a union keep state; that of the second one migrates live."""
    latest = first.groupBy("k").transformWithState(Latest(), OUTPUT, "Update", "None")
    live = _stateful(second, processor, operator=1)
    return latest.union(live)


def two_totals(first: Events, second: Events):
    return _two(first, second, Totals())


def two_means(first: Events, second: Events):
    return _two(first, second, Means())


def two_wrong_totals(first: Events, second: Events):
    return _two(first, second, WrongTotals())


def two_wrong_means(first: Events, second: Events):
    return _two(first, second, WrongMeans())
