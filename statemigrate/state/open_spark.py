"""Opening Spark's own state: variables, pages, envelopes, and what its own operators keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from statemigrate.checkpoint.logs.entries import read_entry
from statemigrate.checkpoint.operators.catalogue import OperatorStore, operator_stores
from statemigrate.checkpoint.shape import describe
from statemigrate.deployment import (
    Kind,
    StoredFamily,
    StoredStore,
    applied_scripts,
    complement_of,
    store_of,
)
from statemigrate.families import Span
from statemigrate.files import Files
from statemigrate.files.cached import Remembered
from statemigrate.migration import Lineage
from statemigrate.native.deployment_check import StoreRecord, read_record
from statemigrate.native.listing import check_listed
from statemigrate.native.older_families import lineage_of
from statemigrate.native.operators import name_in, several
from statemigrate.native.startup import stored_envelopes
from statemigrate.native.startup_stored import read_stores
from statemigrate.pages.record import large_of, variable_of
from statemigrate.pages.startup import record_of
from statemigrate.state.envelopes import EnvelopesOf, revisions_of
from statemigrate.state.page_entries import EntryRows, PageFiles, StoredPages
from statemigrate.state.project import Project
from statemigrate.state.rows import UserRows
from statemigrate.state.spark import CombinedState, OperatorState, SparkState
from statemigrate.state.spark_operators import EnvelopeValues, OperatorRows, StructValues
from statemigrate.state.stored_checkpoint import StoredCheckpoint

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
        _check_alone(reader, project.operator, lineages)
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


# The committed state of a paged query: entries, whichever page they are in.


class Pages:
    """See `statemigrate.state.spark.OperatorState`: what the pages of a checkpoint hold.

    ``reader`` reads the last committed ``batch``. Raises as `record_of`.
    """

    def __init__(
        self, reader: StoredCheckpoint, batch: int, lineages: Mapping[str, Lineage]
    ) -> None:
        self._lineages = lineages
        variables = reader.variables()
        self.operator = name_in(variables)
        """The name of the operator, empty where it has none."""
        # Spark's own state has nothing any more that had expired when its last batch began.
        begun = read_entry(reader.files, batch).timestamp
        large = large_of(self.operator)
        self._record = record_of(reader)
        self._files = PageFiles(
            StoredPages(self._record, reader.path, begun),
            reader.rows(variable_of(self.operator)),
            reader.rows(large) if large in variables else None,
        )

    def key_of(self, store: str) -> StructType:  # noqa: ARG002 - all are grouped by one key
        """See `OperatorState`."""
        return self._files.pages.key

    @cached_property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `OperatorState`: every family that the last deployment read or wrote."""
        stores = self._record.stores.items()
        return {name: self._as_applied(each, self._lineages.get(name)) for name, each in stores}

    def rows(self, family: StoredFamily) -> EntryRows | None:
        """See `OperatorState`: None for one that no deployment has had."""
        for store in self.stores.values():
            if any(each.name == family.name for each in store.families):
                return EntryRows(self._files, store, family)
            if store.complement is not None and store.complement.name == family.name:
                # A list has one complement for all of its elements.
                kind: Kind = "map" if store.kind == "map" else "value"
                return EntryRows(self._files, replace(store, kind=kind), family)
        return None

    def value_of(self, family: StoredFamily) -> EnvelopeValues:
        """See `OperatorState`."""
        return EnvelopeValues(family.format)

    def _as_applied(self, store: StoredStore, lineage: Lineage | None) -> StoredStore:
        """The store, whose scripts were applied where values came of them.

        Only where a script is another now all pages are counted to know that.
        """
        if lineage is None:
            return store
        if all(
            each.was_applied_as(store.applied.get(each.revision, each.checksum))
            for each in lineage.migrations
        ):
            return store
        held = [each for each in store.families if each.name in self.counts]
        return replace(store, applied=applied_scripts(lineage, held, store.applied))

    @cached_property
    def counts(self) -> Mapping[str, Mapping[int, int]]:
        """By family with a value, how many there are in each partition of Spark's."""
        found: dict[str, dict[int, int]] = {}
        for name, partition, count, _ in self._counted:
            found.setdefault(name, {})[partition] = count
        return found

    def pages_with(self, families: Sequence[str]) -> int:
        """See `State`: a page with several of the families counts with each."""
        found = sum(pages for name, _, _, pages in self._counted if name in families)
        return min(found, self._record.pages)

    @cached_property
    def _counted(self) -> list[tuple[str, int, int, int]]:
        """Family, partition, values and pages."""
        families = [
            (family, store.kind == "list")
            for store in self._record.stores.values()
            for family in store.families
        ]
        pages, found = self._files.pages, list[tuple[str, int, int, int]]()
        for partition in range(self._files.stored.partitions):
            values, with_it = dict.fromkeys(families, 0), dict.fromkeys(families, 0)
            for page in self._files.opened(partition):
                for each in families:
                    # Opened also where its number is enough: so it is seen that it is whole.
                    entries = pages.entries(page, each[0], Span(), is_list=each[1])
                    values[each] += len(entries)
                    with_it[each] += bool(entries)
            found += [
                (each[0].name, partition, values[each], with_it[each])
                for each in families
                if values[each]
            ]
        return sorted(found)


class PagedState(SparkState):
    """See `statemigrate.state.protocol.State`; as of ``batch``, the last committed one.

    ``operator_state`` has, next to the ``pages``, the state of other operators of the query.
    """

    engine = "paged"
    target_is_deployed = keeps_control_source = True

    def __init__(
        self,
        checkpoint: str,
        files: Files,
        batch: int,
        pages: Pages,
        operator_state: OperatorState,
        operator_stores: Iterable[str] = (),
    ) -> None:
        super().__init__(checkpoint, files, batch, operator_state, operator_stores)
        self._pages = pages
        self.operator = pages.operator

    def counts(self, store: str, *, but: str = "") -> Mapping[str, Mapping[int, int]]:
        """See `State`: all families of pages are counted with the first."""
        if store in self.operator_stores:
            return super().counts(store, but=but)
        wanted = [each.name for each in self.stores[store].families if each.name != but]
        return {name: self._pages.counts.get(name, {}) for name in wanted}

    def pages_with(self, families: Sequence[str]) -> int | None:
        """See `State`."""
        return self._pages.pages_with(families)


# State variables of ``transformWithState``, as of one committed batch.


class Variables:
    """See `statemigrate.state.spark.Kept`; ``reader`` reads the last committed ``batch``."""

    def __init__(
        self,
        reader: StoredCheckpoint,
        batch: int,
        lineages: Mapping[str, Lineage],
        operator: int | None = None,
    ) -> None:
        self._reader = reader
        self._batch = batch
        self._lineages = lineages
        self._operator = operator
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
        """See `Kept`: None for one that Spark does not list, since it is still to be made.

        Raises `CheckpointError` where it may have been made without being listed.
        """
        variable = self._variables.get(family.name)
        if variable is None:
            check_listed(self._reader.files, self._batch, family.name, self._operator)
            return None
        return self._reader.rows(variable.name)

    def value_of(self, family: StoredFamily) -> StructValues:
        """See `Kept`."""
        return StructValues(family.format)


# What a function of ``applyInPandasWithState`` keeps, one envelope a key, as of one batch.


class Envelopes:
    """See `statemigrate.state.spark.Kept`; a family is the envelopes of its revision."""

    def __init__(
        self,
        checkpoint: str,
        envelopes: UserRows,
        lineages: Mapping[str, Lineage],
        wanted: Mapping[str, str],
    ) -> None:
        self._checkpoint = checkpoint
        self._envelopes = envelopes
        self._revisions = sorted(revisions_of(envelopes))
        self._lineage = lineage_of(checkpoint, self._revisions, lineages, wanted)

    def key_of(self, store: str) -> StructType:  # noqa: ARG002 - all are grouped by one key
        """See `Kept`."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(self._envelopes.key)

    @cached_property
    def stores(self) -> Mapping[str, StoredStore]:
        """See `Kept`."""
        store = self._lineage.store
        known = read_record(self._checkpoint).get(store, StoreRecord())
        stored = stored_envelopes(self._lineage, self._revisions, known)
        return {store: stored.led_by(known.target, self._lineage)}

    def rows(self, family: StoredFamily) -> EnvelopesOf:
        """See `Kept`."""
        return EnvelopesOf(self._envelopes, family.revision)

    def value_of(self, family: StoredFamily) -> EnvelopeValues:
        """See `Kept`."""
        return EnvelopeValues(family.format)
