"""The stores of the embedded engine as tables."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import cached_property

from statemigrate.embedded import Layout, retained_versions
from statemigrate.files import files_to_read
from statemigrate.formats import NamedColumn, columns_in
from statemigrate.state.embedded import EmbeddedState
from statemigrate.state.plain_rows import EmbeddedRows
from statemigrate.state.project import Project
from statemigrate.state.table_stores import StoreRows, joined_parts


class EmbeddedCatalog:
    """See `statemigrate.state.table_stores.Catalog`."""

    internal: tuple[str, ...] = ()

    def __init__(self, checkpoint: str, project: Project, batch: int | None) -> None:
        self._checkpoint, self._project = checkpoint, project
        self.state = EmbeddedState(checkpoint, batch)
        # Its files are linked into a directory of the reader's own, which goes with the tables.
        self._finalizer = weakref.finalize(self, self.state.close)

    @property
    def batch(self) -> int:
        """See `Catalog`."""
        return self.state.batch

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """See `Catalog`."""
        layout = Layout.over(files_to_read(self._checkpoint))
        newest = EmbeddedState(self._checkpoint)
        try:
            return tuple(each for each in retained_versions(layout) if each <= newest.batch)
        finally:
            newest.close()

    @property
    def stores(self) -> tuple[str, ...]:
        """See `Catalog`."""
        return tuple(self.state.stores)

    @property
    def names(self) -> frozenset[str]:
        """See `Catalog`."""
        return frozenset(self.stores)

    def close(self) -> None:
        """See `Catalog`."""
        self._finalizer()

    def fields(self) -> Iterator[NamedColumn]:
        """See `Catalog`."""
        for name, stored in self.state.stores.items():
            yield from columns_in(self.state.committed.manifest.key_schema, name)
            yield from columns_in(stored.user_key, name)
            for family in stored.families:
                yield from columns_in(family.format.struct_type().jsonValue(), name)

    def rows(self, name: str) -> StoreRows:
        """See `Catalog`."""
        stored = self.state.stores[name]
        survey = self._project.survey
        if survey is not None:
            survey.require(name)
        lineage = survey.lineages.get(name) if survey else None
        parts = [
            (EmbeddedRows(self.state, stored, each), each.revision, each.format)
            for each in stored.families
        ]
        return joined_parts(name, parts, lineage, self._project, self._checkpoint)
