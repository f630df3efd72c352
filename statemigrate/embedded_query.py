"""`EmbeddedQuery`: a processor over a stream, with its state in the embedded engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.embedded import EmbeddedOptions, ProcessorQuery
from statemigrate.errors import StartupError
from statemigrate.meaning import guard_embedded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import StructType

    from statemigrate.embedded import Sink


class EmbeddedQuery(ProcessorQuery):
    """A ``StatefulProcessor`` over a stream, with its state in the embedded engine.

    ``groupBy``, or ``by`` for short, names the grouping columns. ``outputStructType`` is the
    processor's output schema. ``sink`` is called with each batch's output and the batch id. After a
    crash it may be called again with the same id and the same rows, so it should replace or upsert.
    Migrations come from the processor's `migrated` decorator; without it, every store keeps its
    format.

    `start` first checks everything, and raises `StartupError`, `CheckpointError` or
    `CheckpointInUseError` before it changes anything. What keys and other columns are computed
    from, and what becomes of rows before the processor gets them, is compared with the checkpoint's
    record of the last start, as `guarded` does for a query of Spark's; the first start writes the
    record. ``accept`` has reasons for changes that are meant, by the names in the error.

    Raises `UnsupportedError` for a stream of Spark Connect.
    """

    def __init__(  # noqa: PLR0913 - a query of Spark's takes as many from its calls
        self,
        stream: DataFrame,
        *,
        groupBy: str | Sequence[str] | None = None,
        by: str | Sequence[str] | None = None,
        processor: StatefulProcessor,
        outputStructType: StructType | str,
        checkpoint: str | Path,
        sink: Sink,
        options: EmbeddedOptions | None = None,
        accept: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            stream,
            by=_columns_of(groupBy, by),
            processor=processor,
            output=outputStructType,
            checkpoint=checkpoint,
            sink=sink,
            options=options,
            compare=partial(guard_embedded, accept=accept or {}),
        )


def _columns_of(
    group_by: str | Sequence[str] | None, by: str | Sequence[str] | None
) -> tuple[str, ...]:
    given = [each for each in (group_by, by) if each is not None]
    if len(given) != 1:
        raise StartupError(
            "SM-EMBEDDED-007",
            "a query is grouped by columns that are named once",
            expected='groupBy="column", or several in a list; `by` is the same for short',
            found="both" if given else "neither",
            next_action="name the columns in groupBy=",
        )
    columns = given[0]
    return (columns,) if isinstance(columns, str) else tuple(columns)
