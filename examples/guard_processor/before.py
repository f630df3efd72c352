"""The first deployment: an account's payments are held back, as they came, until a release."""

import sys
from pathlib import Path

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import StructType

from statemigrate import Avro, EmbeddedQuery

PAYMENT = Avro(Path(__file__).with_name("payment.avsc")).struct_type()
MESSAGES = (
    StructType()
    .add("number", "long")
    .add("account", "long")
    .add("release", "boolean")
    .add("payment", PAYMENT)
)


class Guard(StatefulProcessor):
    """Holds the payments of an account until a release lets them out, in their order."""

    def init(self, handle):
        self.guarded = handle.getListState("guarded", PAYMENT)

    def handleInputRows(self, key, rows, timerValues):
        # Spark gives the rows of a batch in no certain order; their numbers tell it.
        for row in sorted(rows, key=lambda row: row.number):
            if row.release:
                yield from self.released(key[0])
            else:
                self.guarded.appendValue(Row(**row.payment))

    def released(self, account):
        for position, (id, _, cents, _) in enumerate(self.guarded.get()):
            yield Row(account=account, position=position, id=id, cents=cents)
        self.guarded.clear()

    def close(self):
        pass


def start(folder):
    """Start the query on ``folder``, which has the messages, the checkpoint and what is let out."""
    spark = SparkSession.builder.getOrCreate()
    return EmbeddedQuery(
        spark.readStream.schema(MESSAGES).json(f"{folder}/messages"),
        groupBy="account",
        processor=Guard(),
        outputStructType="account BIGINT, position INT, id STRING, cents BIGINT",
        checkpoint=f"{folder}/checkpoint",
        sink=lambda rows, batch: rows.write.mode("overwrite").parquet(
            f"{folder}/released/batch={batch}"
        ),
    ).start()


if __name__ == "__main__":
    start(sys.argv[1]).awaitTermination()
