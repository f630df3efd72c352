"""Queries whose operators migrate live, on the checkpoint and with the scripts that a test sets."""

from __future__ import annotations

from previewed_code import Events, Means, Totals, WrongMeans, WrongTotals

from statemigrate import migrated, paged, stateful, with_backfill

CHECKPOINT = "/nowhere/checkpoint"
MIGRATIONS = "migrations"
OUTPUT = "k STRING, n BIGINT, sum BIGINT"


def _stateful(events, processor):
    return stateful(
        events,
        by="k",
        processor=processor,
        output=OUTPUT,
        checkpoint=CHECKPOINT,
        migrations=MIGRATIONS,
    )


def stateful_totals(events: Events):
    return _stateful(events, Totals())


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
