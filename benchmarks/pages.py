"""Paged state against Spark's own: the same processor and the same rows, batch by batch in turn."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
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
    """So many keys there are, so many of them in a batch, in each of some numbers of pages."""

    name: str
    keys: int
    touched: int
    pages: tuple[int, ...]
    limit: float


LOADS = (
    Load("all", 50_000, 50_000, (200,), 8.0),
    Load("a tenth", 500_000, 50_000, (500,), 3.0),
    Load("sparse", 1_000_000, 1_000, (4_000, 40), 1.0),
)
_A_FILL = 100_000
Figures = tuple[float, ...]
"""A figure of Spark's own state, and of each number of pages."""


def measure(loads: tuple[Load, ...] = LOADS, rounds: int = 5) -> list[Result]:
    """Keys a second of whole batches against ``transformWithState``, and of processor time."""
    spark = session()
    try:
        return [each for load in loads for each in _measured(spark, load, rounds)]
    finally:
        spark.stop()


def smaller(load: Load, part: int) -> Load:
    """The same load with a part of the keys."""
    pages = tuple(max(1, each // part) for each in load.pages)
    return Load(load.name, load.keys // part, load.touched // part, pages, load.limit)


def _measured(spark: Any, load: Load, rounds: int) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as folder:
        plain = Query(spark, Path(folder, "plain"))
        paged = [PagedQuery(spark, Path(folder, f"paged-{each}"), each) for each in load.pages]
        queries = (plain, *paged)
        with ExitStack() as running:
            for number, query in enumerate(queries):
                # Python workers of its own, as each side has where it runs alone.
                spark.sparkContext.environment["BENCHMARK_SIDE"] = str(number)
                running.enter_context(query.running(Totals()))
                for start in range(0, load.keys, _A_FILL):
                    query.batch(range(start, min(start + _A_FILL, load.keys)))
            # The first batch is of those in which Java and Python warm up.
            turns = [_turn(load, turn, queries) for turn in range(rounds + 1)][1:]
    wall, processor = zip(*turns, strict=True)
    return [
        _result(load, side, what, times)
        for side in range(1, len(queries))
        for what, times in (("", wall), (", processor time", processor))
    ]


def _turn(load: Load, turn: int, queries: Sequence[Query]) -> tuple[Figures, Figures]:
    """Milliseconds of a batch of each, and of processors in it, which noise touches less."""
    keys = _touched(load, turn)
    measured = []
    for query in queries:
        before = processor_seconds()
        wall = query.batch(keys)
        measured.append((wall, (processor_seconds() - before) * 1000))
    wall, processor = zip(*measured, strict=True)
    return wall, processor


def _result(load: Load, side: int, what: str, times: Sequence[Figures]) -> Result:
    theirs, ours = ([each[at] for each in times] for at in (0, side))
    pages = load.pages[side - 1]
    few = f", {pages} pages" if side > 1 else ""
    return Result(
        f"paged: {load.name}{few}{what}",
        f"{load.touched:,} of {load.keys:,} keys a batch, {pages} pages, against "
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
