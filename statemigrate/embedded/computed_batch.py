"""What the tasks of a batch compute, in one job of Spark's: the reports, and the sink's output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from statemigrate.embedded.batch_output import Frames, read_output
from statemigrate.embedded.task import run_partition
from statemigrate.embedded.task_plan import OUTPUT, REPORT, BatchPlan, BatchSchema, nullable_columns
from statemigrate.errors import CheckpointError, StatemigrateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WITHOUT = ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage")
"""What Spark plans the tasks of a batch without."""


class Computed:
    """One batch as its tasks compute it, for the length of a ``with`` block.

    Spark stores what they return, so that no read of the sink's runs the batch again.
    """

    def __init__(
        self, rows: DataFrame, plan: BatchPlan, schema: BatchSchema, processor: Any
    ) -> None:
        self._rows = rows
        self._schema = schema
        self._run = partial(run_partition, plan=plan, schema=schema, processor=processor)
        self._partitions = len(plan.partitions)
        self._columns = nullable_columns(schema.output)
        self._stored: DataFrame | None = None
        self._with_reports: list[bytes | None] = []

    def __enter__(self) -> Computed:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stored is not None:
            self._stored.unpersist()

    def _stage(self) -> DataFrame:
        from pyspark.sql.types import BinaryType, StringType, StructField, StructType

        reported = [StructField(REPORT, StringType()), StructField(OUTPUT, BinaryType())]
        # Under plain names: Spark would take a dot in a name for a field of a struct.
        names = self._schema.rows.fieldNames()
        plain = self._rows.toDF(*(f"column_{number}" for number in range(len(names))))
        by = [f"column_{number}" for number in self._schema.key_columns]
        ordered = plain.repartition(self._partitions, *by).sortWithinPartitions(*by)
        return ordered.mapInArrow(self._run, StructType([*self._columns.fields, *reported]))

    def reports(self) -> list[dict[str, Any]]:
        """Run the tasks; the reports of the partitions, in order.

        Raises the first error among them, and `CheckpointError` unless every partition was run.
        """
        with _planned_for_tasks(self._rows.sparkSession):
            self._stored = stored = self._stage().persist()
            rows = stored.where(stored[REPORT].isNotNull()).select(REPORT, OUTPUT).collect()
        found = [(json.loads(report), output) for report, output in rows]
        found.sort(key=lambda each: int(each[0]["partition"]))
        reports = [report for report, _ in found]
        for report in reports:
            if report["error"] is not None:
                raise StatemigrateError.from_json(report["error"])
        numbers = [report["partition"] for report in reports]
        if numbers != list(range(self._partitions)):
            raise CheckpointError(
                "SM-EMBEDDED-002",
                "not every partition of the batch was run",
                expected=f"reports of partitions 0 to {self._partitions - 1}",
                found=f"reports of {numbers}",
                next_action="restart the query; it goes on from the last committed batch",
            )
        self._with_reports = [None if each is None else bytes(each) for _, each in found]
        return reports

    def output(self, frames: Frames) -> DataFrame:
        """The output as the sink gets it; ``frames`` makes the part that came with the reports."""
        here = [each for each in self._with_reports if each is not None]
        table = read_output(here) if here else None
        if table is not None and len(here) == self._partitions:
            return frames(self._rows.sparkSession, table, self._columns)
        stored = self._stored
        assert stored is not None  # noqa: S101 - after `reports` alone
        rest = stored.where(stored[REPORT].isNull()).drop(REPORT, OUTPUT)
        if table is None or not table.num_rows:
            return rest
        return rest.unionAll(frames(self._rows.sparkSession, table, self._columns))


@contextmanager
def _planned_for_tasks(session: SparkSession) -> Iterator[None]:
    """Let Spark plan the tasks of a batch; what the sink does is planned as the user has it.

    Adaptive execution may drop partitions that got no rows, and each of them must run. Code made
    for the plan of a batch takes longer to make than it can save: the rows go to Python as they
    are.
    """
    before = {name: session.conf.get(name, "true") for name in _WITHOUT}
    for name in _WITHOUT:
        session.conf.set(name, "false")
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value or "true")
