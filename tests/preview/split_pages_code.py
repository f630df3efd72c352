"""Queries on pages that have grown so large that they are in leaves."""

from __future__ import annotations

import random

from previewed_code import Events
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from statemigrate import migrated, paged

CHECKPOINT = "/nowhere/checkpoint"
MIGRATIONS = "migrations"
OUTPUT = "k STRING, n BIGINT, sum BIGINT"


class Letters(StatefulProcessor):
    """A count of a key, some kilobytes for each of its rows, and the rows' values in a list."""

    fault = 0
    total_type = "n BIGINT, sum BIGINT"
    life = None

    def init(self, handle):
        self.total = handle.getValueState("total", self.total_type, self.life)
        self.letters = handle.getMapState("letters", "id BIGINT", "text STRING, v BIGINT")
        self.values = handle.getListState("values", "v BIGINT, text STRING")

    def handleInputRows(self, key, rows, timerValues):
        n, total = (self.total.get() or (0, 0))[:2]
        for row in sorted(rows, key=lambda row: row.id):
            n, total = n + 1, total + row.v
            value = row.v + (self.fault if row.v == 7 else 0)
            self.letters.updateValue((row.id,), (letters(row.id), value))
            self.values.appendValue((row.v, letters(row.v)))
        self.total.update(self._total(n, total))
        yield Row(k=key[0], n=n, sum=total)

    def _total(self, n, total):
        return (n, total)

    def close(self):
        pass


class WrongLetters(Letters):
    """One value of a map is wrong."""

    fault = 1


class LivingLetters(Letters):
    """The totals expire."""

    life = 86_400_000  # milliseconds


class Means(Letters):
    """The migrated code: the total has a mean."""

    total_type = "n BIGINT, sum BIGINT, mean DOUBLE"

    def _total(self, n, total):
        return (n, total, total / n)


def letters(number):
    return "".join(random.Random(number).choices("abcdefgh", k=4_000))


def _paged(events, processor, **options):
    own = migrated(processor, migrations=MIGRATIONS)
    return paged(events, by="k", processor=own, output=OUTPUT, checkpoint=CHECKPOINT, **options)


def split(events: Events):
    return _paged(events, Letters(), pages=1)


def split_wrongly(events: Events):
    return _paged(events, WrongLetters(), pages=1)


def means(events: Events):
    return _paged(events, Means(), pages=1)


def in_pages(events: Events):
    return _paged(events, Letters())


def expiring(events: Events):
    return _paged(events, LivingLetters(), pages=1, timeMode="ProcessingTime")


def in_three_pages(events: Events):
    return _paged(events, Letters(), pages=3)


def means_in_three_pages(events: Events):
    return _paged(events, Means(), pages=3)


def in_variables(events: Events):
    return events.groupBy("k").transformWithState(Letters(), OUTPUT, "Update", "None")
