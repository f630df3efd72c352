"""The first deployment: totals in cents, a flat value. Run it, stop it, then run `after.py`."""

from decimal import Decimal

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

from statemigrate import EmbeddedQuery


class Totals(StatefulProcessor):
    """The total of all bids on an auction."""

    def init(self, handle):
        self.auction = handle.getValueState("auctions", "name STRING, total BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        name, cents = self.auction.get() or (None, 0)
        for row in rows:
            name, cents = row.name, cents + int(row.price.scaleb(2))
        self.auction.update((name, cents))
        yield Row(auction=key[0], total=Decimal(cents).scaleb(-2))

    def close(self):
        pass


def start(folder):
    """Start the query on ``folder``, which has the bids, the checkpoint and the totals."""
    spark = SparkSession.builder.getOrCreate()
    schema = "auction BIGINT, name STRING, price DECIMAL(18,2)"
    bids = spark.readStream.schema(schema).json(f"{folder}/bids")
    return EmbeddedQuery(
        bids,
        groupBy="auction",
        processor=Totals(),
        outputStructType="auction BIGINT, total DECIMAL(18,2)",
        checkpoint=f"{folder}/checkpoint",
        sink=lambda rows, batch: rows.write.mode("overwrite").parquet(
            f"{folder}/totals/batch={batch}"
        ),
    ).start(processingTime="1 second")


if __name__ == "__main__":
    start(".").awaitTermination()
