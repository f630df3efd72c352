"""The input: two topics, in each message a movement of money as JSON."""

from pyspark.sql import functions

MESSAGE = "account STRING, cents BIGINT"
MOST = 5_000  # messages of a topic that one batch takes


def movements(spark, settings):
    """Deposits and withdrawals as one stream of accounts and cents."""
    deposits = _topic(spark, settings, "deposits")
    withdrawals = _topic(spark, settings, "withdrawals")
    return deposits.union(withdrawals.select("account", (-functions.col("cents")).alias("cents")))


def _topic(spark, settings, topic):
    reader = spark.readStream.format("kafka")
    if settings.named_sources:
        reader = reader.name(topic)
    messages = (
        reader.option("kafka.bootstrap.servers", settings.kafka)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", MOST)
        .load()
    )
    movement = functions.from_json(functions.col("value").cast("string"), MESSAGE)
    # What is no movement is passed over; a query of your own may keep it somewhere.
    return messages.select(movement.alias("movement")).select("movement.*").dropna()
