"""One row an auction, with the mean of its bids.

Until now there was a row for each auction and bidder. This is the migration script of the
demonstration's rewrite, which copies it into a folder of scripts.
"""

from statemigrate.formats import Struct, Value

revision = "3f7a90c1d2e4"
down_revision = None
branch_labels = ("aggregation-0",)
store = "aggregation-0"

# What the functions keep: count, sum, max, and of avg a sum and a count of its own.
old = Struct("count BIGINT, sum BIGINT, max BIGINT")
new = Struct("count BIGINT, sum BIGINT, max BIGINT, sum_2 DOUBLE, count_2 BIGINT")
new_key = Struct("entity STRING")


def upgrade(value: Value) -> Value:
    """Begin the mean with what the other columns know."""
    return {**value, "sum_2": float(value["sum"]), "count_2": value["count"]}


def rekey(key: Value, value: Value) -> Value:  # noqa: ARG001
    """Leave the bidder out."""
    return {"entity": key["entity"]}


def merge(first: Value, second: Value) -> Value:
    """Put two bidders of an auction together."""
    together = {name: first[name] + second[name] for name in first}
    return {**together, "max": max(first["max"], second["max"])}
