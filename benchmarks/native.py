"""Spark's own state with and without statemigrate: the same processor, batch by batch in turn."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.engines import session
from benchmarks.measuring import Result
from benchmarks.processor import OUTPUT, RENAMED, RenamedTotals, Totals

_SCHEMA = "key STRING, amount BIGINT, name STRING"
_SCRIPT = f'''"""Rename a field."""
from statemigrate.formats import Struct

revision = "000000000001"
down_revision = None
branch_labels = ("totals",)
store = "totals"
old = Struct("n BIGINT, total BIGINT, name STRING")
new = Struct("{RENAMED}")


def upgrade(value):
    value["amount"] = value.pop("total")
    return value
'''


def measure(keys: int = 10_000, rounds: int = 5) -> list[Result]:
    """Milliseconds of batches of ``keys`` keys, each side in turn; and the backfill's rate."""
    spark = session()
    try:
        with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
            return _Native(spark, Path(folder), keys, rounds).results()
    finally:
        spark.stop()


class Query:
    """A query over a folder of its own, fed one batch at a time."""

    ROWS_A_GROUP = 1 << 20
    """Of a Parquet file; a task of Spark reads one or more of them."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._fed = 0
        self._query: Any = None
        self._done: dict[int, float] = {}
        (folder / "input").mkdir(parents=True)

    @property
    def checkpoint(self) -> Path:
        return self._folder / "checkpoint"

    def stream(self) -> Any:
        return self._spark.readStream.schema(_SCHEMA).parquet(str(self._folder / "input"))

    @contextmanager
    def running(self, processor: Any, *, control: bool = False) -> Iterator[Query]:
        from statemigrate import with_backfill

        stream = self.stream()
        if control:
            stream = with_backfill(stream, by="key", checkpoint=self.checkpoint)
        result = stream.groupBy("key").transformWithState(processor, OUTPUT, "Update", "None")
        with self.started(result):
            yield self

    @contextmanager
    def started(self, result: Any) -> Iterator[Query]:
        """The query that writes ``result`` to nowhere, for the length of a block."""
        writer = result.writeStream.format("noop").outputMode("update")
        self._query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        try:
            yield self
        finally:
            self._query.stop()

    def batch(self, keys: range) -> float:
        """Milliseconds of the batch that processes one row for each of ``keys``."""
        self.write(keys)
        return sum(self.process())

    def write(self, keys: range) -> None:
        """A file with one row for each of ``keys``."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        count = len(keys)
        table = pa.table(
            {
                "key": [f"key-{number}" for number in keys],
                "amount": pa.array([1] * count, pa.int64()),
                "name": [f"name {number % 1000}" for number in keys],
            }
        )
        name = f"{self._fed:06d}.parquet"
        self._fed += 1
        pq.write_table(table, self._folder / f"{name}.new", row_group_size=self.ROWS_A_GROUP)
        (self._folder / f"{name}.new").rename(self._folder / "input" / name)

    def process(self) -> list[float]:
        """Process everything there is; milliseconds of each batch that had rows."""
        self._query.processAllAvailable()
        deadline = time.monotonic() + 10
        # The figures of the last batch come a moment after its end.
        while not (new := self._new_batches()) and time.monotonic() < deadline:
            time.sleep(0.05)
        self._done.update(new)
        return list(new.values())

    def _new_batches(self) -> dict[int, float]:
        progress = [json.loads(each.json) for each in self._query.recentProgress]
        return {
            each["batchId"]: each["durationMs"]["triggerExecution"]
            for each in progress
            if each["batchId"] not in self._done and each["numInputRows"]
        }


@contextmanager
def native_checkpoint(spark: Any, keys: int) -> Iterator[Path]:
    """A stopped query's checkpoint with a value for each key and, beside it, the script."""
    with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
        query = Query(spark, Path(folder))
        write_script(Path(folder))
        with query.running(Totals()):
            query.batch(range(keys))
        yield Path(folder)


def write_script(folder: Path) -> None:
    from statemigrate.scripts import ScriptFolder

    (ScriptFolder.create(folder / "migrations").versions / "rename.py").write_text(_SCRIPT)


class _Native:
    def __init__(self, spark: Any, folder: Path, keys: int, rounds: int) -> None:
        self._spark = spark
        self._folder = folder
        self._keys = range(keys)
        self._rounds = rounds
        write_script(folder)

    def results(self) -> list[Result]:
        plain = self._filled("plain", RenamedTotals(), self._keys)
        switched_off = self._filled("switched-off", RenamedTotals(), self._keys, named=True)
        dual = self._filled("dual", Totals(), self._keys)
        first = self._filled("first", Totals(), range(len(self._keys) * (self._rounds + 1)))
        control = self._filled("control", RenamedTotals(), self._keys, control=True)
        with (
            plain.running(RenamedTotals()),
            switched_off.running(self._migrated(switched_off)),
            dual.running(self._migrated()),
            first.running(self._migrated()),
            control.running(RenamedTotals(), control=True),
        ):
            sides = {
                "plain": lambda _: plain.batch(self._keys),
                "after switch-off": lambda _: switched_off.batch(self._keys),
                "dual access, all migrated": lambda _: dual.batch(self._keys),
                "first touch": lambda turn: first.batch(self._part(turn)),
                "idle backfill source": lambda _: control.batch(self._keys),
            }
            times = self._in_turn(sides)
        return [*self._ratios(times), self._backfill(statistics.median(times["plain"]))]

    def _filled(
        self,
        name: str,
        processor: Any,
        keys: range,
        *,
        control: bool = False,
        named: bool = False,
    ) -> Query:
        """A query that was stopped with a value for each key; ``named``: as the target family."""
        query = Query(self._spark, self._folder / name)
        if named:
            processor = self._migrated(query)
        with query.running(processor, control=control):
            query.batch(keys)
        return query

    def _migrated(self, query: Query | None = None) -> Any:
        from statemigrate import migrated

        checkpoint = None if query is None else query.checkpoint
        return migrated(
            RenamedTotals(), migrations=self._folder / "migrations", checkpoint=checkpoint
        )

    def _part(self, turn: int) -> range:
        return range(turn * len(self._keys), (turn + 1) * len(self._keys))

    def _in_turn(self, sides: dict[str, Callable[[int], float]]) -> dict[str, list[float]]:
        """Each side's batch in each turn; the first turn, which also migrates, does not count."""
        times: dict[str, list[float]] = {name: [] for name in sides}
        for turn in range(self._rounds + 1):
            for name, run in sides.items():
                times[name].append(run(turn))
        return {name: each[1:] for name, each in times.items()}

    def _ratios(self, times: dict[str, list[float]]) -> list[Result]:
        limits = {
            "after switch-off": 1.05,
            "dual access, all migrated": 1.1,
            "first touch": 1.7,
            "idle backfill source": 1.05,
        }
        return [
            Result(
                f"native: {name}",
                f"batch of {len(self._keys):,} keys against the same processor alone",
                statistics.median(_quotients(times[name], times["plain"])),
                "at most",
                limit,
                {"plain_ms": times["plain"], "ms": times[name]},
            )
            for name, limit in limits.items()
        ]

    def _backfill(self, plain_ms: float) -> Result:
        from statemigrate import backfill

        count = len(self._keys)
        query = self._filled("backfill", Totals(), range(count * self._rounds), control=True)
        folder = self._folder / "migrations"
        plan = backfill(query.checkpoint, migrations=folder, keys_per_chunk=count)
        with query.running(self._migrated(), control=True):
            times = query.process()
        # The first batch starts the workers, as the first turn did on the other side.
        rate, plain = count / statistics.median(times[1:]) * 1000, count / plain_ms * 1000
        figures = {"keys": plan.keys, "batch_ms": times, "keys_per_second": round(rate)}
        figures["plain_keys_per_second"] = round(plain)
        compared = "keys/s against get+update of the same processor alone"
        return Result("native: backfill", compared, rate / plain, "at least", 0.7, figures)


def _quotients(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(ours, theirs, strict=True)]
