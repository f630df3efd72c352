"""From the rows a processor yields to Arrow batches with a column for the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statemigrate.embedded.engine.tasks.report import REPORT, PartitionReport


class OutputRows:
    """Collects a processor's output rows and turns them into Arrow batches."""

    _ROWS_A_BATCH = 10_000

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._rows: list[Any] = []

    def add(self, rows: Iterator[Any]) -> bool:
        """Collect rows; whether there are enough for a batch now."""
        self._rows.extend(rows)
        return len(self._rows) >= self._ROWS_A_BATCH

    def flush(self) -> Iterator[Any]:
        """Yield what was collected since."""
        from pyspark.sql.conversion import LocalDataToArrowConversion

        if not self._rows:
            return
        table = LocalDataToArrowConversion.convert(self._rows, self._schema, False)
        self._rows = []
        for batch in table.to_batches():
            yield _with_report(batch, None)

    def report(self, report: PartitionReport) -> Any:
        """The one-row batch that carries a partition's report."""
        from pyspark.sql.conversion import LocalDataToArrowConversion
        from pyspark.sql.types import StructField, StructType

        # Through the same conversion as the output, so that all batches have one Arrow schema.
        nullable = StructType([StructField(f.name, f.dataType) for f in self._schema.fields])
        nothing = (None,) * len(nullable.fields)
        table = LocalDataToArrowConversion.convert([nothing], nullable, False)
        return _with_report(table.to_batches()[0], report.to_json())


def _with_report(batch: Any, report: str | None) -> Any:
    import pyarrow as pa

    column = pa.array([report] * batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, REPORT])
