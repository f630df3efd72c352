"""From the rows a processor yields to Arrow batches with a column for the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from statemigrate.blocks import BYTES_IN_BLOCK, in_blocks, size_of
from statemigrate.embedded.engine.tasks.report import REPORT, PartitionReport

_AS_THEY_ARE = ("boolean", "byte", "short", "integer", "long", "float", "double")
"""Types of which PySpark hands values to Arrow without a look at them."""
_OF_ONE_SIZE = (*_AS_THEY_ARE, "date", "timestamp", "timestamp_ntz", "decimal")
_TEXT = "string"


class OutputRows:
    """Collects a processor's output rows and turns them into Arrow batches.

    ``add`` takes the rows of a key, and ``rows`` has all those since the last `flush`: both are
    called and asked for every key. Once there are ``enough``, `flush_if_full` looks how large they
    are.
    """

    ROWS_A_BATCH = 10_000
    ROWS_A_LOOK = 250

    def __init__(self, schema: Any) -> None:
        from pyspark.sql.conversion import LocalDataToArrowConversion
        from pyspark.sql.types import StructField, StructType

        self._schema = schema
        self.rows: list[Any] = []
        self.enough = self.ROWS_A_LOOK
        self._looked = self._bytes = 0
        self.add: Callable[[Iterable[Any]], None] = self.rows.extend
        # Through the same conversion as the output, so that all batches have one Arrow schema.
        nullable = StructType([StructField(f.name, f.dataType) for f in schema.fields])
        nothing = (None,) * len(nullable.fields)
        self._nothing = LocalDataToArrowConversion.convert([nothing], nullable, False)
        self._plain = PlainColumns(schema)

    def flush_if_full(self) -> Iterator[Any]:
        """`flush`, if there are a batch's rows or bytes."""
        self._bytes += self._plain.size_of(self.rows[self._looked :])
        self._looked = len(self.rows)
        if self._looked >= self.ROWS_A_BATCH or self._bytes >= BYTES_IN_BLOCK:
            yield from self.flush()
        else:
            self.enough = self._looked + self.ROWS_A_LOOK

    def flush(self) -> Iterator[Any]:
        """Yield what was collected since."""
        rows = self.rows.copy()
        self.rows.clear()
        self.enough, self._looked, self._bytes = self.ROWS_A_LOOK, 0, 0
        # A key alone may have more of them than a batch has room for.
        for block in in_blocks(iter(rows), len(rows) or 1):
            yield from self._batches(block)

    def _batches(self, rows: list[Any]) -> Iterator[Any]:
        from pyspark.sql.conversion import LocalDataToArrowConversion

        columns = self._plain.of(rows)
        if columns is None:
            table = LocalDataToArrowConversion.convert(rows, self._schema, False)
        else:
            table = type(self._nothing).from_arrays(columns, schema=self._nothing.schema)
        for batch in table.to_batches():
            yield _with_report(batch, None)

    def report(self, report: PartitionReport) -> Any:
        """The one-row batch that carries a partition's report."""
        return _with_report(self._nothing.to_batches()[0], report.to_json())


class PlainColumns:
    """Columns of values that PySpark would hand to Arrow as they are, without going by rows."""

    def __init__(self, schema: Any) -> None:
        kinds = [field.dataType.typeName() for field in schema.fields]
        self._width = len(kinds)
        self._texts = [at for at, kind in enumerate(kinds) if kind == _TEXT]
        self._of_any_size = [at for at, kind in enumerate(kinds) if kind not in _OF_ONE_SIZE]
        self._are_plain = all(
            field.nullable and kind in (*_AS_THEY_ARE, _TEXT)
            for field, kind in zip(schema.fields, kinds, strict=True)
        )

    def size_of(self, rows: Sequence[Any]) -> int:
        """About how many bytes the columns have together that may have any number."""
        from pyspark.sql import Row

        if not set(map(type, rows)) <= {tuple, Row} or set(map(len, rows)) - {self._width}:
            return sum(map(size_of, rows))
        if not self._of_any_size:
            return 0
        columns = list(zip(*rows, strict=True))
        return sum(sum(map(size_of, columns[at])) for at in self._of_any_size)

    def of(self, rows: Sequence[Any]) -> Sequence[Sequence[Any]] | None:
        """A column for each field; None for rows that have to be converted one by one."""
        from pyspark.sql import Row

        if not (self._are_plain and self._width and set(map(type, rows)) <= {tuple, Row}):
            return None
        if set(map(len, rows)) != {self._width}:
            return None
        columns = list(zip(*rows, strict=True))
        for at in self._texts:
            if not set(map(type, columns[at])) <= {str, type(None)}:
                return None
        return columns


def _with_report(batch: Any, report: str | None) -> Any:
    import pyarrow as pa

    column = pa.array([report] * batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, REPORT])
