"""The part of a batch that a backfill takes beside live rows, and the slowest batch meanwhile."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.engines import session
from benchmarks.measuring import Result
from benchmarks.native import Query, write_script
from benchmarks.pacing import SHARE, Measured
from benchmarks.processor import OUTPUT, RenamedTotals, Totals
from statemigrate import BackfillOptions, EmbeddedOptions, EmbeddedQuery, migrated

_PARTITIONS, _WARMING = 4, 3


def measure(keys: int = 3_000_000, live: int = 50_000, batches: int = 12) -> list[Result]:
    """Batches of ``live`` keys beside the rest of ``keys``, in turn with a backfill and without."""
    spark = session()
    try:
        with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
            return _measured(spark, Path(folder), keys, live, batches).results("embedded")
    finally:
        spark.stop()


def _measured(spark: Any, folder: Path, keys: int, live: int, batches: int) -> Measured:
    query = Live(spark, folder)
    write_script(folder)
    with query.embedded(Totals(), BackfillOptions(enabled=False)) as started:
        query.feed(keys, started)
    code = migrated(migrations=folder / "migrations")(RenamedTotals)
    runs = []
    for enabled in (False, False, True, False, True, False):
        # What is left must not go in the batches without rows that come in between.
        options = BackfillOptions(enabled=enabled, share=SHARE, idle_milliseconds=1.0)
        with query.embedded(code(), options) as started:
            for _ in range(batches + _WARMING):
                query.feed(live, started)
            progress = _with_rows(started)
            assert progress[-1].left, "the backfill has ended: more keys are needed"
        runs.append([(each.batch_ms, each.backfilled) for each in progress[_WARMING:]])
    # The first of them warms up Java, and migrates the live keys.
    return Measured(runs[1], [*runs[2], *runs[3], *runs[4]], runs[5], 0, 1)


class Live(Query):
    """A query of the embedded engine, fed one batch at a time."""

    @contextmanager
    def embedded(self, processor: Any, backfill: BackfillOptions) -> Iterator[Any]:
        """The query with such a backfill, for the length of a block."""
        started = EmbeddedQuery(
            self.stream(),
            by="key",
            processor=processor,
            outputStructType=OUTPUT,
            checkpoint=self.checkpoint,
            sink=lambda output, _: output.write.format("noop").mode("overwrite").save(),
            options=EmbeddedOptions(
                partitions=_PARTITIONS,
                backfill=backfill,
                working_directory=str(self.checkpoint.with_name("working")),
            ),
        ).start()
        try:
            yield started
        finally:
            started.stop()

    def feed(self, keys: int, started: Any) -> None:
        """One batch with a row for each of so many keys."""
        before = len(_with_rows(started))
        self.write(range(keys))
        # Spark's own way of waiting would wait for the batches of the backfill too, all of them.
        while len(_with_rows(started)) == before:
            assert started.isActive, started.exception()
            time.sleep(0.01)


def _with_rows(started: Any) -> list[Any]:
    return [each for each in started.progress if each.rows]
