"""What both versions of the processor tell downstream: a key's row as it is now, money in cents."""

from __future__ import annotations

from pyspark.sql import Row

COLUMNS = ("entity", "seller", "name", "category", "city", "bids", "total", "highest")
OUTPUT = (
    "entity STRING, seller BIGINT, name STRING, category STRING, city STRING, "
    "bids BIGINT, total BIGINT, highest BIGINT"
)
Summary = Row(*COLUMNS)
REWRITTEN = ("entity", "bids", "total", "highest", "mean")
"""What the aggregation gives of an auction whose state was rewritten."""
