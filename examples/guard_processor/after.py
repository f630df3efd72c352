"""The second deployment, on the same checkpoint: each payment in a record that says more of it."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import StructType

from statemigrate import Avro, BackfillOptions, EmbeddedOptions, EmbeddedQuery, migrated

PAYMENT = Avro(Path(__file__).with_name("payment.avsc")).struct_type()
GUARDED = StructType().add("name", "string").add("object", PAYMENT).add("timestamp", "timestamp")
MESSAGES = (
    StructType()
    .add("number", "long")
    .add("account", "long")
    .add("release", "boolean")
    .add("payment", PAYMENT)
)
UNKNOWN = datetime(2020, 1, 1, tzinfo=UTC)
# A batch of few messages is over soon; the backfill of a partition may still take so long.
CHUNKS = BackfillOptions(minimum_milliseconds=500)


@migrated(migrations=Path(__file__).with_name("migrations"))
class Guard(StatefulProcessor):
    """Holds the payments of an account until a release lets them out, in their order."""

    def init(self, handle):
        self.guarded = handle.getListState("guarded", GUARDED)

    def handleInputRows(self, key, rows, timerValues):
        # Spark gives the rows of a batch in no certain order; their numbers tell it.
        for row in sorted(rows, key=lambda row: row.number):
            if row.release:
                yield from self.released(key[0])
            else:
                made_at = row.payment["made_at"] or UNKNOWN
                name = f"payment {row.payment['id']}"
                self.guarded.appendValue(Row(name=name, object=row.payment, timestamp=made_at))

    def released(self, account):
        for position, (_, payment, _) in enumerate(self.guarded.get()):
            yield Row(account=account, position=position, id=payment.id, cents=payment.cents)
        self.guarded.clear()

    def close(self):
        pass


def start(folder, backfill=CHUNKS):
    """Start the query on ``folder``; ``backfill`` says how much a batch may migrate unasked."""
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
        options=EmbeddedOptions(backfill=backfill),
    ).start()


if __name__ == "__main__":
    query = start(sys.argv[1])
    while not query.awaitTermination(1):
        for batch in query.progress[-1:]:
            print(f"batch {batch.batch}: {batch.backfilled} keys backfilled, {batch.left} to go")
