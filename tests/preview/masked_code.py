"""Queries over orders with a person's address, in every kind of state that a bundle may have."""

from __future__ import annotations

from typing import Annotated

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

Orders = Annotated[
    DataFrame, "email STRING, card BIGINT, v BIGINT, at TIMESTAMP, to STRUCT<email STRING, no INT>"
]


def windows(orders: Orders):
    late = orders.withWatermark("at", "1 minute")
    return late.groupBy(F.window("at", "1 minute"), "email").agg(
        F.count("*").alias("n"), F.sum("v").alias("total"), F.max("card").alias("card")
    )


def windows_doubled(orders: Orders):
    return windows(orders.withColumn("v", F.expr("if(v = 7, 14, v)")))


def named_otherwise(orders: Orders):
    return orders.groupBy("email").agg(F.max("card").alias("number"), F.max("to.email").alias("to"))


def put_together(orders: Orders):
    text = F.concat(F.lit("<"), "email", F.lit(">"))
    return orders.groupBy("card").agg(F.max(text).alias("text"))


def by_domain(orders: Orders):
    domain = F.substring_index("email", "@", -1)
    return orders.groupBy("email").agg(F.max(domain).alias("domain"), F.count("*").alias("n"))


def first_ones(orders: Orders):
    return orders.withWatermark("at", "1 minute").dropDuplicates(["email", "at"])


def joined(left: Orders, right: Orders):
    one = left.withWatermark("at", "1 minute").alias("one")
    other = right.withWatermark("at", "1 minute").alias("other")
    near = "one.email = other.email AND other.at BETWEEN one.at AND one.at + INTERVAL 1 MINUTE"
    return one.join(other, F.expr(near), "inner").select("one.email", "one.v", "other.card")


class Seen(StatefulProcessor):
    """Keeps of each address a value, a list, a map and what expires."""

    def init(self, handle):
        self.total = handle.getValueState("total", "n BIGINT, email STRING")
        self.cards = handle.getListState("cards", "card BIGINT")
        self.places = handle.getMapState("places", "email STRING", "n BIGINT")
        self.short = handle.getValueState("short", "card BIGINT", ttlDurationMs=3_600_000)

    def handleInputRows(self, key, rows, timerValues):
        n, _ = self.total.get() if self.total.exists() else (0, "")
        for row in rows:
            n += row.v
            self.cards.appendValue((row.card,))
            old = (
                self.places.getValue((row.to["email"],))
                if self.places.containsKey((row.to["email"],))
                else (0,)
            )
            self.places.updateValue((row.to["email"],), (old[0] + 1,))
            self.short.update((row.card,))
        self.total.update((n, key[0]))
        yield Row(email=key[0], n=n)

    def close(self):
        pass


def processed(orders: Orders):
    return orders.groupBy("email").transformWithState(
        Seen(), "email STRING, n BIGINT", "Update", "ProcessingTime"
    )


def orders(batch):
    """The rows of a batch: addresses and card numbers that nobody else has."""
    import json
    import random

    drawn = random.Random(batch)
    for number in range(80):
        person = drawn.randrange(30)
        minute = max(0, batch - drawn.choice([0, 0, 1]))
        yield json.dumps(
            {
                "email": None if number == 3 else f"person{person}@mail{person % 3}.example",
                "card": 4_000_000_000_000 + 7919 * person,
                "v": number % 11,
                "at": f"2026-01-01T00:{minute:02}:{number % 60:02}Z",
                "to": {"email": f"friend{drawn.randrange(9)}@mail.example", "no": number},
            }
        )
