"""The stores of Spark's own state as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from statemigrate.checkpoint import CheckpointDirectory, CommittedState
from statemigrate.checkpoint import OperatorFamily as SparkFamily
from statemigrate.checkpoint.logs import batches_in, names_in
from statemigrate.checkpoint.operators import (
    DEFAULT,
    OperatorShape,
    is_internal,
    kind_of,
    operator_stores,
    user_name,
)
from statemigrate.files import Remembered
from statemigrate.formats import Format, NamedColumn, columns_in
from statemigrate.state.envelopes import EnvelopesOf, revisions_of
from statemigrate.state.project import Project
from statemigrate.state.protocol import State
from statemigrate.state.table_stores import FamilyRows, StorePart, StoreRows, joined_parts
from statemigrate.state.user_rows import UserRows, is_variable

if TYPE_CHECKING:
    from statemigrate.migration import Lineage
    from statemigrate.native import StoreRecord
    from statemigrate.pages import PagesRecord


class SparkCatalog:
    """See `statemigrate.state.table_stores.Catalog`."""

    def __init__(self, files: Remembered, project: Project, batch: int | None) -> None:
        CheckpointDirectory(files).require_query()
        self._files, self._project = files, project
        self._state = CommittedState(files, batch)

    @property
    def batch(self) -> int:
        """See `Catalog`."""
        return self._state.batch

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """See `Catalog`."""
        begun = set(batches_in(names_in(self._files, "offsets")))
        return tuple(sorted(begun & set(batches_in(names_in(self._files, "commits")))))

    @property
    def stores(self) -> tuple[str, ...]:
        """See `Catalog`."""
        return tuple(self._stores)

    @property
    def internal(self) -> tuple[str, ...]:
        """See `Catalog`."""
        return tuple(self._internal)

    @property
    def names(self) -> frozenset[str]:
        """See `Catalog`."""
        return frozenset({*self._stores, *self._internal})

    @cached_property
    def state(self) -> State:
        """See `Catalog`."""
        from statemigrate.state.open_spark import open_spark_state

        return open_spark_state(
            self.location, self._lineages, self._project, self._files, batch=self.batch
        )

    def close(self) -> None:
        """See `Catalog`: there is nothing."""

    def fields(self) -> Iterator[NamedColumn]:
        """See `Catalog`: of every operator, whichever the project names."""
        from statemigrate.deployment import store_of

        own = {store: name for name, store in self._project.stores.items()}
        for each in self._state.families:
            family = each.family
            name = user_name(each.operator, each.store.name, family.name) or each.store.name
            place = store_of(name)
            for known in (place, *([own[place]] if place in own else [])):
                yield from columns_in(family.key, known)
                yield from columns_in(family.user_key, known)
                yield from columns_in(family.value, known)

    def rows(self, name: str) -> StoreRows:
        """See `Catalog`."""
        if name in self._internal:
            return _unmigrated(self._internal[name])
        return self._stores[name].rows()

    @cached_property
    def _families(self) -> tuple[SparkFamily, ...]:
        operator = self._project.operator
        return tuple(
            each
            for each in self._state.families
            if not isinstance(operator, int) or each.operator.number == operator
        )

    @cached_property
    def _internal(self) -> dict[str, UserRows]:
        found: dict[str, UserRows] = {}
        for each in self._families:
            operator, store, family = each.operator, each.store.name, each.family.name
            is_empty = family == DEFAULT and each.store.has_families
            is_shown = user_name(operator, store, family) is not None
            if not is_empty and (not is_shown or _is_marker(each)):
                own = family if family != DEFAULT else store
                found[f"{kind_of(operator.name).word}-{operator.number}.{own}"] = UserRows(each)
        return found

    @cached_property
    def _stores(self) -> dict[str, _SparkStore]:
        found: dict[str, _SparkStore] = {}
        by_operator: dict[int, list[SparkFamily]] = {}
        for each in self._families:
            by_operator.setdefault(each.operator.number, []).append(each)
        owners: dict[str, list[int]] = {}
        for number, families in by_operator.items():
            for store in self._of_operator(families):
                owners.setdefault(store.name, []).append(number)
                found[f"{number}.{store.name}"] = store
        # The operator's number distinguishes a name that two operators have.
        return {
            name if len(owners[name]) == 1 else f"operator-{number}.{name}": store
            for key, store in found.items()
            for number, _, name in [key.partition(".")]
        }

    def _of_operator(self, families: list[SparkFamily]) -> Iterator[_SparkStore]:
        operator = self._project.operator
        if is_variable(families[0]):
            from statemigrate.native import is_pages, name_in

            named = {each.family.name: each for each in families}
            if isinstance(operator, str) and operator != name_in(named):
                return
            if any(map(is_pages, named)):
                yield from self._of_pages(named)
            yield from self._of_variables(named)
            return
        if isinstance(operator, str):
            return
        lineages = self._lineages
        own = {store: name for name, store in self._project.stores.items()}
        known = {
            (each.number, each.store.name, each.family.name): name
            for name, each in operator_stores(self._state.shape, self._project.stores).items()
        }
        for each in families:
            name = known.get((each.operator.number, each.store.name, each.family.name))
            if name is not None:
                yield _OperatorStore(name, self, each)
            elif kind_of(each.operator.name).has_function:
                raw = str(user_name(each.operator, each.store.name, each.family.name))
                lineage = self._envelope_lineage(each) if lineages else None
                if lineage is None:
                    yield _OperatorStore(own.get(raw, raw), self, each, is_envelope=True)
                else:
                    yield _Envelopes(lineage.store, self, each, lineage)

    def _of_variables(self, named: Mapping[str, SparkFamily]) -> Iterator[_SparkStore]:
        from statemigrate.deployment import store_of

        kept = [
            name
            for name, each in named.items()
            if name != DEFAULT and not is_internal(name) and not _is_marker(each)
        ]
        for store in dict.fromkeys(map(store_of, kept)):
            families = tuple(named[name] for name in kept if store_of(name) == store)
            yield _Variables(store, self, families)

    def _of_pages(self, named: Mapping[str, SparkFamily]) -> Iterator[_SparkStore]:
        from statemigrate.native import name_in
        from statemigrate.pages import large_of, read_pages_record, record_name, variable_of

        operator = name_in(named)
        record = read_pages_record(self._files, record_name(operator))
        at = record and (record.at(self.batch) or record)
        if at is None:
            return
        pages = named[variable_of(operator)]
        large = named.get(large_of(operator))
        for store in at.stores:
            yield _Paged(store, self, pages, large, at)

    def _envelope_lineage(self, family: SparkFamily) -> Lineage | None:
        from statemigrate.migration import lineage_with

        revisions = revisions_of(UserRows(family))
        return lineage_with(revisions, self._lineages, self._project.targets)

    @cached_property
    def _lineages(self) -> Mapping[str, Lineage]:
        survey = self._project.survey
        return dict(survey.lineages) if survey else {}

    def lineage_of(self, store: str) -> Lineage | None:
        """The scripts of a store. Raises `ScriptError` for broken ones."""
        survey = self._project.survey
        if survey is not None:
            survey.require(store)
        return self._lineages.get(store)

    def check_listed(self, operator: OperatorShape, store: str) -> None:
        """Raise `CheckpointError` if a store has values that Spark does not list."""
        from statemigrate.native import hidden_families

        for error in hidden_families(self._files, self._state.shape, operator, store):
            raise error

    @cached_property
    def record(self) -> Mapping[str, StoreRecord]:
        """What the last deployment noted of each store."""
        from statemigrate.native import read_record

        return read_record(self._files)

    @property
    def project(self) -> Project:
        """The settings of the command."""
        return self._project

    @property
    def location(self) -> str:
        """Where the checkpoint is."""
        return self._files.location

    @cached_property
    def begun(self) -> int:
        """When the batch began, in milliseconds since 1970."""
        return self._state.shape.offsets[self.batch].timestamp


@dataclass(frozen=True)
class _SparkStore:
    name: str
    catalog: SparkCatalog

    def rows(self) -> StoreRows:
        """All rows of the store."""
        raise NotImplementedError

    def _joined(self, parts: Sequence[tuple[FamilyRows, str, Format]]) -> StoreRows:
        catalog = self.catalog
        lineage = catalog.lineage_of(self.name)
        return joined_parts(self.name, parts, lineage, catalog.project, catalog.location)


def _unmigrated(rows: FamilyRows) -> StoreRows:
    from statemigrate.migration import BASE

    return StoreRows((StorePart(rows, BASE),), rows.value)


@dataclass(frozen=True)
class _OperatorStore(_SparkStore):
    """The state of one of Spark's own operators, or what a function keeps."""

    family: SparkFamily
    is_envelope: bool = False

    def rows(self) -> StoreRows:
        rows = UserRows(self.family)
        lineage = None if self.is_envelope else self.catalog.lineage_of(self.name)
        if lineage is None:
            return _unmigrated(rows)
        from statemigrate.formats import struct_from_json
        from statemigrate.native import StoreRecord
        from statemigrate.state.spark_operators import stored_revision

        record = self.catalog.record.get(self.name, StoreRecord())
        fmt = struct_from_json(rows.value)
        revision = stored_revision(lineage, fmt, struct_from_json(rows.key), record)
        return self._joined([(rows, revision, lineage.format_of(revision))])


@dataclass(frozen=True)
class _Variables(_SparkStore):
    """The families of a store in variables of ``transformWithState``."""

    families: tuple[SparkFamily, ...]

    def rows(self) -> StoreRows:
        from statemigrate.deployment import revision_in
        from statemigrate.migration import BASE

        self.catalog.check_listed(self.families[0].operator, self.name)
        lineage = self.catalog.lineage_of(self.name)
        oldest = BASE if lineage is None else lineage.oldest
        parts = []
        for each in self.families:
            rows = UserRows(each)
            revision = revision_in(each.family.name) or oldest
            parts.append((rows, revision, _format_of(rows, lineage, revision)))
        return self._joined(parts)


@dataclass(frozen=True)
class _Envelopes(_SparkStore):
    """The envelopes of a function, of every revision that the scripts have."""

    family: SparkFamily
    lineage: Lineage

    def rows(self) -> StoreRows:
        from statemigrate.state.plain_rows import EnvelopeRows

        rows = UserRows(self.family)
        found = revisions_of(rows) or {self.lineage.oldest}
        formats = {each: self.lineage.format_of(each) for each in sorted(found)}
        return self._joined(
            [
                (EnvelopeRows(EnvelopesOf(rows, revision), fmt), revision, fmt)
                for revision, fmt in formats.items()
            ]
        )


@dataclass(frozen=True)
class _Paged(_SparkStore):
    """A store in pages."""

    pages: SparkFamily
    large: SparkFamily | None
    record: PagesRecord

    def rows(self) -> StoreRows:
        from statemigrate.state.page_entries import EntryRows, PageFiles, StoredPages
        from statemigrate.state.plain_rows import PageRows

        stored = self.record.stores[self.name]
        pages = StoredPages(self.record, self.catalog.location, self.catalog.begun)
        large = None if self.large is None else UserRows(self.large)
        files = PageFiles(pages, UserRows(self.pages), large)
        return self._joined(
            [
                (PageRows(EntryRows(files, stored, each)), each.revision, each.format)
                for each in stored.families
            ]
        )


def _is_marker(family: SparkFamily) -> bool:
    """Whether a variable tells of pages, or has them, and so is none of a user's."""
    if not is_variable(family):
        return False
    from statemigrate.pages import is_marker

    return is_marker(family.family.name)


def _format_of(rows: UserRows, lineage: Lineage | None, revision: str) -> Format:
    """The format of a family: the script's where it has the same values, else the stored one."""
    if lineage is not None and revision in lineage:
        return lineage.format_of(revision)
    from statemigrate.formats import struct_from_json

    return struct_from_json(rows.value)
