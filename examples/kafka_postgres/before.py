"""The first deployment: amounts in cents, a flat value. ``python before.py --help``."""

from decimal import Decimal

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from query import embedded, on_spark_state, session
from settings import read_settings
from topics import movements


class Balances(StatefulProcessor):
    """An account's balance, how often it moved, and the largest sum that did."""

    def init(self, handle):
        self.account = handle.getValueState(
            "accounts", "cents BIGINT, movements INT, largest BIGINT"
        )

    def moved(self, account, amounts):
        cents, count, largest = self.account.get() or (0, 0, 0)
        for amount in amounts:
            cents, count, largest = cents + amount, count + 1, max(largest, abs(amount))
        self.account.update((cents, count, largest))
        return Row(
            account=account,
            balance=Decimal(cents).scaleb(-2),
            movements=count,
            largest=Decimal(largest).scaleb(-2),
        )

    def handleInputRows(self, key, rows, timerValues):
        yield self.moved(key[0], (row.cents for row in rows))

    def close(self):
        pass


class BalancesInPandas(Balances):
    """The same over DataFrames."""

    def handleInputRows(self, key, rows, timerValues):
        amounts = (int(cents) for frame in rows for cents in frame["cents"])
        yield pd.DataFrame([self.moved(key[0], amounts).asDict()])


def start(settings):
    """Start the query as it was before anyone thought of migrating it."""
    rows = movements(session(settings), settings)
    processor = BalancesInPandas() if settings.pandas else Balances()
    run = embedded if settings.engine == "embedded" else on_spark_state
    return run(rows, processor, settings)


if __name__ == "__main__":
    start(read_settings()).awaitTermination()
