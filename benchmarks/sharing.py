"""The part of a batch that a backfill takes beside live rows, and the slowest batch meanwhile."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.engines import session
from benchmarks.measuring import Result
from benchmarks.native import Query, write_script
from benchmarks.processor import OUTPUT, RenamedTotals, Totals
from statemigrate import BackfillOptions, EmbeddedOptions, EmbeddedQuery, migrated

_SHARE = 0.25
_PARTITIONS, _WARMING = 4, 5


def measure(keys: int = 1_000_000, live: int = 50_000, batches: int = 15) -> list[Result]:
    """Batches of ``live`` keys beside the rest of ``keys``, with a backfill and without one."""
    spark = session()
    try:
        with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
            alone, beside = _durations(spark, Path(folder), keys, live, batches)
    finally:
        spark.stop()
    base = statistics.median(alone)
    taken = 1 - base / statistics.median(beside)
    figures = {"alone_ms": alone, "beside_ms": beside, "share": _SHARE, "taken": taken}
    # With so few batches the 99th of a hundred is the slowest one; compared with the slowest alone.
    promised = max(alone) / (1 - _SHARE)
    compared = "part of a batch's time beside live rows against the share of 0.25"
    slowest = "slowest batch while migrating against the slowest without, at the share"
    return [
        Result("backfill share", compared, taken / _SHARE, "at most", 1.1, figures),
        Result("backfill share, slowest", slowest, max(beside) / promised, "at most", 1.1, figures),
    ]


def _durations(
    spark: Any, folder: Path, keys: int, live: int, batches: int
) -> tuple[list[float], list[float]]:
    query = Live(spark, folder)
    write_script(folder)
    with query.embedded(Totals(), BackfillOptions(enabled=False)) as started:
        query.feed(keys, started)
    found = []
    code = migrated(migrations=folder / "migrations")(RenamedTotals)
    for enabled in (False, True):
        # The first ones warm up, and teach the tuner; live keys are migrated in them.
        # What is left must not go in the batches without rows that come in between.
        options = BackfillOptions(enabled=enabled, share=_SHARE, idle_milliseconds=1.0)
        with query.embedded(code(), options) as started:
            for _ in range(batches + _WARMING):
                query.feed(live, started)
            progress = [each for each in started.progress if each.rows][_WARMING:]
            assert progress[-1].left, "the backfill has ended: more keys are needed"
        found.append([each.batch_ms for each in progress])
    return found[0], found[1]


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
        before = len([each for each in started.progress if each.rows])
        self.write(range(keys))
        while len([each for each in started.progress if each.rows]) == before:
            started.processAllAvailable()
