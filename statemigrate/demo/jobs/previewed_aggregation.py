"""An aggregation in production, and a change of its code that is previewed twice."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from statemigrate.commands.new_code import NewCode
from statemigrate.commands.preview import preview
from statemigrate.demo.events import SCHEMA
from statemigrate.demo.jobs.output import output_files
from statemigrate.demo.paths import DemoFolder
from statemigrate.demo.stage import plain_outcomes, reported
from statemigrate.preview import Preview

BATCHES = 4
"""How many of the last batches are previewed."""
Events = Annotated[DataFrame, SCHEMA]


def _by_auction(events: DataFrame, price: Column) -> DataFrame:
    bids = events.where("kind = 'bid'").withColumn("paid", price)
    return bids.groupBy("entity").agg(
        F.count("*").alias("bids"), F.sum("paid").alias("total"), F.max("paid").alias("highest")
    )


def in_production(events: Events) -> DataFrame:
    """Each auction's bids, in cents."""
    return _by_auction(events, F.col("price"))


def with_a_fault(events: Events) -> DataFrame:
    """The same by way of a function for money, which counts whole euros and loses the cents."""
    return _by_auction(events, F.floor(F.col("price") / 100) * 100)


def corrected(events: Events) -> DataFrame:
    """The same by way of a function for money that loses nothing."""
    return _by_auction(events, (F.col("price").cast("DECIMAL(18, 2)") * 1).cast("BIGINT"))


def run_previewing(spark: SparkSession, folder: DemoFolder, role: str) -> None:
    """Run the query until its input is done, or preview the change as far as it is made."""
    if role in CHANGES:
        _preview(spark, folder, role)
        return
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    result = in_production(stream.parquet(str(folder.events)))
    writer = result.writeStream.outputMode("update").foreachBatch(output_files(folder.output))
    query = writer.option("checkpointLocation", str(folder.checkpoint)).start()
    with reported(lambda: plain_outcomes(query), folder.progress(role)):
        query.processAllAvailable()
    query.stop()


CHANGES = {"first try": with_a_fault, "second try": corrected}


def _preview(spark: SparkSession, folder: DemoFolder, role: str) -> None:
    before = _hashes(folder.checkpoint)
    found = preview(
        folder.checkpoint,
        target=NewCode(_named(CHANGES[role]), mode="update", old_code=_named(in_production)),
        batches=BATCHES,
        migrations=None,
        spark=spark,
    )
    totals = [
        {"store": store, "added": added, "missing": missing, "changed": changed, "fields": fields}
        for store, added, missing, changed, fields in found.totals()
    ]
    document = {
        "batches": [each.batch for each in found.batches],
        "totals": totals,
        "unexpected": list(found.unexpected),
        "example": _example(found),
        "unchanged": _hashes(folder.checkpoint) == before,
    }
    folder.previewed(role).write_text(json.dumps(document))


def _example(found: Preview) -> dict[str, Any] | None:
    """A row of state that both have after the last batch, with other values."""
    examples = (each for store in found.batches[-1].stores for each in store.examples)
    changed = (each for each in examples if each.before is not None and each.after is not None)
    return next((each.to_json() for each in changed), None)


def _named(function: Any) -> str:
    return f"{function.__module__}:{function.__name__}"


def _hashes(folder: Path) -> dict[str, str]:
    paths = (each for each in folder.rglob("*") if each.is_file())
    return {str(each): hashlib.sha256(each.read_bytes()).hexdigest() for each in paths}
