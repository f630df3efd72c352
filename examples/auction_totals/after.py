"""The second deployment, on the same checkpoint: another format, one decorator, one script."""

from pathlib import Path

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

from statemigrate import EmbeddedQuery, migrated


@migrated(migrations=Path(__file__).parent / "migrations")
class Totals(StatefulProcessor):
    """The total of all bids on an auction."""

    def init(self, handle):
        self.auction = handle.getValueState(
            "auctions", "item STRUCT<name: STRING>, total DECIMAL(18,2)"
        )

    def handleInputRows(self, key, rows, timerValues):
        item, total = self.auction.get() or (None, 0)
        for row in rows:
            item, total = Row(name=row.name), total + row.price
        self.auction.update((item, total))
        yield Row(auction=key[0], total=total)

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
