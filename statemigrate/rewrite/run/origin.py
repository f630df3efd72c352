"""What a new checkpoint is made from: where its rows come from, and what goes along with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.errors import RewriteError
from statemigrate.files import Files
from statemigrate.native.seen.record import RECORD, read_record, record_document
from statemigrate.rewrite.forking.carried_log import making
from statemigrate.rewrite.forking.own_files import own_files
from statemigrate.rewrite.plan.lineages import noted_stores
from statemigrate.rewrite.plan.paging import is_written_name
from statemigrate.rewrite.plan.plan import RewritePlan
from statemigrate.rewrite.rows.paged.opening import reader_of
from statemigrate.rewrite.rows.reading import RowReader, StateReader
from statemigrate.rewrite.rows.session import rewriting_session
from statemigrate.rewrite.run.keeping import Copies, kept_operators
from statemigrate.rewrite.run.report import REPORT
from statemigrate.rewrite.run.source_logs import kept_logs, taken_logs
from statemigrate.rewrite.stored.opening import stored_operator
from statemigrate.rewrite.stored.state import StoredOperator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESTORED = "statemigrate/restored.json"
"""What `repair` notes of families that it has brought back, below the new checkpoint."""
_LARGEST = 1 << 30
"""Bytes of a file that goes along."""


class Origin(Protocol):
    """What a plan's rows come from."""

    @property
    def location(self) -> str:
        """How a report calls it."""

    @property
    def query(self) -> str:
        """The id of the new checkpoint's query."""

    @property
    def metadata(self) -> bytes:
        """The file that says this id, and makes a directory a checkpoint."""

    @property
    def tables(self) -> Mapping[str, str]:
        """By store the tables that become its state; none where the query goes on."""

    def reader(self, plan: RewritePlan, spark: SparkSession) -> RowReader:
        """What gives the plan's old rows."""

    def stored(self, plan: RewritePlan) -> Mapping[int, StoredOperator]:
        """By their numbers the operators whose rows tasks can read from files themselves."""

    def kept(self, plan: RewritePlan) -> Mapping[int, Copies]:
        """What is copied, by the new numbers of operators whose files stay as they are."""

    def beside(
        self, plan: RewritePlan, new: Files, spark: SparkSession
    ) -> Iterator[tuple[str, bytes]]:
        """The files of the new checkpoint that are neither state nor logs of batches, by name."""

    def confirm(self, plan: RewritePlan) -> None:
        """Raise `RewriteError` where it is not what the plan was made for any more."""


@dataclass(frozen=True)
class OldCheckpoint:
    """The checkpoint whose ``files`` these are, of the query with this id.

    ``details`` are what the log is to say of the rewrite.
    """

    files: Files
    query: str
    tables: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def location(self) -> str:
        """Where it is."""
        return self.files.location

    @property
    def metadata(self) -> bytes:
        """The file that names the query: the new checkpoint is the same query's."""
        return self.files.get("metadata")

    def reader(self, plan: RewritePlan, spark: SparkSession) -> RowReader:
        """Spark's own state reader, and what is in pages read from these."""
        reader = StateReader(self.files, plan.old.batch, rewriting_session(spark, plan.old))
        return reader if plan.layout is None else reader_of(plan.layout.old, reader)

    def stored(self, plan: RewritePlan) -> Mapping[int, StoredOperator]:
        """Those whose files are where tasks reach them, in a form that they know."""
        found = {
            each.number: stored_operator(self.files, plan.old, each) for each in plan.old.operators
        }
        return {number: each for number, each in found.items() if each is not None}

    def kept(self, plan: RewritePlan) -> Mapping[int, Copies]:
        """Those in which nothing changes."""
        kept = kept_operators(plan, self.files)
        # Of one that was in pages, or is to be, other files are there than the plan's shapes say.
        laid_out = None if plan.layout is None else plan.layout.number
        return {number: each for number, each in kept.items() if number != laid_out}

    def beside(
        self, plan: RewritePlan, new: Files, spark: SparkSession
    ) -> Iterator[tuple[str, bytes]]:
        """The sources' logs, up to the offsets of the plan, and what statemigrate itself keeps.

        What a rewrite noted of the old checkpoint stays there; what is new of the record of stores
        is put in.
        """
        yield from kept_logs(plan, self.files, new)
        yield from taken_logs(plan, spark)
        own = own_files(self.files, plan.new.batch, is_last=True)
        noted = noted_stores(plan.scripts, plan.new.batch)
        layout = plan.layout
        for name in own.copied:
            is_left = layout is not None and name.startswith(layout.left)
            if not (_is_of_a_rewrite(name) or is_left or (noted and name == RECORD)):
                yield name, self.files.get(name, most=_LARGEST)
        yield from own.written.items()
        yield from layout.files.items() if layout is not None else ()
        if noted:
            yield RECORD, record_document({**read_record(self.files), **noted})
        # Under a name of the plan's: what is gone on with writes it again.
        place, unique = self.location, plan.fingerprint[:32]
        log = making(
            "rewrite", plan.new.batch, place, own.copied, plan.scripts, unique, self.details
        )
        yield from log.items()

    def confirm(self, plan: RewritePlan) -> None:
        """Raise `RewriteError` where the query has gone on meanwhile."""
        begun = CheckpointDirectory(self.files).last_begun()
        if begun != plan.old.batch:
            raise RewriteError(
                "SM-REWRITE-046",
                f"the query of {self.location} has gone on while its state was rewritten",
                expected=f"batch {plan.old.batch} as the last one, as when the rewrite began",
                found=f"batch {begun}",
                next_action="stop the query, and run the same command again; no checkpoint was "
                "published",
                path=self.location,
            )


def _is_of_a_rewrite(name: str) -> bool:
    """Whether a file says of the old checkpoint alone how it was made, and whether to the end."""
    return name in (REPORT, RESTORED) or is_written_name(name)
