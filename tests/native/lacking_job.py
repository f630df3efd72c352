"""A driver on a cluster, whose workers run one Python after another: what each start says.

Arguments: the master, the folder of scripts, a folder for checkpoints, and JSON with a name and a
Python each. Prints, by name and by way of starting, what was raised.
"""

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from statemigrate import EmbeddedOptions, EmbeddedQuery, migrated, paged
from statemigrate.errors import StatemigrateError

master, folder, checkpoints, pythons = sys.argv[1:]
spark = (
    SparkSession.builder.master(master)
    .config("spark.ui.enabled", "false")
    .config(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.cores.max", "2")
    .config("spark.ui.showConsoleProgress", "false")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
stream = spark.readStream.format("rate").load().selectExpr("value AS key", "value AS amount")


class Total(StatefulProcessor):
    def init(self, handle):
        self.total = handle.getValueState("whole", "a INT")

    def handleInputRows(self, key, rows, timerValues):
        yield from ()

    def close(self):
        pass


def total(key, rows, state):
    yield from ()


def page():
    arguments = {"by": "key", "processor": Total(), "output": "key LONG", "pages": 4}
    paged(stream, checkpoint=f"{checkpoints}/paged", **arguments)


def embed():
    query = EmbeddedQuery(
        stream,
        by="key",
        processor=Total(),
        outputStructType="key LONG",
        checkpoint=f"{checkpoints}/embedded",
        sink=lambda rows, batch: None,
        options=EmbeddedOptions(shared_path=True),
    )
    query.start().stop()


WAYS = {
    "processor": lambda: migrated(Total(), migrations=folder),
    "function": lambda: migrated(total, store="whole", migrations=folder),
    "paged": page,
    "embedded": embed,
}


def raised(way):
    try:
        way()
    except StatemigrateError as error:
        return {**error.to_json(), "data": error.data}
    return None


found = {}
for name, python in json.loads(pythons).items():
    spark.sparkContext.pythonExec = python
    found[name] = {way: raised(WAYS[way]) for way in WAYS}
sys.stdout.write(f"{json.dumps(found, default=str)}\n")
spark.stop()
