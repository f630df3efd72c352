"""The part of a batch that a backfill of Spark's own state takes beside live rows, and of pages."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engines import session
from benchmarks.measuring import Result
from benchmarks.native import Query, write_script
from benchmarks.pages import PagedQuery
from benchmarks.processor import RenamedTotals, Totals
from statemigrate import backfill, migrated, pause_backfill

SHARE = 0.25
_WARMING = 2
"""Batches in which Java and Python warm up."""
_FILLS = 4
"""Batches that the state is filled in."""
_NEAR = 10
"""Batches without a chunk that one with a chunk is held against."""

Timed = tuple[float, int]
"""Milliseconds of a batch, and the rows of its chunk: 0 without one."""


@dataclass(frozen=True)
class Load:
    """So many keys, of which a batch has the same ``live`` ones."""

    keys: int
    live: int
    pages: int = 0


LOADS = {"native": Load(150_000, 2_000), "paged": Load(2_000_000, 500, 40_000)}


def measure(loads: dict[str, Load] = LOADS, batches: int = 90) -> list[Result]:
    """Batches of the same live keys beside a backfill with a share, and without a chunk.

    A third as many come before the backfill and, once it is paused, after it.
    """
    spark = session()
    try:
        found = {name: _measured(spark, load, batches) for name, load in loads.items()}
    finally:
        spark.stop()
    results = [each for name, measured in found.items() for each in measured.results(name)]
    compared = "keys/s in the time that the backfill takes beside live rows, against native's"
    ratio = found["paged"].rate / found["native"].rate
    figures = {name: round(measured.rate * 1000) for name, measured in found.items()}
    return [*results, Result("paged: backfill", compared, ratio, "at least", 20, figures)]


@dataclass(frozen=True)
class Measured:
    """Milliseconds and rows of a chunk of each batch before, during and after a backfill.

    In the first ``finding`` ones with a chunk the size of a chunk is found.
    """

    before: list[Timed]
    during: list[Timed]
    after: list[Timed]
    finding: int
    keys_a_row: float

    @property
    def taken(self) -> float:
        """The part of a batch that its chunk takes.

        Java makes batches faster for minutes, and a machine slower and faster: so each is held
        against those without a chunk that are nearest to it.
        """
        return statistics.median(1 - alone / took for took, _, alone in self._beside)

    @property
    def rate(self) -> float:
        """Keys a millisecond of the backfill's own time."""
        keys_a_time = statistics.median(keys / took for took, keys, _ in self._beside)
        return keys_a_time / self.taken * self.keys_a_row

    @property
    def _beside(self) -> list[tuple[float, int, float]]:
        """Batches with a chunk, and what such ones take without."""
        batches = [*self.before, *self.during, *self.after]
        alone = [(at, took) for at, (took, keys) in enumerate(batches) if not keys]
        found = []
        for at, (took, keys) in enumerate(batches):
            near = sorted(alone, key=lambda each: abs(each[0] - at))[:_NEAR]
            if keys:
                found.append((took, keys, statistics.median(each for _, each in near)))
        return found[self.finding :]

    def results(self, name: str) -> list[Result]:
        """The share that was taken, and the slowest batch."""
        alone = [took for took, keys in (*self.before, *self.during) if not keys]
        figures = {"batches": [self.before, self.during, self.after], "taken": self.taken}
        # With so few batches the 99th of a hundred is the slowest one; compared with the slowest
        # without a chunk.
        promised = max(alone) / (1 - SHARE)
        slowest = max(took for took, _, _ in self._beside) / promised
        ratio = self.taken / SHARE
        part = f"part of a batch's time beside live rows against the share of {SHARE}"
        compared = "slowest batch while migrating against the slowest without, at the share"
        return [
            Result(f"{name}: backfill share", part, ratio, "within a tenth of", 1, figures),
            Result(f"{name}: backfill share, slowest", compared, slowest, "at most", 1.1, {}),
        ]


class _OneFileABatch(Query):
    def stream(self) -> Any:
        reader = super().stream().sparkSession.readStream.option("maxFilesPerTrigger", 1)
        return reader.schema(super().stream().schema).parquet(str(self._folder / "input"))

    @contextmanager
    def running(self, processor: Any, *, control: bool = True) -> Iterator[Query]:
        with super().running(processor, control=control):
            yield self

    def fed(self, live: int, batches: int) -> list[Timed]:
        """So many batches with live rows."""
        for _ in range(batches):
            self.write(range(live))
        while len(found := self._with_rows()) < batches:
            assert self._query.isActive, self._query.exception()
            time.sleep(0.2)
        return found

    def _with_rows(self) -> list[Timed]:
        progress = [json.loads(each.json) for each in self._query.recentProgress]
        return [
            (each["durationMs"]["triggerExecution"], each["sources"][1]["numInputRows"])
            for each in progress
            if each["sources"][0]["numInputRows"]
        ]


class _Paged(_OneFileABatch, PagedQuery):
    @contextmanager
    def running(self, processor: Any, *, control: bool = False) -> Iterator[Query]:
        with PagedQuery.running(self, processor, control=control):
            yield self


def _measured(spark: Any, load: Load, batches: int) -> Measured:
    with tempfile.TemporaryDirectory(prefix="statemigrate-benchmark-") as name:
        folder = Path(name)
        write_script(folder)
        query = _query(spark, folder, load)
        with query.running(Totals()):
            for each in range(_FILLS):
                query.batch(range(each * load.keys // _FILLS, (each + 1) * load.keys // _FILLS))
        at = None if load.pages else query.checkpoint
        code = migrated(RenamedTotals(), migrations=folder / "migrations", checkpoint=at)
        with query.running(code):
            before = query.fed(load.live, batches // 3)[_WARMING:]
        plan = backfill(query.checkpoint, migrations=folder / "migrations", share=SHARE)
        with query.running(code):
            found = query.fed(load.live, batches)[_WARMING:]
        assert any(keys for _, keys in found[-3:]), "the backfill has ended: more keys are needed"
        pause_backfill(query.checkpoint)
        with query.running(code):
            after = query.fed(load.live, batches // 3)[_WARMING:]
    keys_a_row = sum(plan.families.values()) / (plan.pages or plan.keys)
    return Measured(before, found, after, batches // 4, keys_a_row)


def _query(spark: Any, folder: Path, load: Load) -> Any:
    place = folder / "query"
    return _Paged(spark, place, load.pages) if load.pages else _OneFileABatch(spark, place)
