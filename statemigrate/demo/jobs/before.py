"""The processor of the first deployment: an auction is one flat struct, money is in cents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from statemigrate.demo.stage import Summary

AUCTION = """
    seller BIGINT, name STRING, category STRING, bids BIGINT, total BIGINT, highest BIGINT
"""


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
        state = self.auctions.get() or (None, None, None, 0, 0, None)
        seller, name, category, bids, total, highest = state
        for row in rows:
            if row.kind == "auction":
                seller, name, category = row.seller, row.name, row.category
            else:
                bids, total, highest = bids + 1, total + row.price, max(highest or 0, row.price)
        self.auctions.update((seller, name, category, bids, total, highest))
        return Summary(entity, seller, name, category, None, bids, total, highest)
