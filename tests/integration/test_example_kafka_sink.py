"""The example's table: batches that come again, that are old, and those of another checkpoint."""

from __future__ import annotations

import importlib.util
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from example_lives import EXAMPLE

pytestmark = [pytest.mark.integration, pytest.mark.spark]

OUTPUT = "account STRING, balance DECIMAL(18,2), movements INT, largest DECIMAL(18,2)"
OLD, NEW = str(uuid.uuid4()), str(uuid.uuid4())


@dataclass
class Table:
    """The table, and the sink as each checkpoint's query calls it."""

    spark: Any
    database: str
    write: Callable[[Any, int], None]

    def batch(self, query: str, number: int, **balances: int | None) -> None:
        """A batch of a query: the balance of some accounts."""
        rows = [
            (account, None if balance is None else Decimal(balance), 1, Decimal(1))
            for account, balance in balances.items()
        ]
        # As Spark's own thread that runs the query has it.
        self.spark.sparkContext.setLocalProperty("sql.streaming.queryId", query)
        self.write(self.spark.createDataFrame(rows, OUTPUT).coalesce(1), number)

    def forget(self, query: str) -> None:
        """What the page says to do with an older copy of a checkpoint."""
        self._execute("DELETE FROM checkpoints WHERE query = %s", query)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Account, balance and batch."""
        return self._execute("SELECT account, balance::int, batch FROM balances ORDER BY account")

    def _execute(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database) as connection:
            done = connection.execute(statement, values)
            return done.fetchall() if done.description else []


@pytest.fixture
def table(spark, postgres) -> Table:
    spec = importlib.util.spec_from_file_location("kafka_postgres_sink", EXAMPLE / "sink.py")
    sink = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sink)
    database = postgres.database(uuid.uuid4().hex)
    yield Table(spark, database, sink.upsert_into(database))
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)


def test_a_batch_that_comes_again_changes_nothing_and_an_older_one_neither(table):
    table.batch(OLD, 7, a=10, b=20)
    table.batch(OLD, 7, a=10, b=20)
    assert table.rows == [("a", 10, 7), ("b", 20, 7)]
    table.batch(OLD, 6, b=5, c=30)
    assert table.rows == [("a", 10, 7), ("b", 20, 7), ("c", 30, 6)]
    table.batch(OLD, 8, b=25)
    assert table.rows == [("a", 10, 7), ("b", 25, 8), ("c", 30, 6)]


def test_a_batch_that_fails_half_way_leaves_nothing(table):
    table.batch(OLD, 0, a=10)
    with pytest.raises(psycopg.errors.NotNullViolation):
        table.batch(OLD, 1, a=11, b=None)
    assert table.rows == [("a", 10, 0)]


def test_a_new_checkpoint_counts_from_0_and_is_the_newer_one(table):
    table.batch(OLD, 40, a=10, b=20)
    table.batch(NEW, 0, a=1)
    assert table.rows == [("a", 1, 0), ("b", 20, 40)]
    # The old driver was cut off, and is not stopped.
    table.batch(OLD, 41, a=11, b=21)
    assert table.rows == [("a", 1, 0), ("b", 21, 41)]
    table.batch(NEW, 1, b=2)
    assert table.rows == [("a", 1, 0), ("b", 2, 1)]


def test_an_older_copy_that_was_put_back_needs_a_new_generation(table):
    table.batch(OLD, 40, a=10)
    table.batch(OLD, 31, a=12)
    assert table.rows == [("a", 10, 40)], "its batches have numbers that the table has seen"
    table.forget(OLD)
    table.batch(OLD, 31, a=12)
    assert table.rows == [("a", 12, 31)]
