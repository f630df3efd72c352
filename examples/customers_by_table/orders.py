"""What both queries have in common."""

from pyspark.sql import SparkSession

from statemigrate import EmbeddedQuery

STATE = "orders BIGINT, spent DECIMAL(18,2), last STRING"


def run(processor, folder):
    """Run a processor over the orders in ``folder``, which has the checkpoint and the totals."""
    spark = SparkSession.builder.getOrCreate()
    schema = "customer BIGINT NOT NULL, item STRING, amount DECIMAL(18,2)"
    orders = spark.readStream.schema(schema).json(f"{folder}/orders")
    query = EmbeddedQuery(
        orders,
        groupBy="customer",
        processor=processor,
        outputStructType="customer BIGINT, orders BIGINT, spent DECIMAL(18,2)",
        checkpoint=f"{folder}/checkpoint",
        sink=lambda rows, batch: rows.write.mode("overwrite").parquet(
            f"{folder}/totals/batch={batch}"
        ),
    ).start(availableNow=True)
    query.awaitTermination()
