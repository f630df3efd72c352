"""Whole rewrites of an aggregation: rows a second, against seeding a query, memory, and restarts.

Rates are of processor time on two cores, of Java and Python together: 1,000,000 rows that take five
seconds of processors are 400,000 a second. The seconds that passed are among the figures.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.dry_runs import write_scripts
from benchmarks.engines import session
from benchmarks.measuring import Result, median_ratio, processor_seconds, seconds
from benchmarks.rewrite_memory import memory
from benchmarks.seeding import seeded
from statemigrate import fork
from statemigrate.commands.new_code import NewCode
from statemigrate.commands.rewrite import rewrite_checkpoint
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.sources import RewriteOptions

_CORES = 2
_OF_LONGER = ("aggregation-0.max", "aggregation-0:functions")
"""What is asked where one column more is kept, and the old code is not given."""
_SCHEMA = "customer STRING, amount BIGINT"
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": _PROVIDER,
    "spark.sql.shuffle.partitions": str(_CORES),
    # As a query has it unless it is told otherwise.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
}
_SCRIPT = '''"""The largest order, as far as it is known."""
from statemigrate.formats import Struct

revision = "000000000001"
down_revision = None
branch_labels = ("aggregation-0",)
store = "aggregation-0"
old = Struct("count BIGINT, sum BIGINT")
new = Struct("count BIGINT, sum BIGINT, max BIGINT")

'''


@dataclass(frozen=True)
class _Way:
    """A rewrite with a ``script`` and ``options``, at a rate that is ``wanted``.

    With ``is_longer`` it is for code that keeps one column more.
    """

    wanted: int
    script: str = ""
    is_longer: bool = False
    options: RewriteOptions = field(default_factory=RewriteOptions)


_WAYS = {
    "nothing changes": _Way(400_000),
    "a column more": _Way(400_000, is_longer=True),
    "a column more, 2 to 3 partitions": _Way(
        400_000, is_longer=True, options=RewriteOptions(partitions=3)
    ),
    "upgrade on dicts": _Way(
        100_000,
        _SCRIPT + '\ndef upgrade(value):\n    return {**value, "max": value["sum"]}\n',
    ),
    "upgrade_table": _Way(
        300_000,
        _SCRIPT
        + """
def upgrade_table(table):
    import pyarrow as pa

    found = table["value"].combine_chunks()
    count, total = found.field("count"), found.field("sum")
    values = pa.StructArray.from_arrays([count, total, total], ["count", "sum", "max"])
    return table.set_column(1, "value", values)
""",
    ),
    "a column more, a lens": _Way(
        400_000,
        _SCRIPT
        + """
from statemigrate.lenses import add, lens

change = lens(add("max", "BIGINT"))
""",
    ),
}


def lens_against_columns(rows: int, rounds: int) -> Result:
    """A rewrite whose script declares a column more, in turn with one of columns alone."""
    declared, columns = "a column more, a lens", "a column more"
    spark = session()
    try:
        with _stopped_query(spark, rows) as folder:

            def rewrite(name: str) -> float:
                return _measured(lambda: _rewrite(folder, spark, name, rows))[0]

            rewrite(declared), rewrite(columns)
            pairs = [(rewrite(declared), rewrite(columns)) for _ in range(rounds)]
    finally:
        spark.stop()
    ours, plain = [one for one, _ in pairs], [other for _, other in pairs]
    figures = {"rows": rows, "lens_processor_seconds": ours, "columns_processor_seconds": plain}
    compared = "rows/s against a column more, no function"
    return Result(
        f"rewrite, {declared}", compared, median_ratio(plain, ours), "at least", 0.9, figures
    )


def measure(
    rows: int = 1_000_000, rounds: int = 3, seeded_rows: int = 100_000, most: int = 3_000_000
) -> list[Result]:
    """Rates of all ways, against seeding; forks, first batches, memory."""
    spark = session()
    try:
        with _stopped_query(spark, rows) as folder:
            found = [_rate(folder, spark, name, rows, rounds) for name in _WAYS]
            found.append(_against_seeding(found[1], spark, seeded_rows))
            found.append(_forks(folder, rounds))
            found.append(_first_batches(folder, spark, rounds))
            found.append(memory(folder / "old", most))
    finally:
        spark.stop()
    return found


@contextmanager
def _stopped_query(spark: Any, rows: int) -> Iterator[Path]:
    """A folder with a query's input and its checkpoint, ``old``, of a row for each customer.

    ``longer`` is one of code that keeps a column more, made on a little input.
    """
    with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as name:
        folder = Path(name)
        _feed(spark, folder, rows, 0)
        _run(spark, folder, folder / "old")
        _feed(spark, folder / "little", 1_000, 0)
        _run(spark, folder / "little", folder / "longer", is_longer=True)
        for label, way in _WAYS.items():
            write_scripts(folder / label, way.script)
        yield folder


def _feed(spark: Any, folder: Path, rows: int, number: int) -> None:
    orders = spark.range(rows).selectExpr("concat('customer-', id) customer", "id % 1000 amount")
    orders.coalesce(1).write.parquet(str(folder / "input" / f"{number}.parquet"))


def _run(spark: Any, folder: Path, checkpoint: Path, *, is_longer: bool = False) -> float:
    """Seconds of the last batch, when all that there is has been processed."""
    from pyspark.sql import functions as F  # noqa: N812

    own = spark.newSession()
    for name, value in _SETTINGS.items():
        own.conf.set(name, value)
    stream = own.readStream.schema(_SCHEMA).parquet(str(folder / "input" / "*.parquet"))
    columns = [F.count("*"), F.sum("amount"), *([F.max("amount")] if is_longer else [])]
    totals = stream.groupBy("customer").agg(*columns)
    writer = totals.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    done = [each for each in query.recentProgress if each["numInputRows"]]
    return float(done[-1]["durationMs"]["triggerExecution"]) / 1000


def _rewrite(folder: Path, spark: Any, name: str, rows: int) -> None:
    way = _WAYS[name]
    shutil.rmtree(folder / "new", ignore_errors=True)
    made = rewrite_checkpoint(
        folder / "old",
        folder / "new",
        target=NewCode(like=folder / "longer") if way.is_longer else None,
        answers=RewriteAnswers(frozenset(_OF_LONGER if way.is_longer else ()), by_name=True),
        migrations=folder / name,
        options=way.options,
        apply=True,
        spark=spark,
    )
    assert made.report is not None
    assert made.report.families[0].total.count == rows


def _rate(folder: Path, spark: Any, name: str, rows: int, rounds: int) -> Result:
    way = _WAYS[name]

    def rewrite() -> None:
        _rewrite(folder, spark, name, rows)

    first = _measured(rewrite)
    again = [_measured(rewrite) for _ in range(rounds)]
    rate = rows * _CORES / statistics.median(processors for processors, _ in again)
    figures = {
        "rows": rows,
        "first_processor_and_wall_seconds": first,
        "processor_and_wall_seconds": again,
        "rate": rate,
    }
    compared = f"rows/s of two cores against {way.wanted:,}"
    return Result(f"rewrite, {name}", compared, rate / way.wanted, "at least", 1.0, figures)


def _measured(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds of processors, and those that passed."""
    before = processor_seconds()
    passed = seconds(action)
    return processor_seconds() - before, passed


def _against_seeding(rewritten: Result, spark: Any, rows: int) -> Result:
    with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
        processors, passed = _measured(lambda: seeded(spark, Path(folder), rows, _SETTINGS))
    rate = rows * _CORES / processors
    figures = {"rows": rows, "processor_and_wall_seconds": (processors, passed), "rate": rate}
    compared = "rows/s against a query seeded through initialState"
    ratio = rewritten.figures["rate"] / rate
    return Result("rewrite against seeding", compared, ratio, "at least", 10.0, figures)


def _forks(folder: Path, rounds: int) -> Result:
    def copied() -> float:
        shutil.rmtree(folder / "copy", ignore_errors=True)
        return seconds(lambda: (shutil.copytree(folder / "old", folder / "copy"), os.sync()))

    def forked() -> float:
        shutil.rmtree(folder / "fork", ignore_errors=True)
        return seconds(lambda: (fork(folder / "old", folder / "fork"), os.sync()))

    copied(), forked()
    pairs = [(forked(), copied()) for _ in range(rounds)]
    ours, plain = [one for one, _ in pairs], [other for _, other in pairs]
    figures = {"fork_seconds": ours, "copy_seconds": plain}
    compared = "seconds against copying the files and sync"
    return Result("fork", compared, median_ratio(ours, plain), "at most", 1.5, figures)


def _first_batches(folder: Path, spark: Any, rounds: int) -> Result:
    """The first batch on the rewritten checkpoint against that of a restart on the old one."""
    shutil.rmtree(folder / "new", ignore_errors=True)
    rewrite_checkpoint(folder / "old", folder / "new", migrations=None, apply=True, spark=spark)
    _feed(spark, folder, 1_000, 1)

    def first(source: str, number: int) -> float:
        # Where Spark has not opened the state yet.
        shutil.copytree(folder / source, folder / f"{source}-{number}")
        return _run(spark, folder, folder / f"{source}-{number}")

    first("old", -1)
    pairs = [(first("new", number), first("old", number)) for number in range(rounds)]
    ours, plain = [one for one, _ in pairs], [other for _, other in pairs]
    figures = {"rewritten_seconds": ours, "restart_seconds": plain}
    compared = "seconds against a restart on the old checkpoint"
    return Result("first batch", compared, median_ratio(ours, plain), "at most", 1.5, figures)
