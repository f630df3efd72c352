"""ShuffleBench's stateful consumer in plain ``transformWithState``, in pages and embedded.

ShuffleBench (ICPE 2024, https://arxiv.org/abs/2403.04570) hands each record of 1,024 bytes to the
consumers whose rules it matches. A consumer keeps 32 bytes: how many records there were, the sum of
their first 8 bytes, and when the first and the last one came. Every tenth record it gives these
away and begins again. Measured are the consumers: a row has the one that it is for.
"""

from __future__ import annotations

import random
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.engines import PARTITIONS, session
from benchmarks.measuring import Result, median_ratio, processor_seconds
from benchmarks.native import Query
from statemigrate import EmbeddedOptions, EmbeddedQuery, paged

_RECORD, _OUTPUT_RATE = 1_024, 10
_ROWS = "consumer STRING, sent BIGINT, data BINARY"
_OUTPUT = "consumer STRING, count BIGINT, sum BIGINT, first BIGINT, last BIGINT"
_STATE = "count BIGINT, sum BIGINT, first BIGINT, last BIGINT"
_PAGES = 200
_LIMITS = {"pages": 8.0, "embedded": 20.0}
_WRAP = 1 << 64


class Consumer(StatefulProcessor):
    """Counts and sums the records for a consumer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("consumers", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        count, total, first, last = self._state.get() or (0, 0, 0, 0)
        for row in rows:
            count, last = count + 1, row["sent"]
            first = first if count > 1 else last
            total += int.from_bytes(row["data"][:8], "big", signed=True)
            total = (total + _WRAP // 2) % _WRAP - _WRAP // 2
            if count == _OUTPUT_RATE:
                yield Row(consumer=key[0], count=count, sum=total, first=first, last=last)
                count, total, first, last = 0, 0, 0, 0
        self._state.update((count, total, first, last))

    def close(self) -> None:
        pass


def measure(consumers: int = 50_000, rounds: int = 5) -> list[Result]:
    """Records a second of whole batches, as many as there are consumers, each for any of them."""
    spark = session()
    try:
        with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
            queries = {
                "plain": _Plain(spark, Path(folder, "plain")),
                "pages": _Paged(spark, Path(folder, "pages")),
                "embedded": _Embedded(spark, Path(folder, "embedded")),
            }
            with ExitStack() as running:
                for side, query in queries.items():
                    # Python workers of its own, as each side has where it runs alone.
                    spark.sparkContext.environment["BENCHMARK_SIDE"] = side
                    running.enter_context(query.running(Consumer()))
                # Every consumer once, and a batch in which Java and Python warm up.
                turns = [_turn(queries, consumers, turn) for turn in range(rounds + 2)][2:]
    finally:
        spark.stop()
    return [
        Result(
            f"ShuffleBench, {side}{what}",
            f"{consumers:,} records of {_RECORD:,} bytes a batch for {consumers:,} consumers, "
            "against transformWithState",
            median_ratio([each["plain"][at] for each in turns], [each[side][at] for each in turns]),
            "at least",
            limit,
            {"seconds": [{name: each[name][at] for name in queries} for each in turns]},
        )
        for side, limit in _LIMITS.items()
        for at, what in enumerate(("", ", processor time"))
    ]


def _turn(queries: dict[str, _Plain], consumers: int, turn: int) -> dict[str, tuple[float, float]]:
    """By side the seconds of a batch, and those of processors."""
    chosen = random.Random(turn)
    numbers = [chosen.randrange(consumers) for _ in range(consumers)] if turn else range(consumers)
    measured = {}
    for side, query in queries.items():
        query.arrive(numbers)
        before = processor_seconds()
        passed = sum(query.process()) / 1000
        measured[side] = passed, processor_seconds() - before
    return measured


class _Plain(Query):
    """ShuffleBench's records, a file a batch."""

    def stream(self) -> Any:
        return self._spark.readStream.schema(_ROWS).parquet(str(self._folder / "input"))

    def arrive(self, consumers: Sequence[int]) -> None:
        """A record for each of the consumers, the same for every side."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        rest = random.Random(self._fed).randbytes(_RECORD - 8)
        data = [struct.pack(">Q", (each * 0x9E3779B97F4A7C15) % _WRAP) + rest for each in consumers]
        table = pa.table(
            {
                "consumer": [f"consumer-{each}" for each in consumers],
                "sent": pa.array(range(len(consumers)), pa.int64()),
                "data": pa.array(data, pa.binary()),
            }
        )
        name = f"{self._fed:06d}.parquet"
        self._fed += 1
        pq.write_table(table, self._folder / f"{name}.new")
        (self._folder / f"{name}.new").rename(self._folder / "input" / name)

    @contextmanager
    def running(self, processor: Any, *, control: bool = False) -> Iterator[_Plain]:
        assert not control
        grouped = self.stream().groupBy("consumer")
        with self.started(grouped.transformWithState(processor, _OUTPUT, "Update", "None")):
            yield self


class _Paged(_Plain):
    @contextmanager
    def running(self, processor: Any, *, control: bool = False) -> Iterator[_Plain]:
        assert not control
        parts = {"output": _OUTPUT, "checkpoint": self.checkpoint, "pages": _PAGES}
        with self.started(paged(self.stream(), by="consumer", processor=processor, **parts)):
            yield self


class _Embedded(_Plain):
    @contextmanager
    def running(self, processor: Any, *, control: bool = False) -> Iterator[_Plain]:
        assert not control
        working = str(self._folder / "working")
        query = EmbeddedQuery(
            self.stream(),
            by="consumer",
            processor=processor,
            outputStructType=_OUTPUT,
            checkpoint=self.checkpoint,
            sink=lambda output, _: output.write.format("noop").mode("overwrite").save(),
            options=EmbeddedOptions(partitions=PARTITIONS, working_directory=working),
        ).start()
        self._query = query.query
        try:
            yield self
        finally:
            query.stop()
