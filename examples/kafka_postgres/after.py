"""The second deployment, on the same checkpoint: amounts as decimals, in another shape."""

from decimal import Decimal
from pathlib import Path

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from query import embedded, on_spark_state, session
from settings import read_settings
from topics import movements

from statemigrate import migrated, with_backfill

MIGRATIONS = Path(__file__).parent / "migrations"


class Balances(StatefulProcessor):
    """An account's balance, how often it moved, and the largest sum that did."""

    def init(self, handle):
        self.account = handle.getValueState(
            "accounts",
            "balance DECIMAL(18,2), moved STRUCT<times: INT, largest: DECIMAL(18,2)>",
        )

    def moved(self, account, amounts):
        balance, moved = self.account.get() or (Decimal(0), (0, Decimal(0)))
        times, largest = moved
        for amount in amounts:
            balance, times, largest = balance + amount, times + 1, max(largest, abs(amount))
        self.account.update((balance, Row(times=times, largest=largest)))
        return Row(account=account, balance=balance, movements=times, largest=largest)

    def handleInputRows(self, key, rows, timerValues):
        yield self.moved(key[0], (Decimal(row.cents).scaleb(-2) for row in rows))

    def close(self):
        pass


class BalancesInPandas(Balances):
    """The same over DataFrames."""

    def handleInputRows(self, key, rows, timerValues):
        amounts = (Decimal(int(each)).scaleb(-2) for frame in rows for each in frame["cents"])
        yield pd.DataFrame([self.moved(key[0], amounts).asDict()])


def start(settings):
    """Start the query that takes the state over; on Spark's own state with a backfill's source."""
    rows = movements(session(settings), settings)
    processor = BalancesInPandas() if settings.pandas else Balances()
    if settings.engine == "embedded":
        return embedded(rows, migrated(processor, migrations=MIGRATIONS), settings)
    rows = with_backfill(rows, by="account", checkpoint=settings.checkpoint)
    checked = migrated(processor, migrations=MIGRATIONS, checkpoint=settings.checkpoint)
    return on_spark_state(rows, checked, settings)


if __name__ == "__main__":
    start(read_settings()).awaitTermination()
