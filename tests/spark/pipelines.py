"""A streaming query as a test drives it: feed files, deploy, look at output and state."""

from __future__ import annotations

import inspect
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stored_state import families

from statemigrate import (
    BackfillOptions,
    BatchProgress,
    EmbeddedOptions,
    EmbeddedQuery,
    RunningQuery,
)

PARTITIONS = 2
_TOO_LONG = 180  # seconds
TALLY_ROWS = "key STRING, cents BIGINT, name STRING"
TALLY_OUTPUT = "key STRING, n BIGINT, cents BIGINT, last STRING, moved BIGINT"


def local_session(warehouse: Path) -> Any:
    """Two cores, nothing that costs time, and the state store that transformWithState needs."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .config("spark.sql.streaming.stopTimeout", "30s")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    # Before Spark 4.3 the state reader needs what only the first look at the streams makes.
    assert session.streams.active == []
    return session


@dataclass
class Pipeline:
    """An input folder read one file a batch, a checkpoint, and everything the sink was given.

    ``handed`` has one entry for each time the sink was called; ``output`` is what an idempotent
    sink would hold.
    """

    spark: Any
    root: Path
    rows: str = TALLY_ROWS
    output: str = TALLY_OUTPUT
    by: str | tuple[str, ...] = "key"
    handed: list[tuple[int, list[Any]]] = field(default_factory=list)
    fail_on: set[int] = field(default_factory=set)
    checkpoint_directory: Any = None
    accept: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.input.mkdir(parents=True, exist_ok=True)

    @property
    def input(self) -> Path:
        return self.root / "input"

    @property
    def checkpoint(self) -> Any:
        """A path, or a URI as text."""
        return self.checkpoint_directory or self.root / "checkpoint"

    @property
    def working(self) -> Path:
        return self.root / "working"

    @property
    def handed_by_batch(self) -> dict[int, list[Any]]:
        return dict(self.handed)

    @property
    def handed_rows(self) -> Counter[Any]:
        """The rows an idempotent sink holds, whatever batch they came in."""
        return Counter(row for rows in self.handed_by_batch.values() for row in rows)

    def feed(self, *batches: Iterable[tuple[Any, ...]]) -> None:
        """Add one input file for each batch of rows."""
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        # PySpark 4.1 has UTC as its default, and no argument of this name.
        named = "timezone" in inspect.signature(to_arrow_schema).parameters
        zone = {"timezone": "UTC"} if named else {}
        schema = to_arrow_schema(StructType.fromDDL(self.rows), **zone)
        for batch in batches:
            rows = [dict(zip(schema.names, row, strict=True)) for row in batch]
            name = f"{len(list(self.input.iterdir())):06d}.parquet"
            pq.write_table(pa.Table.from_pylist(rows, schema), self.input / f"_{name}")
            # Spark takes the oldest file first; equal times would leave the order open.
            at = 1_700_000_000 + int(name[:6])
            os.utime(self.input / f"_{name}", (at, at))
            (self.input / f"_{name}").rename(self.input / name)

    def stream(self) -> Any:
        reader = self.spark.readStream.schema(self.rows).option("maxFilesPerTrigger", 1)
        # As a pattern, so that a copied checkpoint may go on with another folder of input.
        return reader.parquet(f"{self.input}/*.parquet")

    def query(self, processor: Any, **options: Any) -> EmbeddedQuery:
        return EmbeddedQuery(
            self.stream(),
            by=self.by,
            processor=processor,
            outputStructType=self.output,
            checkpoint=self.checkpoint,
            sink=self.sink,
            options=self.options(**options),
            accept=self.accept,
        )

    def options(self, **given: Any) -> EmbeddedOptions:
        defaults = {"partitions": PARTITIONS, "working_directory": str(self.working)}
        return EmbeddedOptions(**{**defaults, **given})

    def sink(self, rows: Any, batch: int) -> None:
        self.handed.append((batch, [tuple(row) for row in rows.collect()]))
        if batch in self.fail_on:
            self.fail_on.remove(batch)
            raise RuntimeError(f"the sink refuses batch {batch} once")

    def deploy(self, processor: Any, **options: Any) -> list[BatchProgress]:
        """Run until all input is processed and the backfill has nothing left to do, then stop."""
        return self.run(self.query(processor, **options).start())

    def run(self, running: RunningQuery) -> list[BatchProgress]:
        late = threading.Event()
        watchdog = threading.Timer(_TOO_LONG, lambda: (late.set(), running.stop()))
        watchdog.start()
        try:
            running.processAllAvailable()
        finally:
            watchdog.cancel()
            running.stop()
        assert not late.is_set(), f"still running batches: {running.progress[-1]}"
        return running.progress

    def stored(self) -> dict[str, dict[Any, Any]]:
        """What the last committed version holds: by family, by key, the plain value."""
        return families(self.checkpoint)

    def lose_working_copy(self) -> None:
        shutil.rmtree(self.working)

    def run_natively(self, processor: Any) -> None:
        """The same stream through Spark's own transformWithState."""

        def collect(rows: Any, batch: int) -> None:
            self.handed.append((batch, [tuple(row) for row in rows.collect()]))

        by = (self.by,) if isinstance(self.by, str) else self.by
        result = (
            self.stream().groupBy(*by).transformWithState(processor, self.output, "update", "none")
        )
        location = str(self.root / "native-checkpoint")
        writer = result.writeStream.outputMode("update").foreachBatch(collect)
        query = writer.option("checkpointLocation", location).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()


def no_backfill() -> BackfillOptions:
    return BackfillOptions(enabled=False)
