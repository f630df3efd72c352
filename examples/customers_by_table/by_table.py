"""The same query, thousands of customers at once: ``python by_table.py FOLDER``."""

import sys

import polars as pl
from orders import STATE, run

from statemigrate import BatchProcessor


class Customers(BatchProcessor):
    """The number of a customer's orders, what they cost together, and the last item."""

    def init(self, handle):
        handle.getValueState("customers", STATE)

    def handleBatch(self, keys, rows, state, timerValues):
        new = (
            pl.from_arrow(rows)
            .group_by("customer")
            .agg(orders=pl.len(), spent=pl.col("amount").sum(), last=pl.col("item").last())
        )
        old = pl.from_arrow(state).unnest("customers").select("customer", "orders", "spent")
        both = new.join(old, on="customer", how="left", suffix="_before").select(
            "customer",
            pl.col("orders") + pl.col("orders_before").fill_null(0),
            pl.col("spent") + pl.col("spent_before").fill_null(0),
            "last",
        )
        state = both.select("customer", customers=pl.struct("orders", "spent", "last"))
        return state, both.select("customer", "orders", "spent")


if __name__ == "__main__":
    run(Customers(), sys.argv[1])
