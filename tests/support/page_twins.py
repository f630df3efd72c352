"""Pages of Spark's state in memory, whose batches a processor runs by key or by table."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Row

from statemigrate.deployment import (
    VARIABLE_KINDS,
    Declared,
    DeploymentSettings,
    Kind,
    StorePlan,
    plan_store,
)
from statemigrate.formats import Format
from statemigrate.migration import Lineage
from statemigrate.native.control_rows import MARKER
from statemigrate.pages.deployed_pages import PagedDeployment, TimeMode
from statemigrate.pages.packed_rows import BUCKET, pack
from statemigrate.pages.page_leaves import SPLITTING, Splitting
from statemigrate.pages.visit import PagedProcessor
from statemigrate.processor.handle import struct_of
from statemigrate.processor.keys import TupleKeyCodec
from support.batch_twins import KEY, KINDS, OUTPUT, ROWS, USER_KEY
from support.spark_variables import SparkVariables

PAGES = 3
KEYS = TupleKeyCodec(KEY)
SMALL = Splitting(page=200, leaf=80)
"""Pages that split with a few keys."""
ASKED = "asked"
"""In place of a query's id in a control row, which tests have none of."""


def page_of(key: tuple[Any, ...]) -> int:
    return sum(KEYS.encode(key)) % PAGES


@dataclass
class PageTwin:
    """A query on pages; ``time_mode`` says whether rows come packed or one by one.

    With ``splitting=SMALL`` a few keys are in leaves.
    """

    time_mode: TimeMode = "processingtime"
    write_on_read: bool = True
    ttl: int | None = None
    splitting: Splitting = SPLITTING
    spark: SparkVariables = field(default_factory=SparkVariables)
    plans: dict[str, StorePlan] = field(default_factory=dict)

    def deploy(
        self,
        fmt: Format,
        lineages: dict[str, Lineage] | None = None,
        kinds: dict[str, Kind] | None = None,
    ) -> None:
        """Declare variables in a format: the program's three, or those of ``kinds``."""
        self.settings = DeploymentSettings(write_on_read=self.write_on_read)
        stored = {name: plan.stored() for name, plan in self.plans.items()}
        for name, kind in (kinds or KINDS).items():
            user_key = struct_of(USER_KEY) if VARIABLE_KINDS[kind].has_user_key else None
            declared = Declared(name, kind, fmt.struct_type(), user_key, self.ttl)
            self.plans[name] = plan_store(
                declared, (lineages or {}).get(name), stored.get(name), self.settings
            )

    def run(
        self, processor: Any, rows: Sequence[tuple[Any, Any, int]], *, asked: bool = False
    ) -> list[dict[str, Any]]:
        """Run and commit a batch; the rows that it gives out, in the order of their keys.

        ``asked`` has a control row for each page, as of a backfill. A batch that fails leaves
        nothing.
        """
        self.spark.begin()
        visits = PagedProcessor(
            processor, self._deployment(), ROWS, gives_rows=True, splitting=self.splitting
        )
        visits.init(self.spark)
        made: list[Any] = []
        by_page = self._packed if self.time_mode != "eventtime" else self._plain
        arrived = by_page(rows)
        for page in range(PAGES) if asked else sorted(arrived):
            self.spark.key = struct.pack(">i", page)
            control = self._control(page) if asked else []
            given = iter([*arrived.get(page, []), *control])
            made += visits.handleInputRows((page,), given, self._times())
        visits.close()
        self.spark.commit()
        found = [each.asDict(True) for each in made]
        return sorted(found, key=lambda row: KEYS.encode((row["a"], row["b"])))

    def contents(self) -> dict[str, dict[bytes, Any]]:
        """All that Spark has: the bytes of each page, and the values outside of them."""
        return self.spark.committed

    def _deployment(self) -> PagedDeployment:
        seen: Any = SimpleNamespace(compare_in_task=lambda: None, deployment="d")
        return PagedDeployment(
            KEY, (0, 1), OUTPUT, self.plans, self.settings, seen,
            cast(Any, SimpleNamespace(pages=PAGES)), note=cast(Any, None),
            time_mode=self.time_mode,
        )  # fmt: skip

    def _packed(self, rows: Sequence[Any]) -> dict[int, list[Any]]:
        arrived: dict[int, list[Any]] = {}
        # In two batches of Arrow, so that a page gets several packages.
        for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            if not part:
                continue
            columns = zip(*((*row, page_of(row[:2])) for row in part), strict=True)
            kinds = (pa.string(), pa.int64(), pa.int32(), pa.int32())
            arrays = [pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)]
            batch = pa.RecordBatch.from_arrays(arrays, ["a", "b", "act", BUCKET])
            for packed in pack(iter([batch])):
                for each in packed.to_pylist():
                    row = Row(*each, MARKER)(*each.values(), None)
                    arrived.setdefault(each[BUCKET], []).append(row)
        return arrived

    def _plain(self, rows: Sequence[Any]) -> dict[int, list[Any]]:
        make: Callable[..., Any] = Row("a", "b", "act", BUCKET, MARKER)
        arrived: dict[int, list[Any]] = {}
        for row in rows:
            page = page_of(row[:2])
            arrived.setdefault(page, []).append(make(*row, page, None))
        return arrived

    def _control(self, page: int) -> list[Any]:
        if self.time_mode == "eventtime":
            return [Row("a", "b", "act", BUCKET, MARKER)(None, None, None, page, ASKED)]
        return [Row(BUCKET, "layout", "rows", MARKER)(page, None, None, ASKED)]

    def _times(self) -> Any:
        return SimpleNamespace(
            getCurrentProcessingTimeInMs=lambda: self.spark.now,
            getCurrentWatermarkInMs=lambda: self.spark.now,
        )
