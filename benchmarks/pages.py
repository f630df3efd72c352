"""Paged state against Spark's own: the same processor and the same rows, batch by batch in turn."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engines import session
from benchmarks.measuring import Result, median_ratio, processor_seconds
from benchmarks.native import Query
from benchmarks.processor import OUTPUT, Totals


@dataclass(frozen=True)
class Load:
    """So many keys there are, so many of them in a batch, in so many pages."""

    name: str
    keys: int
    touched: int
    pages: int
    limit: float


LOADS = (
    Load("all", 50_000, 50_000, 200, 8.0),
    Load("a tenth", 500_000, 50_000, 500, 3.0),
    Load("sparse", 1_000_000, 1_000, 4_000, 1.0),
)
_A_FILL = 100_000
Pair = tuple[float, float]
"""A figure of Spark's own state, and of pages."""


def measure(loads: tuple[Load, ...] = LOADS, rounds: int = 5) -> list[Result]:
    """Keys a second of whole batches against ``transformWithState``, and of processor time."""
    spark = session()
    try:
        return [each for load in loads for each in _measured(spark, load, rounds)]
    finally:
        spark.stop()


def smaller(load: Load, part: int) -> Load:
    """The same load with a part of the keys."""
    touched, pages = load.touched // part, max(1, load.pages // part)
    return Load(load.name, load.keys // part, touched, pages, load.limit)


def _measured(spark: Any, load: Load, rounds: int) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
        plain = Query(spark, Path(folder, "plain"))
        paged = PagedQuery(spark, Path(folder, "paged"), load.pages)
        with ExitStack() as running:
            for query in (plain, paged):
                # Python workers of its own, as each side has where it runs alone.
                spark.sparkContext.environment["BENCHMARK_SIDE"] = type(query).__name__
                running.enter_context(query.running(Totals()))
                for start in range(0, load.keys, _A_FILL):
                    query.batch(range(start, min(start + _A_FILL, load.keys)))
            # The first batch is of those in which Java and Python warm up.
            turns = [_turn(load, turn, plain, paged) for turn in range(rounds + 1)][1:]
    wall, processor = zip(*turns, strict=True)
    return [
        _result(load, "", list(wall)),
        _result(load, ", processor time", list(processor)),
    ]


def _turn(load: Load, turn: int, plain: Query, paged: Query) -> tuple[Pair, Pair]:
    """Milliseconds of a batch of both, and of processors in it, which noise touches less."""
    keys = _touched(load, turn)
    measured = []
    for query in (plain, paged):
        before = processor_seconds()
        wall = query.batch(keys)
        measured.append((wall, (processor_seconds() - before) * 1000))
    (theirs, their_processors), (ours, our_processors) = measured
    return (theirs, ours), (their_processors, our_processors)


def _result(load: Load, what: str, times: list[Pair]) -> Result:
    theirs, ours = ([each[side] for each in times] for side in (0, 1))
    return Result(
        f"paged: {load.name}{what}",
        f"{load.touched:,} of {load.keys:,} keys a batch, {load.pages} pages, against "
        "transformWithState",
        median_ratio(theirs, ours),
        "at least",
        load.limit,
        {
            "plain_ms": theirs,
            "paged_ms": ours,
            "plain_us_a_key": round(statistics.median(theirs) * 1000 / load.touched, 1),
            "paged_us_a_key": round(statistics.median(ours) * 1000 / load.touched, 1),
        },
    )


def _touched(load: Load, turn: int) -> range:
    return range(turn, load.keys, load.keys // load.touched)


class PagedQuery(Query):
    """The same query on pages."""

    def __init__(self, spark: Any, folder: Path, pages: int) -> None:
        super().__init__(spark, folder)
        self._pages = pages

    @contextmanager
    def running(self, processor: Any, *, control: bool = False) -> Iterator[PagedQuery]:
        assert not control
        from statemigrate import paged

        parts = {"output": OUTPUT, "checkpoint": self.checkpoint, "pages": self._pages}
        with self.started(paged(self.stream(), by="key", processor=processor, **parts)):
            yield self
