"""The processor of the second deployment: item and price are structs, money is decimal.

Compared with `statemigrate.demo.jobs.before` the code follows the new format; for the migration
there is the decorator, and the script in the example's ``migrations/versions``.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from statemigrate.demo.paths import example_migrations
from statemigrate.demo.stage import Summary
from statemigrate.native import migrated

AUCTION = """
    seller BIGINT,
    item STRUCT<name: STRING, category: STRING>,
    price STRUCT<bids: BIGINT, total: DECIMAL(18,2), highest: DECIMAL(18,2)>
"""


@migrated(migrations=example_migrations())
class AuctionHouse(StatefulProcessor):
    """Keeps each person, and each auction with the number, sum and maximum of its bids."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open both stores."""
        self.auctions = handle.getValueState("auctions", AUCTION)
        self.persons = handle.getValueState("persons", "name STRING, city STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002
        """Take in a key's events; a bid may come before its auction's own row."""
        (entity,) = key
        yield self._person(entity, rows) if entity[0] == "p" else self._auction(entity, rows)

    def close(self) -> None:
        """Nothing to release."""

    def _person(self, entity: str, rows: Iterator[Row]) -> Row:
        *_, last = rows
        self.persons.update((last.name, last.city))
        return Summary(entity, None, last.name, None, last.city, None, None, None)

    def _auction(self, entity: str, rows: Iterator[Row]) -> Row:
        nothing = (None, (None, None), (0, Decimal(0), None))
        seller, (name, category), (bids, total, highest) = self.auctions.get() or nothing
        for row in rows:
            if row.kind == "auction":
                seller, name, category = row.seller, row.name, row.category
            else:
                price = Decimal(row.price).scaleb(-2)
                bids, total, highest = bids + 1, total + price, max(highest or price, price)
        self.auctions.update((seller, (name, category), (bids, total, highest)))
        return Summary(entity, seller, name, category, None, bids, cents(total), cents(highest))


def cents(amount: Decimal | None) -> int | None:
    """An amount as downstream knows it."""
    return None if amount is None else int(amount.scaleb(2))
