"""A query that has not run yet: the logs of two batches that only brought its state in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from statemigrate.checkpoint.logs.commits import CommitEntry
from statemigrate.checkpoint.logs.offsets import Offsets
from statemigrate.checkpoint.operators.shapes import CheckpointShape
from statemigrate.files import Files
from statemigrate.native.seen.record import RECORD, record_document
from statemigrate.rewrite.forking.carried_log import making
from statemigrate.rewrite.plan.lineages import noted_stores
from statemigrate.rewrite.plan.plan import RewritePlan
from statemigrate.rewrite.rows.reading import RowReader
from statemigrate.rewrite.run.keeping import Copies
from statemigrate.rewrite.run.source_logs import taken_logs
from statemigrate.rewrite.seeding.rows import TableReader
from statemigrate.rewrite.seeding.seeds import Seed, seeded_operators
from statemigrate.rewrite.stored.state import StoredOperator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 1
"""The batch whose state the seeded one is.

After its first batch, which is 0, state is a changelog that Spark replays row by row, and has no
numbers of column families; after the second it may be tables with a snapshot.
"""


@dataclass(frozen=True)
class Tables:
    """The tables of ``seeds``, for a new ``query`` with this id."""

    seeds: Sequence[Seed]
    query: str

    @property
    def location(self) -> str:
        """Where the tables are."""
        return ", ".join(self.tables.values())

    @property
    def tables(self) -> Mapping[str, str]:
        """By store where its table is."""
        return {each.store: each.table.location for each in self.seeds}

    @property
    def metadata(self) -> bytes:
        """The file that names the query."""
        return json.dumps({"id": self.query}, separators=(",", ":")).encode()

    def reader(self, plan: RewritePlan, spark: SparkSession) -> RowReader:  # noqa: ARG002 - an Origin's
        """The rows of the tables."""
        return TableReader(self.seeds)

    def stored(self, plan: RewritePlan) -> Mapping[int, StoredOperator]:  # noqa: ARG002 - an Origin's
        """None: tables are Spark's to read."""
        return {}

    def kept(self, plan: RewritePlan) -> Mapping[int, Copies]:  # noqa: ARG002 - an Origin's
        """None: tables are no files of state."""
        return {}

    def beside(
        self,
        plan: RewritePlan,
        new: Files,  # noqa: ARG002 - an Origin's
        spark: SparkSession,
    ) -> Iterator[tuple[str, bytes]]:
        """The logs of sources of files, and what scripts have been run."""
        yield from taken_logs(plan, spark)
        noted = noted_stores(plan.scripts, plan.new.batch)
        if noted:
            yield RECORD, record_document(noted)
        unique = plan.fingerprint[:32]
        yield from making("seed", BATCH, self.location, (), plan.scripts, unique).items()

    def confirm(self, plan: RewritePlan) -> None:
        """Nothing: a table has no batches."""


def before_seeding(
    like: CheckpointShape, conf: Mapping[str, str], seeds: Sequence[Seed], begun: int
) -> CheckpointShape:
    """The state of the tables as that of an old checkpoint, which has read no source.

    ``like`` is a checkpoint that the query's code has made elsewhere, ``conf`` what is pinned;
    ``begun`` is when its last batch is said to have begun, in milliseconds since 1970.
    """
    entry = like.offsets[like.batch]
    started = replace(
        entry,
        offsets=Offsets(entry.offsets.named, ()),
        watermark=0,
        timestamp=begun,
        pinned=dict(conf),
        source_metadata={} if entry.offsets.named else None,
    )
    batches = range(BATCH + 1)
    return CheckpointShape(
        "",
        BATCH,
        dict.fromkeys(batches, started),
        dict.fromkeys(batches, CommitEntry(0)),
        seeded_operators(like.operators, seeds),
    )
