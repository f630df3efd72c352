"""What travels to the workers with a paged processor, compared wherever it arrives (rule 14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from statemigrate.deployment import Settings, StorePlan
from statemigrate.errors import StartupError
from statemigrate.logbook.noting import Note
from statemigrate.logbook.standing import Facts, Standing
from statemigrate.native.backfill.chunk_files import ChunkFiles
from statemigrate.native.live.counts import MigrationCounts
from statemigrate.native.seen.comparing import is_planning
from statemigrate.native.seen.seen import Seen
from statemigrate.pages.live.handle import TimeMode
from statemigrate.pages.record import PagesRecord, read_record, record_document, record_name

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class PagedDeployment:
    """A processor's deployment on pages.

    ``key`` is the type of the grouping key, whose columns are at ``key_columns`` in the stream, and
    ``record`` what is left in the checkpoint when the query starts, ``note`` what the log is told.
    ``before`` names the deployment whose record was there at the check, None where there was none;
    ``operator`` is the name that `paged` was given for it, empty if none.
    """

    key: StructType
    key_columns: tuple[int, ...]
    output: StructType
    plans: Mapping[str, StorePlan]
    settings: Settings
    seen: Seen
    record: PagesRecord
    note: Note
    before: str | None = None
    time_mode: TimeMode = "none"
    counts: MigrationCounts | None = None
    operator: str = ""

    @property
    def pages(self) -> int:
        """How many pages the query has."""
        return self.record.pages

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, tuple(getattr(self, each.name) for each in fields(self))

    def begin_run(self) -> None:
        """Before a run plans its first batch: compare, begin an epoch, and leave the record.

        Raises `StartupError` where the check is not good for the query that runs there by now, and
        `CheckpointInUseError` where another driver begins at the same moment.
        """
        committed = self.seen.compare_at_start()
        name = record_name(self.operator)
        left = read_record(self.seen.files, name)
        # Batches of this very deployment wrote to nothing that it does not read.
        is_mine = committed > self.seen.batch and left is not None and self._is_mine(left)
        if committed != self.seen.batch and not is_mine:
            raise self.seen.outdated(committed)
        if left is not None and not self._is_mine(left) and left.deployment != self.before:
            raise self._second()
        leave = self.seen.begin_epoch(name, record_document(self.record))
        stores = {} if left is None else left.stores
        facts = {store: Standing.of_stored(each) for store, each in stores.items()}
        self.note.start(self.seen.files, committed + 1, Facts(facts, committed, committed + 1))
        ChunkFiles(self.seen.files, self.operator).create()
        leave()

    def _second(self) -> StartupError:
        """Its record would replace another's, and no later start could tell the two apart."""
        mine = f"`paged(operator={self.operator!r})`" if self.operator else "`paged`"
        return StartupError(
            "SM-PAGES-005",
            f"another {mine} has begun with the checkpoint {self.seen.checkpoint} since this one "
            "was called",
            expected="one `paged` with this operator= in a query, and one without any",
            found="a second of the same query, or a start of other code",
            next_action="give each `paged` of the query a name of its own, operator='...', which "
            "it keeps for good; where there is only one, call it anew right before the query "
            "starts; nothing of this batch was written",
            path=self.seen.checkpoint,
            operator=self.operator,
        )

    def _is_mine(self, left: PagesRecord) -> bool:
        return left.deployment == self.seen.deployment


def _arrived(*values: Any) -> PagedDeployment:
    deployment = PagedDeployment(*values)
    if is_planning():
        deployment.begin_run()
    return deployment
