"""What Spark keeps of variables that are known, seen by running a processor that has just these."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from statemigrate.checkpoint.operators.shapes import OperatorShape
from statemigrate.checkpoint.shape import describe
from statemigrate.files.opening import open_files
from statemigrate.formats.struct.words import quoted
from statemigrate.pages.live.large import LargeValues
from statemigrate.pages.live.markers import declare
from statemigrate.pages.live.rows import BUCKET
from statemigrate.pages.record import SCHEMA, PagesRecord, variable_of
from statemigrate.rewrite.probe.run import run_probe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Variable = tuple[str, str, Any, Any, int | None]
"""Its name, kind, type of values, that of a map's keys, and its time to live."""
_MOMENT = "statemigrate_moment"
_MODES = ("EventTime", "ProcessingTime")


class Having(StatefulProcessor):
    """Has ``variables``, and does nothing with them."""

    def __init__(self, variables: tuple[Variable, ...]) -> None:
        self._variables = variables

    def init(self, handle: Any) -> None:
        """Declare them."""
        for name, kind, value, key, life in self._variables:
            match kind:
                case "map":
                    handle.getMapState(name, key, value, life)
                case "list":
                    handle.getListState(name, value, life)
                case _:
                    handle.getValueState(name, value, life)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: ARG002
        """Nothing comes of rows."""
        return iter(())

    def close(self) -> None:
        """Nothing is open."""


class HavingPages(StatefulProcessor):
    """Has what a paged query has in Spark's state, under the name of its operator."""

    def __init__(self, operator: str) -> None:
        self._operator = operator

    def init(self, handle: Any) -> None:
        """Declare it."""
        handle.getValueState(variable_of(self._operator), SCHEMA)
        LargeValues(handle, self._operator)
        declare(handle, self._operator)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: ARG002
        """Nothing comes of rows."""
        return iter(())

    def close(self) -> None:
        """Nothing is open."""


def operator_with(
    record: PagesRecord, like: OperatorShape, conf: Mapping[str, str], spark: SparkSession
) -> OperatorShape:
    """An operator with every family of a record as a variable, in the time mode of ``like``."""
    from pyspark.sql.types import StructType

    variables = tuple(
        (
            family.name,
            store.kind,
            family.format.struct_type(),
            None if store.user_key is None else StructType.fromJson(store.user_key),
            1 if name in record.expiring else None,
        )
        for name, store in record.stores.items()
        for family in store.families
    )
    key = StructType.fromJson(dict(record.key))
    return _probed(Having(variables), key, like, conf, spark)


def operator_with_pages(
    operator: str, like: OperatorShape, conf: Mapping[str, str], spark: SparkSession
) -> OperatorShape:
    """An operator that has pages, by its name, which may be empty."""
    from pyspark.sql.types import StructType

    return _probed(HavingPages(operator), StructType().add(BUCKET, "integer"), like, conf, spark)


def _probed(
    having: StatefulProcessor,
    key: StructType,
    like: OperatorShape,
    conf: Mapping[str, str],
    spark: SparkSession,
) -> OperatorShape:
    from pyspark.sql import functions as F  # noqa: N812

    said = like.properties or {}
    time_mode = next((each for each in _MODES if said.get("timeMode") == each), "None")
    mode = str(said.get("outputMode", "Update"))

    def query(rows: DataFrame) -> DataFrame:
        timed = rows
        if time_mode == _MODES[0]:
            timed = rows.withColumn(_MOMENT, F.current_timestamp())
            timed = timed.withWatermark(_MOMENT, "0 seconds")
        grouped = timed.groupBy(*(quoted(name) for name in key.fieldNames()))
        return grouped.transformWithState(having, "nothing INT", mode, time_mode)

    with tempfile.TemporaryDirectory(prefix="statemigrate-probe-") as folder:
        made = run_probe(
            query, Path(folder), spark, inputs={"rows": key}, mode=mode.lower(), conf=conf
        )
        (found,) = describe(open_files(made.as_uri()), 0).operators
    partitions = like.stores[0].partitions
    stores = tuple(replace(each, partitions=partitions) for each in found.stores)
    return replace(found, number=like.number, stores=stores)
