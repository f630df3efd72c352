"""Totals of auctions in a table that is right after every crash: ``python pipeline.py FOLDER``."""

import sys

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor
from sink import upsert_into

from statemigrate import EmbeddedQuery


class Totals(StatefulProcessor):
    """The total of all bids on an auction; one row a batch for each auction with new bids."""

    def init(self, handle):
        self.total = handle.getValueState("totals", "cents BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        (cents,) = self.total.get() or (0,)
        cents += sum(row.cents for row in rows)
        self.total.update((cents,))
        yield Row(auction=key[0], cents=cents)

    def close(self):
        pass


def start(folder):
    """Start the query on ``folder``, which has the bids, the checkpoint and ``totals.db``."""
    spark = SparkSession.builder.getOrCreate()
    bids = spark.readStream.schema("auction BIGINT, cents BIGINT").option("maxFilesPerTrigger", 1)
    return EmbeddedQuery(
        bids.json(f"{folder}/bids"),
        groupBy="auction",
        processor=Totals(),
        outputStructType="auction BIGINT, cents BIGINT",
        checkpoint=f"{folder}/checkpoint",
        sink=upsert_into(f"{folder}/totals.db"),
    ).start()


if __name__ == "__main__":
    start(sys.argv[1]).awaitTermination()
