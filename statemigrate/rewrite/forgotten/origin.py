"""A checkpoint with its forgotten families as what a new checkpoint is made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.shapes import CheckpointShape
from statemigrate.files import Files
from statemigrate.native.seen.record import RECORD, StoreRecord, read_record, record_document
from statemigrate.rewrite.forgotten.document import restored_data
from statemigrate.rewrite.forgotten.rows import FamilyRows, ForgottenRows, RestoringReader
from statemigrate.rewrite.plan.plan import RewritePlan
from statemigrate.rewrite.rows.reading import RowReader, StateReader
from statemigrate.rewrite.run.keeping import Copies
from statemigrate.rewrite.run.origin import RESTORED, OldCheckpoint
from statemigrate.rewrite.stored.state import StoredOperator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class RestoredCheckpoint(OldCheckpoint):
    """The old checkpoint, whose operator has the families of ``forgotten`` again.

    ``found`` is what was found of each.
    """

    forgotten: ForgottenRows | None = None
    found: Sequence[FamilyRows] = ()

    def reader(self, plan: RewritePlan, spark: SparkSession) -> RowReader:  # noqa: ARG002 - an Origin's
        """The newest state, with what comes back."""
        assert self.forgotten is not None, "given"  # noqa: S101
        newest = StateReader(self.files, plan.old.batch, self.forgotten.session)
        return RestoringReader(newest, self.forgotten)

    def stored(self, plan: RewritePlan) -> Mapping[int, StoredOperator]:
        """Those of other operators."""
        return self._others(super().stored(plan))

    def kept(self, plan: RewritePlan) -> Mapping[int, Copies]:
        """Those of other operators, as they are."""
        return self._others(super().kept(plan))

    def beside(
        self, plan: RewritePlan, new: Files, spark: SparkSession
    ) -> Iterator[tuple[str, bytes]]:
        """As of a rewrite; the record of stores says that the families are live."""
        for name, data in super().beside(plan, new, spark):
            if name != RECORD:
                yield name, data
        record = read_record(self.files)
        names = {each.source.forgotten.store for each in self.found}
        back = {
            store: self._record(store, each, plan.new.batch)
            for store, each in record.items()
            if store in names
        }
        if record:
            yield RECORD, record_document({**record, **back})
        yield RESTORED, restored_data([each.noted for each in self.found])

    def _record(self, store: str, record: StoreRecord, batch: int) -> StoreRecord:
        own = [each.source.name for each in self.found if each.source.forgotten.store == store]
        families = tuple(dict.fromkeys([*record.families, *own]))
        return replace(record, families=families, batch=batch, begun=())

    def _others(self, found: Mapping[int, Any]) -> dict[int, Any]:
        assert self.forgotten is not None, "given"  # noqa: S101
        mine = self.forgotten.sources.operator.number
        return {number: each for number, each in found.items() if number != mine}


def with_forgotten(shape: CheckpointShape, forgotten: ForgottenRows) -> CheckpointShape:
    """The checkpoint's shape with the families that were forgotten."""
    whole = forgotten.sources.operator
    operators = tuple(whole if each.number == whole.number else each for each in shape.operators)
    return replace(shape, operators=operators)
