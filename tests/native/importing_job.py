"""A driver on a cluster whose scripts import: asks before the start, then runs them on workers.

Arguments: the master, the folder of scripts, the folder of a package that only the driver has, and
its archive. Prints what was said and what the workers computed.
"""

import json
import sys

from pyspark.sql import SparkSession

from statemigrate.errors import StartupError
from statemigrate.processor.workers import check_scripts
from statemigrate.scripts import ScriptFolder

master, folder, package, archive = sys.argv[1:]
sys.path.insert(0, package)
spark = (
    SparkSession.builder.master(master)
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.cores.max", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
lineages = ScriptFolder(folder).lineages()


def asked(stores):
    try:
        check_scripts({store: lineages[store] for store in stores})
    except StartupError as error:
        return {"found": str(error.found), "next": error.next_action, **error.data}
    return None


def computed(store):
    upgrade = lineages[store].migrations[0].upgrade
    values = spark.sparkContext.parallelize([1, 2, 3, 4], 4)
    return values.map(lambda number: upgrade({"a": number})["a"]).collect()


said = {store: asked([store]) for store in lineages}
beside = computed("beside")
spark.sparkContext.addPyFile(archive)
sent = {store: asked([store]) for store in lineages}
found = {"said": said, "beside": beside, "sent": sent, "package": computed("package")}
sys.stdout.write(f"{json.dumps(found)}\n")
spark.stop()
