"""A query with a backfill source as a test drives it, and processors that look at every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
from native_pipeline import NativePipeline
from pyspark.sql import Row
from tally import AmountsTally, CentsTally

from statemigrate import with_backfill


@dataclass
class ControlPipeline(NativePipeline):
    """`NativePipeline` whose stream has a backfill source from the first start."""

    def stream(self) -> Any:
        return with_backfill(super().stream(), self.by, checkpoint=self.checkpoint)

    def chunks(self) -> list[list[str]]:
        """The keys of each chunk file."""
        files = (self.checkpoint / "statemigrate/control/chunks").rglob("*.parquet")
        return [[key for key, _ in self.spark.read.parquet(str(at)).collect()] for at in files]

    def partitions(self, variable: str) -> dict[str, int]:
        """The partition of each key."""
        reader = self.spark.read.format("statestore").option("stateVarName", variable)
        rows = reader.load(str(self.checkpoint)).select("key.*", "partition_id").collect()
        return dict(map(tuple, rows))


class Strict:
    """Refuses any row that is not the stream's own."""

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        seen = list(rows)
        assert seen, f"called for {key} without rows"
        for row in seen:
            assert list(row.__fields__) == ["key", "cents", "name"]
            assert None not in row
        yield from super().handleInputRows(key, iter(seen), timer_values)  # type: ignore[misc]


class StrictInPandas:
    """The same over DataFrames."""

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        make = Row("key", "cents", "name")
        seen = []
        for frame in rows:
            assert list(frame.columns) == ["key", "cents", "name"], list(frame.columns)
            assert len(frame)
            assert frame.dtypes["cents"] == "int64"
            assert not frame.isna().any().any()
            assert list(frame.index) == list(range(len(frame)))
            seen += [make(*row) for row in frame.itertuples(index=False)]
        assert seen, f"called for {key} without rows"
        made = super().handleInputRows(key, iter(seen), timer_values)  # type: ignore[misc]
        for row in made:
            yield pd.DataFrame([row.asDict()])


class StrictAmounts(Strict, AmountsTally):
    pass


class CentsInPandas(StrictInPandas, CentsTally):
    pass


class AmountsInPandas(StrictInPandas, AmountsTally):
    pass
