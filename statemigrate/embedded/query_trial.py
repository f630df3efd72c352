"""The code of a query run on a copy of its checkpoint, at the times that batches had."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.deployment import SETTINGS, DeploymentSettings
from statemigrate.embedded.batches import Batches, Engine
from statemigrate.embedded.continuation import next_start
from statemigrate.embedded.embedded_options import EmbeddedOptions
from statemigrate.embedded.layout import Layout, given_directory
from statemigrate.embedded.query import (
    Planned,
    ProcessorQuery,
    QueryParts,
    RunningQuery,
    check_checkpoint,
    check_master,
    parts_of,
    plans_of,
)
from statemigrate.embedded.versions import claim
from statemigrate.errors import StartupError
from statemigrate.processor import EMBEDDED, require_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_RETAINED = 1_000
"""Versions of a copy that are not removed: its state after each batch is read at the end."""


@dataclass(frozen=True)
class QueryTrial:
    """The code of a query, to be run on copies of its checkpoint.

    Values migrate when they are used: there is no backfill, and no heartbeat. Neither the sink of
    the query nor its metrics are called, and no start is recorded.
    """

    parts: QueryParts
    planned: Planned

    @classmethod
    def of(cls, query: ProcessorQuery) -> QueryTrial:
        """The code of a query that is not started. Raises `StartupError` for scripts in its way."""
        parts = parts_of(query)
        _, planned = plans_of(parts.processor, parts.schema, parts.stream.sparkSession)
        return cls(parts, planned)

    @property
    def stream(self) -> DataFrame:
        """The rows that the processor gets."""
        return self.parts.stream

    @property
    def output(self) -> StructType:
        """The columns that the processor gives out."""
        found: StructType = self.parts.schema.output
        return found

    def check(self, checkpoint: Path) -> None:
        """Raise `StartupError` where the code does not fit a local ``checkpoint``; run nothing."""
        layout = Layout(checkpoint)
        _, committed = next_start(layout)
        check_checkpoint(layout, self._options(), committed, self.parts.schema)
        self.planned(committed)

    def start(
        self,
        checkpoint: Path,
        sink: Callable[[DataFrame, int], None],
        times: Mapping[int, int],
        **trigger: Any,
    ) -> RunningQuery:
        """Go on from the last version in a local ``checkpoint``; ``trigger`` as Spark takes it.

        ``times`` has the processing time of each batch, in milliseconds since the epoch. The
        working directory is next to the checkpoint. Raises `StartupError` where the code does not
        fit the checkpoint.
        """
        parts, layout = self.parts, Layout(checkpoint)
        working = given_directory(checkpoint.with_name(f"{checkpoint.name}-working"))
        options = self._options()
        try:
            check_master(parts.stream, layout, options)
        except StartupError as error:
            advice = "start the session with a local master; a copy is on the driver's disk alone"
            raise error.but(next_action=advice) from error
        require_workers(EMBEDDED, parts.stream.sparkSession)
        self.check(checkpoint)
        engine = Engine(
            layout=layout,
            working=str(working),
            processor=parts.processor,
            schema=parts.schema,
            settings=getattr(parts.processor, SETTINGS, DeploymentSettings()),
            options=options,
            sink=sink,
            epoch=claim(layout),
            times=times,
        )
        batches = Batches(engine, self.planned)
        writer = parts.stream.writeStream.foreachBatch(batches.run).trigger(**trigger)
        return RunningQuery(
            writer.option("checkpointLocation", layout.location).start(), batches, []
        )

    def _options(self) -> EmbeddedOptions:
        given = self.parts.options
        return replace(
            given,
            backfill=replace(given.backfill, enabled=False),
            retain=_RETAINED,
            retire_drained=False,
            working_directory=None,
            metrics=None,
            shared_path=False,
        )
