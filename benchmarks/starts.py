"""How long a start on pages takes before its query begins, by the number of keys.

With the same code, and with a new script, for which all pages are read.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.engines import session
from benchmarks.measuring import Result, median_ratio, seconds
from benchmarks.native import write_script
from benchmarks.pages import PagedQuery
from benchmarks.processor import OUTPUT, RenamedTotals, Totals
from statemigrate import migrated, paged

_KEYS_A_PAGE = 250
_FILLS = 10
"""Batches that the state is filled in."""
_TIMES = 10
"""So many times as many keys the larger state has."""


def measure(keys: int = 1_000_000, rounds: int = 5) -> list[Result]:
    """Seconds of `paged`, which compares code and state: both states in turn."""
    spark = session()
    try:
        with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as name:
            folder = Path(name)
            write_script(folder)
            sizes = {each: each // _KEYS_A_PAGE for each in (keys // _TIMES, keys)}
            queries = {each: _filled(spark, folder, each, pages) for each, pages in sizes.items()}
            same = _turns(queries, rounds, Totals)
            new = _turns(queries, rounds, lambda: _renamed(folder))
    finally:
        spark.stop()
    return [
        _result("the same code", sizes, same, 1.2),
        _result("a new script", sizes, new, 3.0),
    ]


def _turns(
    queries: dict[int, PagedQuery], rounds: int, processor: Callable[[], Any]
) -> list[list[float]]:
    """Seconds of each query's start in turn; in the first one, which is left out, Java warms up."""
    turns = [[_start(each, processor()) for each in queries.values()] for _ in range(rounds + 1)]
    return turns[1:]


def _renamed(folder: Path) -> Any:
    """New code, under which all pages have an older family: so all of them are read."""
    return migrated(RenamedTotals(), migrations=folder / "migrations")


def _filled(spark: Any, folder: Path, keys: int, pages: int) -> PagedQuery:
    query = PagedQuery(spark, folder / str(keys), pages)
    with query.running(Totals()):
        for start in range(0, keys, keys // _FILLS):
            query.batch(range(start, start + keys // _FILLS))
    # As before most starts with the same code: an earlier one has read the pages.
    with query.running(Totals()):
        query.batch(range(1))
    return query


def _start(query: PagedQuery, processor: Any) -> float:
    parts = {"output": OUTPUT, "checkpoint": query.checkpoint}
    return seconds(lambda: paged(query.stream(), by="key", processor=processor, **parts))


def _result(what: str, sizes: dict[int, int], turns: list[list[float]], limit: float) -> Result:
    few, many = (list(each) for each in zip(*turns, strict=True))
    (fewer, _), (more, pages) = sizes.items()
    return Result(
        f"paged: start, {what}",
        f"seconds before the query starts, {more:,} keys in {pages:,} pages against {fewer:,}",
        median_ratio(many, few),
        "at most",
        limit,
        {"few_s": few, "many_s": many, "median_s": statistics.median(many)},
    )
