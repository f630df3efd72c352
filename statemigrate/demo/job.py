"""What the demonstration's processes do, one Spark session each.

Run as ``python -m statemigrate.demo.job FOLDER ROLE``: ``before`` and ``after`` are the two
deployments of the streaming query, ``expected`` is the independent batch computation.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from statemigrate.demo.events import SCHEMA
from statemigrate.demo.expected import compute_expected
from statemigrate.demo.places import DemoFolder
from statemigrate.demo.rows import OUTPUT
from statemigrate.embedded.options import EngineOptions
from statemigrate.embedded.query import EmbeddedQuery, RunningQuery
from statemigrate.embedded.report import describe
from statemigrate.errors import StatemigrateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_POLL = 0.05  # seconds
# A JVM that lives for a minute spends more on optimising its code than that code gives back.
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def spark_session(folder: DemoFolder) -> SparkSession:
    """A local session that keeps all its files in the folder and its messages to itself."""
    from pyspark.sql import SparkSession

    logging = (Path(__file__).parent / "log4j2.properties").as_uri()
    options = (
        f"-Dlog4j2.configurationFile={logging}",
        f"-Djava.io.tmpdir={folder.temporary}",
        *_SHORT_LIVED,
    )
    java = " ".join(f'"{option}"' for option in options)
    settings = {
        "spark.driver.extraJavaOptions": java,
        "spark.sql.warehouse.dir": str(folder.temporary / "warehouse"),
        "spark.sql.shuffle.partitions": str(folder.options.partitions),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[*]").appName("statemigrate demo")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def start_query(spark: SparkSession, folder: DemoFolder, processor: Any) -> RunningQuery:
    """The streaming query of both deployments; only the processor differs."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return EmbeddedQuery(
        stream.parquet(str(folder.events)),
        by="entity",
        processor=processor,
        output=OUTPUT,
        checkpoint=folder.checkpoint,
        sink=output_files(folder.output),
        options=EngineOptions(
            partitions=folder.options.partitions, working_directory=str(folder.working)
        ),
    ).start()


def output_files(directory: Path) -> Callable[[DataFrame, int], None]:
    """A sink that keeps one file a batch: a batch that is run again replaces its own rows."""

    def write(rows: DataFrame, batch: int) -> None:
        temporary = directory / f".{batch:06d}.tmp"
        pq.write_table(rows.toArrow(), temporary)
        temporary.replace(directory / f"{batch:06d}.parquet")

    return write


def run_job(folder: DemoFolder, role: str) -> None:
    """Do what ``role`` says; a deployment ends when input and backfill are both done."""
    spark = spark_session(folder)
    if role == "expected":
        pq.write_table(compute_expected(spark, folder.events), folder.expected)
        return
    running = start_query(spark, folder, _processor(role))
    done = threading.Event()
    reporter = threading.Thread(target=_report, args=(running, folder.progress(role), done))
    reporter.start()
    try:
        running.process_all_available()
    finally:
        done.set()
        reporter.join()
    running.stop()


def _processor(role: str) -> Any:
    from statemigrate.demo import after, before

    return {"before": before, "after": after}[role].AuctionHouse()


def _report(running: RunningQuery, path: Path, done: threading.Event) -> None:
    reported = 0
    with path.open("a") as lines:
        while True:
            last = done.wait(_POLL)
            for progress in running.progress[reported:]:
                lines.write(json.dumps(asdict(progress)) + "\n")
                reported += 1
            lines.flush()
            if last:
                return


def _end_with_parent() -> None:
    """Standard input ends when the demonstration does, however that happens."""

    def wait() -> None:
        # Not through sys.stdin: its lock would be held when the interpreter shuts down.
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main(arguments: list[str]) -> int:
    """Run one job; an error of this package goes into the folder as a JSON document."""
    root, role = arguments
    folder = DemoFolder(Path(root))
    _end_with_parent()
    try:
        run_job(folder, role)
    except StatemigrateError as error:
        folder.error(role).write_text(json.dumps(describe(error)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
