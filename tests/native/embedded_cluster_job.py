"""The embedded engine on a cluster of two workers: what starts, and what a batch comes to.

Arguments: the master, a folder that all see, and one that each worker has for itself. Prints, for
each attempt, what was raised, and what was handed to the sink.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from statemigrate import EmbeddedOptions, EmbeddedQuery
from statemigrate.errors import StatemigrateError

master, shared, own = sys.argv[1:]
spark = (
    SparkSession.builder.master(master)
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.cores.max", "2")
    .config("spark.ui.showConsoleProgress", "false")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
inputs = Path(shared, "input")


class Total(StatefulProcessor):
    def init(self, handle):
        self.total = handle.getValueState("total", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        total = (self.total.get() or (0,))[0] + sum(row.n for row in rows)
        self.total.update((total,))
        yield Row(key=key[0], n=total)

    def close(self):
        pass


def feed(number):
    inputs.mkdir(exist_ok=True)
    rows = [json.dumps({"key": f"k{each}", "n": number}) for each in range(20)]
    (inputs / f"{number}.json").write_text("\n".join(rows))


def attempted(checkpoint, **options):
    handed = []
    query = EmbeddedQuery(
        spark.readStream.schema("key STRING, n BIGINT").json(str(inputs)),
        by="key",
        processor=Total(),
        outputStructType="key STRING, n BIGINT",
        checkpoint=checkpoint,
        sink=lambda rows, batch: handed.extend(tuple(row) for row in rows.collect()),
        options=EmbeddedOptions(partitions=2, snapshot_every=1, **options),
    )
    raised = None
    try:
        query.start(availableNow=True).awaitTermination()
    except StatemigrateError as error:
        raised = {**error.to_json(), "data": error.data}
    return {"raised": raised, "handed": sorted(handed)}


feed(1)
found = {"unsaid": attempted(f"{shared}/unsaid")}
found["own"] = attempted(f"{own}/checkpoint", shared_path=True)
found["first"] = attempted(f"{shared}/checkpoint", shared_path=True)
feed(2)
found["second"] = attempted(f"{shared}/checkpoint", shared_path=True)
sys.stdout.write(f"{json.dumps(found, default=str)}\n")
spark.stop()
