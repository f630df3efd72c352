"""What the demonstration's queries write, and what they should have written.

What every key must be in the end, computed by Spark SQL from all events at once.

It shares no code with the processors: no state, no batches, no migration.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from statemigrate.demo.events import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


EXPECTED = """
WITH
    persons AS (SELECT entity, name, city FROM events WHERE kind = 'person'),
    auctions AS (SELECT entity, seller, name, category FROM events WHERE kind = 'auction'),
    bids AS (
        SELECT entity, count(*) AS bids, sum(price) AS total, max(price) AS highest
        FROM events WHERE kind = 'bid' GROUP BY entity
    )
SELECT
    entity, auctions.seller, auctions.name, auctions.category, CAST(NULL AS STRING) AS city,
    coalesce(bids.bids, 0) AS bids, coalesce(bids.total, 0) AS total, bids.highest
FROM auctions FULL OUTER JOIN bids USING (entity)
UNION ALL
SELECT entity, NULL, name, NULL, city, NULL, NULL, NULL FROM persons
"""

EXPECTED_OF_REWRITTEN = """
SELECT entity, count(*) AS bids, sum(price) AS total, max(price) AS highest, avg(price) AS mean
FROM events WHERE kind = 'bid' GROUP BY entity
"""


def compute_expected(spark: SparkSession, events: Path, query: str = EXPECTED) -> Any:
    """A table with one row a key, by default of `statemigrate.demo.stage.COLUMNS`."""
    spark.read.schema(SCHEMA).parquet(str(events)).createOrReplaceTempView("events")
    return spark.sql(query).toArrow()


# The sink of both engines: one file a batch.


def output_files(directory: Path) -> Callable[[DataFrame, int], None]:
    """A sink that keeps one file a batch: a batch that is run again replaces its own rows."""

    def write(rows: DataFrame, batch: int) -> None:
        temporary = directory / f".{batch:06d}.tmp"
        pq.write_table(rows.toArrow(), temporary)
        temporary.replace(directory / f"{batch:06d}.parquet")

    return write
