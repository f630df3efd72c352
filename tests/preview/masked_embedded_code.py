"""Queries of the embedded engine over orders with a person's address, in every kind of state."""

from __future__ import annotations

import json
import random
from typing import Annotated

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from statemigrate import EmbeddedOptions, EmbeddedQuery, migrated

SCHEMA = (
    "email STRING, card BIGINT, region STRING, v BIGINT, at TIMESTAMP, "
    "to STRUCT<email: STRING, no: INT>"
)
Orders = Annotated[DataFrame, SCHEMA]
CHECKPOINT = "/nowhere/checkpoint"
MIGRATIONS = None
"""Where a test has its scripts; without them code is not marked with `migrated`."""
OPTIONS = {"partitions": 3, "snapshot_every": 3}
OUTPUT = "email STRING, region STRING, n BIGINT"


def query(orders, processor, by=("email", "region"), output=OUTPUT):
    if MIGRATIONS is not None:
        processor = migrated(processor, migrations=MIGRATIONS, complement=True)
    return EmbeddedQuery(
        orders, by=list(by), processor=processor, outputStructType=output, checkpoint=CHECKPOINT,
        sink=lambda rows, batch: None, options=EmbeddedOptions(**OPTIONS),
    )  # fmt: skip


class Seen(StatefulProcessor):
    """Keeps of each address a value, a list and a map, with addresses in all of them."""

    step = 0

    def init(self, handle):
        self.total = handle.getValueState(
            "total", "n BIGINT, email STRING, last STRUCT<email: STRING, no: INT>"
        )
        self.cards = handle.getListState("cards", "card BIGINT, v BIGINT")
        self.places = handle.getMapState(
            "places", "email STRING, sort BIGINT", "n BIGINT, emails MAP<STRING, STRING>"
        )

    def handleInputRows(self, key, rows, timerValues):
        n, *last = self.total.get() if self.total.exists() else (0, "", None)
        for row in rows:
            n += row.v + (self.step if row.v == 7 else 0)
            last = [row.email, None if row.to is None else (row.to["email"], row.to["no"])]
            self.cards.appendValue((row.card, row.v))
            other = (None if row.to is None else row.to["email"], row.v % 2)
            old = self.places.getValue(other)[0] if self.places.containsKey(other) else 0
            self.places.updateValue(other, (old + 1, {row.email: row.email} if row.email else {}))
            if old > 3:
                self.places.removeKey(other)
        self.total.update((n, *last))
        yield Row(email=key[0], region=key[1], n=n)

    def close(self):
        pass


class WrongSeen(Seen):
    """Adds one too many to every seven."""

    step = 1


def seen(orders: Orders):
    return query(orders, Seen())


def wrong_seen(orders: Orders):
    return query(orders, WrongSeen())


def by_card(orders: Orders):
    return query(orders, Seen(), ("card", "region"), "card BIGINT, region STRING, n BIGINT")


class People(StatefulProcessor):
    """Keeps a card, which later code leaves out."""

    def init(self, handle):
        self.person = handle.getValueState(
            "owner", "n BIGINT, email STRING, card BIGINT, note STRING"
        )

    def handleInputRows(self, key, rows, timerValues):
        n = self.person.get()[0] if self.person.exists() else 0
        for row in rows:
            n += 1
            self.person.update((n, key[0], row.card, f"card {row.card}"))
        yield Row(email=key[0], region=key[1], n=n)

    def close(self):
        pass


class PeopleWithoutCards(StatefulProcessor):
    """The later code."""

    step = 0

    def init(self, handle):
        self.person = handle.getValueState("owner", "n BIGINT, email STRING")

    def handleInputRows(self, key, rows, timerValues):
        n = self.person.get()[0] if self.person.exists() else 0
        n += len(list(rows))
        self.person.update((n + self.step, key[0]))
        yield Row(email=key[0], region=key[1], n=n)

    def close(self):
        pass


class WrongPeople(PeopleWithoutCards):
    """Counts one too many."""

    step = 1


def people(orders: Orders):
    return query(orders, People())


def people_without_cards(orders: Orders):
    return query(orders, PeopleWithoutCards())


def wrong_people(orders: Orders):
    return query(orders, WrongPeople())


SCRIPT = """
from statemigrate import Struct

revision = "cccc11112222"
down_revision = None
branch_labels = ("owner",)
store = "owner"
old = Struct("n BIGINT, email STRING, card BIGINT, note STRING")
new = Struct("n BIGINT, email STRING")


def upgrade(value):
    return {"n": value["n"], "email": value["email"]}


def downgrade(value):
    return {**value, "card": 0, "note": None}
"""
"""Leaves the card out."""
FAILING = SCRIPT.replace(
    '    return {"n"',
    """    if value["n"] == 3:
        raise ValueError(f"no value for {value['email']}")
    return {\"n\"""",
)
"""Leaves the values of some people where they are, and says whose they are."""


def order(person, v=1, minute=0, number=0, friend=0):
    """A line of the input."""
    return json.dumps(
        {
            "email": None if person is None else f"person{person}.@mail.example",
            "card": 4_000_000_000_000 + 7919 * (person or 0),
            "region": f"region {(person or 0) % 3}",
            "v": v,
            "at": f"2026-01-01T00:{minute:02}:{number % 60:02}Z",
            "to": {"email": f"friend{friend}@mail.example", "no": number},
        }
    )


def orders(batch):
    """The rows of a batch: addresses and card numbers that nobody else has."""
    drawn = random.Random(batch)
    for number in range(80):
        person = None if number == 3 else drawn.randrange(40)
        yield order(person, number % 11, batch, number, drawn.randrange(9))


def late(orders: Orders):
    """Groups by what it makes of an address."""
    domain = F.concat(F.lit("at "), "email")
    return query(orders.withColumn("region", domain), Seen())
