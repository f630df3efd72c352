"""Opening Spark's own state: variables, pages, envelopes, and what its own operators keep."""

from __future__ import annotations

from collections.abc import Mapping

from statemigrate.checkpoint.operators.catalogue import OperatorStore, operator_stores
from statemigrate.checkpoint.shape import describe
from statemigrate.deployment import store_of
from statemigrate.files.cached import Remembered
from statemigrate.migration import Lineage
from statemigrate.native.checkpoint import several
from statemigrate.state.project import Project
from statemigrate.state.spark import CombinedState, OperatorState, SparkState
from statemigrate.state.spark_operators import OperatorRows
from statemigrate.state.spark_variables import Envelopes, Variables
from statemigrate.state.stored_checkpoint import StoredCheckpoint


def open_spark_state(
    checkpoint: str,
    lineages: Mapping[str, Lineage],
    project: Project,
    files: Remembered,
) -> SparkState:
    """The state as of the last committed batch; see `statemigrate.state.open.open_state`."""
    newest = StoredCheckpoint(checkpoint, operator=project.operator, files=files)
    batch = newest.committed_batch()
    reader = newest.at(batch)
    found = _operator_stores(reader, batch, project)
    operators = OperatorRows(reader, found, lineages)
    if reader.is_paged:
        _check_alone(reader, project.operator, lineages)
        from statemigrate.state.pages import PagedState, Pages

        pages = Pages(reader, batch, lineages)
        return PagedState(checkpoint, files, batch, pages, CombinedState(pages, operators), found)
    main = _main(reader, batch, lineages, project, is_needed=not found)
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
    batch: int,
    lineages: Mapping[str, Lineage],
    project: Project,
    *,
    is_needed: bool,
) -> OperatorState | None:
    """State variables, or envelopes; what is wrong with them where the query has neither."""
    envelopes, operator = reader.envelope_rows(), project.operator
    if envelopes is not None:
        return Envelopes(reader.path, envelopes, lineages, project.targets)
    fitting = [each for each in reader.operators() if operator in (None, each.id)]
    if is_needed or any(each.is_processor for each in fitting):
        number = operator if isinstance(operator, int) else None
        return Variables(reader, batch, lineages, number)
    return None
