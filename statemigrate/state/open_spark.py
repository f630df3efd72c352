"""Opening Spark's own state: variables, pages, envelopes, and what its own operators keep."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from statemigrate.checkpoint import describe
from statemigrate.checkpoint.operators import OperatorStore, operator_stores
from statemigrate.deployment import (
    StoredFamily,
    StoredStore,
    complement_of,
    store_of,
)
from statemigrate.files import Remembered
from statemigrate.migration import Lineage
from statemigrate.native import StoreRecord, read_record, read_stores, several
from statemigrate.state.project import Project
from statemigrate.state.spark import CombinedState, OperatorState, SparkState
from statemigrate.state.spark_operators import OperatorRows, StructValues
from statemigrate.state.stored_checkpoint import StoredCheckpoint
from statemigrate.state.user_rows import UserRows

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def open_spark_state(
    checkpoint: str,
    lineages: Mapping[str, Lineage],
    project: Project,
    files: Remembered,
    batch: int | None = None,
) -> SparkState:
    """The state of a committed batch, the last one by default; see `open_committed`."""
    newest = StoredCheckpoint(checkpoint, operator=project.operator, files=files)
    if batch is None:
        batch = newest.committed_batch()
    reader = newest.at(batch)
    found = _operator_stores(reader, batch, project)
    operators = OperatorRows(reader, found, lineages)
    if reader.is_paged:
        # Loaded where it is needed: a look at other state begins sooner without.
        from statemigrate.state.paged_state import PagedState, Pages

        _check_alone(reader, project.operator, lineages)
        pages = Pages(reader, batch, lineages)
        return PagedState(checkpoint, files, batch, pages, CombinedState(pages, operators), found)
    main = _main(reader, lineages, project, is_needed=not found)
    operator_state: OperatorState = (
        operators if main is None else CombinedState(main, operators) if found else main
    )
    return SparkState(checkpoint, files, batch, operator_state, found)


def _check_alone(
    reader: StoredCheckpoint, operator: int | str | None, lineages: Mapping[str, Lineage]
) -> None:
    """Raise `CheckpointError` where a processor without pages could be meant: it has scripts."""
    if operator is None:
        processors = [each for each in reader.operators() if each.is_processor]
        scripted = [
            each
            for each in processors
            if not each.is_paged and {*map(store_of, each.variables)} & lineages.keys()
        ]
        if scripted:
            raise several(reader.path, [each for each in processors if each.is_paged] + scripted)


def _operator_stores(
    reader: StoredCheckpoint, batch: int, project: Project
) -> Mapping[str, OperatorStore]:
    if all(each.is_processor for each in reader.operators()):
        return {}
    found = operator_stores(describe(reader.files, batch, restarts=False), project.stores)
    return {name: each for name, each in found.items() if project.operator in (None, each.number)}


def _main(
    reader: StoredCheckpoint,
    lineages: Mapping[str, Lineage],
    project: Project,
    *,
    is_needed: bool,
) -> OperatorState | None:
    """State variables, or envelopes; what is wrong with them where the query has neither."""
    envelopes, operator = reader.envelope_rows(), project.operator
    if envelopes is not None:
        from statemigrate.state.group_state import Envelopes

        return Envelopes(reader.path, envelopes, lineages, project.targets)
    fitting = [each for each in reader.operators() if operator in (None, each.id)]
    if is_needed or any(each.is_processor for each in fitting):
        return Variables(reader, lineages)
    return None


# State variables of ``transformWithState``, as of one committed batch.


class Variables:
    """See `statemigrate.state.spark.Kept`; ``reader`` reads a committed batch."""

    def __init__(self, reader: StoredCheckpoint, lineages: Mapping[str, Lineage]) -> None:
        self._reader = reader
        self._lineages = lineages
        self._variables = reader.variables()

    def key_of(self, store: str) -> StructType:  # noqa: ARG002 - all are grouped by one key
        """See `Kept`."""
        return self._reader.grouping_key()

    @cached_property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `Kept`."""
        record = read_record(self._reader.files)
        there = dict.fromkeys(map(store_of, self._variables))
        complements = {complement_of(store).name for store in there}
        names = [store for store in there if store not in complements]
        found = read_stores(self._reader, names, self._lineages, record).stores
        stores = {store: stored for store, each in found.items() if (stored := each.stored())}
        return {
            store: each.led_by(record.get(store, StoreRecord()).target, self._lineages.get(store))
            for store, each in stores.items()
        }

    def rows(self, family: StoredFamily) -> UserRows | None:
        """See `Kept`: None for one that no code has declared, since it is still to be made."""
        variable = self._variables.get(family.name)
        return None if variable is None else self._reader.rows(variable.name)

    def value_of(self, family: StoredFamily) -> StructValues:
        """See `Kept`."""
        return StructValues(family.format)
