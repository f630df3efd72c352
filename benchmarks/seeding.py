"""A query of ``transformWithState`` that begins with state: Spark's own way to seed one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

_VALUE = "n BIGINT, total BIGINT"


class _Seeded(StatefulProcessor):
    """Keeps what it begins with."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._totals = handle.getValueState("totals", _VALUE)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self._totals.update((initialState["n"], initialState["total"]))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield from ()

    def close(self) -> None:
        pass


def seeded(spark: Any, folder: Path, rows: int, settings: Mapping[str, str]) -> None:
    """Run a query's first batch, of one row, with the state of ``rows`` customers."""
    own = spark.newSession()
    for name, value in settings.items():
        own.conf.set(name, value)
    begin = own.range(rows).selectExpr("concat('customer-', id) customer", "1L n", "id total")
    own.range(1).selectExpr("'customer-0' customer").write.parquet(str(folder / "input"))
    stream = own.readStream.schema("customer STRING").parquet(str(folder / "input"))
    result = stream.groupBy("customer").transformWithState(
        _Seeded(), "customer STRING", "Update", "None", initialState=begin.groupBy("customer")
    )
    writer = result.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    query.awaitTermination()
