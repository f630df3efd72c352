"""Previews: a bundle as its command is typed, the replay, saving, and what following a query costs.

Orders of 20 fields come in files of 5,000 rows. One query aggregates them, so that one replay runs
all batches; the other one keeps a variable of each shop, so that each batch starts a query of its
own. The followed query and the command that follows it have a processor each.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from benchmarks.engines import session
from benchmarks.measuring import Result, environment, run_command, seconds
from benchmarks.records import KINDS, as_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
else:
    DataFrame = Any

_ORDER = next(each for each in KINDS if each.fields == 20)
_DDL = " ".join(_ORDER.ddl.replace("NOT NULL", "").split())
Orders = Annotated[DataFrame, _DDL]
_ALLOWED = 60.0
"""Seconds that a bundle of 20 batches of 5,000 rows may take."""
_EVERY = 4.0
"""Seconds from one batch of the followed query to the next."""


def by_shop(orders: Orders) -> Any:
    """The deployed code of the one query."""
    from pyspark.sql import functions as F  # noqa: N812

    return orders.groupBy("shop_id", "status").agg(
        F.count("*").alias("n"), F.sum("total").alias("total"), F.max("updated").alias("updated")
    )


def by_shop_taxed(orders: Orders) -> Any:
    """The new code of the one query, with a fault."""
    from pyspark.sql import functions as F  # noqa: N812

    return by_shop(
        orders.withColumn("total", F.expr("total + coalesce(tax, 0)").cast("DECIMAL(12,2)"))
    )


def latest(orders: Orders) -> Any:
    """The deployed code of the other query."""
    return _latest(orders, 0)


def latest_of_gifts(orders: Orders) -> Any:
    """The new code of the other query, with a fault."""
    return _latest(orders, 1)


def _latest(orders: Any, step: int) -> Any:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Latest(StatefulProcessor):
        """Keeps of each shop how many orders there were, and the last one."""

        def init(self, handle: Any) -> None:
            self.latest = handle.getValueState("latest", "n BIGINT, order_id BIGINT, email STRING")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            n, order, email = self.latest.get() if self.latest.exists() else (0, 0, "")
            for row in rows:
                n, order, email = n + 1 + (step if row.gift else 0), row.order_id, row.email
            self.latest.update((n, order, email))
            yield Row(shop_id=key[0], n=n)

        def close(self) -> None:
            pass

    return orders.groupBy("shop_id").transformWithState(
        Latest(), "shop_id BIGINT, n BIGINT", "Update", "None"
    )


QUERIES = {"aggregation": (by_shop, by_shop_taxed), "processor": (latest, latest_of_gifts)}


def measure(batches: int = 20, rows: int = 5_000, followed: int = 24) -> list[Result]:
    """The command on a bundle, the replay against the query itself, and following a query."""
    found: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
        for name in QUERIES:
            found += _bundle(Path(folder) / name, name, batches, rows)
        found.append(_followed(Path(folder) / "followed", rows, followed))
    return found


def write_batch(folder: Path, number: int, rows: int) -> None:
    """The file of one batch, which appears whole."""
    folder.mkdir(parents=True, exist_ok=True)
    values = (as_json(_ORDER.value(number * rows + place)) for place in range(rows))
    made = folder / f".{number}.json"
    made.write_text("\n".join(map(json.dumps, values)))
    made.rename(folder / f"{number}.json")


def _bundle(folder: Path, name: str, batches: int, rows: int) -> list[Result]:
    for number in range(batches + 1):
        write_batch(folder / "input", number, rows)
    spark = session()
    try:
        # Java compiles what a first run uses; of the replay it is the second run too that counts.
        _run(spark, folder, name, batches, "before")
        ran = _run(spark, folder, name, batches, "checkpoint")
    finally:
        spark.stop()
    deployed, new = (f"{__name__}:{each.__name__}" for each in QUERIES[name])
    options = ["--output-mode", "update", "--json"]
    plain = seconds(
        lambda: run_command(folder, "preview", "checkpoint", "--code", deployed, *options,
                         "--batches", str(batches), "--save", "plain")
    )  # fmt: skip
    masked = seconds(
        lambda: run_command(folder, "preview", "checkpoint", "--code", deployed, *options,
                         "--batches", str(batches), "--save", "bundle", "--mask", "email")
    )  # fmt: skip
    began = time.perf_counter()
    shown = run_command(
        folder, "preview", "bundle", "--code", new, "--old-code", deployed, *options, expected=1
    )
    took = time.perf_counter() - began
    document = json.loads(shown)
    replayed = [each["old_seconds"] for each in document["batches"]]
    size = sum(each.stat().st_size for each in (folder / "plain").rglob("*") if each.is_file())
    figures = {
        "seconds": took,
        "saving": plain,
        "saving masked": masked,
        "bytes": size,
        "query": ran,
        "replayed": replayed,
    }
    compared = f"seconds of the command, {batches} batches of {rows:,} orders, against {_ALLOWED:g}"
    return [
        Result(f"preview: a bundle, {name}", compared, took / _ALLOWED, "at most", 1, figures),
        Result(
            f"preview: replay, {name}",
            "batches a second of the second replay against a second run of the query itself",
            statistics.median(ran[1:]) / statistics.median(replayed[1:]),
            "at least",
            1,
            figures,
        ),
    ]


def _run(spark: Any, folder: Path, name: str, batches: int, checkpoint: str) -> list[float]:
    """Run the query over all files; the seconds that each of the last batches took."""
    stream = spark.readStream.schema(_DDL).option("maxFilesPerTrigger", 1)
    writer = QUERIES[name][0](stream.json(str(folder / "input"))).writeStream.format("noop")
    writer = writer.outputMode("update").option("checkpointLocation", str(folder / checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    every = [each for each in query.recentProgress if each["numInputRows"]]
    return [each["durationMs"]["triggerExecution"] / 1000 for each in every][-batches:]


def _followed(folder: Path, rows: int, batches: int) -> Result:
    """A query with a batch every few seconds, by itself and followed by ``preview --watch``."""
    before = os.sched_getaffinity(0)
    own, other = sorted(before)[:2]
    write_batch(folder / "input", 0, rows)
    spark = session("local[1]")
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    try:
        _pin([os.getpid(), java], {own})
        alone, watched = _while_followed(spark, folder, rows, batches, other)
    finally:
        spark.stop()
        _pin([os.getpid(), java], before)
    return Result(
        "preview: following a query",
        "median seconds of its batches while it is followed, against without, a processor each",
        statistics.median(watched) / statistics.median(alone),
        "at most",
        1.05,
        {"alone": alone, "followed": watched},
    )


def _pin(processes: list[int], processors: set[int]) -> None:
    """Let all threads of some processes, and those that they start, run on these processors."""
    for number in processes:
        for task in Path(f"/proc/{number}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), processors)


def _while_followed(
    spark: Any, folder: Path, rows: int, batches: int, processor: int
) -> tuple[list[float], list[float]]:
    stream = spark.readStream.schema(_DDL).json(str(folder / "input"))
    writer = by_shop(stream).writeStream.format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(processingTime="500 milliseconds").start()
    fed = iter(range(1, 10_000))
    # Java compiles what the first batches use.
    _feed(query, folder, rows, batches, fed)
    first = _feed(query, folder, rows, batches, fed)
    deployed, new = (f"{__name__}:{each.__name__}" for each in QUERIES["aggregation"])
    command = [sys.executable, "-m", "statemigrate", "preview", "checkpoint", "--watch", "--json",
               "--code", new, "--old-code", deployed, "--output-mode", "update",
               "--batches", "2"]  # fmt: skip
    log = (folder / "followed.json").open("wb")
    follower = subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=log, stderr=subprocess.DEVNULL
    )
    os.sched_setaffinity(follower.pid, {processor})
    try:
        while not (folder / "followed.json").stat().st_size:
            _feed(query, folder, rows, 1, fed)
            if follower.poll() is not None:
                raise RuntimeError(f"the command ended with {follower.returncode}")
        watched = _feed(query, folder, rows, batches, fed)
    finally:
        follower.terminate()
        follower.wait()
        log.close()
    last = _feed(query, folder, rows, batches, fed)
    query.stop()
    return [*first, *last], watched


def _feed(query: Any, folder: Path, rows: int, batches: int, fed: Iterator[int]) -> list[float]:
    """Give the query one file every few seconds; the seconds that each batch took."""
    found = []
    for _ in range(batches):
        began = time.monotonic()
        write_batch(folder / "input", next(fed), rows)
        query.processAllAvailable()
        progress = [each for each in query.recentProgress if each["numInputRows"]][-1]
        found.append(progress["durationMs"]["triggerExecution"] / 1000)
        time.sleep(max(0.0, _EVERY - (time.monotonic() - began)))
    return found
