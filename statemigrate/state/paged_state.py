"""The committed state of a query on pages: entries, whichever page they are in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from statemigrate.checkpoint.logs import read_entry
from statemigrate.deployment import StoredFamily, StoredStore, applied_scripts
from statemigrate.families import Span
from statemigrate.files import Files
from statemigrate.migration import Lineage
from statemigrate.native import name_in
from statemigrate.pages import large_of, record_of, variable_of
from statemigrate.state.page_entries import EntryRows, PageFiles, StoredPages
from statemigrate.state.spark import OperatorState, SparkState
from statemigrate.state.spark_operators import EnvelopeValues
from statemigrate.state.stored_checkpoint import StoredCheckpoint

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


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
                kind = store.variable_kind.complement
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
            (family, store.variable_kind.has_several_values)
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
