"""What a checkpoint of Spark's own state holds of each store, as the start-up check needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from statemigrate.deployment import (
    Declared,
    Holds,
    Settings,
    StoredFamily,
    StoredStore,
    is_family_of,
)
from statemigrate.errors import StartupError
from statemigrate.formats import Format, Struct
from statemigrate.formats.shape import shape_of
from statemigrate.migration import Lineage
from statemigrate.native.checkpoint import SparkCheckpoint
from statemigrate.native.operators import Variable
from statemigrate.native.record import StoreRecord


@dataclass(frozen=True)
class CommittedState:
    """The stores as of the last committed batch, and the names of Spark's variables.

    A family may be in ``stores`` and not among the variables: Spark lists those a batch was planned
    with, and a batch that was killed and run again by newer code has variables it does not list.
    """

    batch: int
    stores: Mapping[str, StoredStore]
    variables: frozenset[str]


def committed_state(
    checkpoint: SparkCheckpoint,
    declared: Sequence[Declared],
    lineages: Mapping[str, Lineage],
    record: Mapping[str, StoreRecord],
    settings: Settings,
) -> CommittedState:
    """Read it; empty before the first batch.

    Raises `StartupError` where code without statemigrate ran in between, or where the code and the
    state differ in time to live.
    """
    batch = checkpoint.last_batch()
    if batch is None:
        return CommittedState(-1, {}, frozenset())
    reading = _Reading(checkpoint, batch, settings)
    found = {
        each.store: reading.store(each, lineages[each.store], record.get(each.store, StoreRecord()))
        for each in declared
        if each.store in lineages
    }
    stores = {store: each for store, each in found.items() if each is not None}
    return CommittedState(batch, stores, frozenset(reading.variables))


class _Reading:
    def __init__(self, checkpoint: SparkCheckpoint, batch: int, settings: Settings) -> None:
        self._checkpoint = checkpoint
        self._batch = batch
        self._settings = settings
        self.variables = checkpoint.variables()

    def store(
        self, declared: Declared, lineage: Lineage, record: StoreRecord
    ) -> StoredStore | None:
        store = declared.store
        listed = [each for name, each in self.variables.items() if is_family_of(store, name)]
        if not listed:
            return None
        self._check_forgotten(store, record)
        for each in listed:
            _check_expiry(declared, each)
        families = tuple(self._family(lineage, each) for each in listed)
        return StoredStore(
            listed[0].kind,
            (*families, *self._unlisted(lineage, record)),
            applied_scripts(lineage, families, record),
            self._checkpoint.user_key(listed[0], declared.user_key),
        )

    def _family(self, lineage: Lineage, variable: Variable) -> StoredFamily:
        revision = _revision(lineage, variable.name)
        schema = self._checkpoint.value_schema(variable)
        fmt: Format = Struct(schema)
        if revision in lineage:
            scripted = lineage.format_of(revision)
            # Spark stores a struct whatever the script's format is; what counts is what it holds.
            fmt = scripted if shape_of(scripted.struct_type()) == shape_of(schema) else fmt
        holds: Holds = "nothing" if self._checkpoint.is_empty(variable.name) else "something"
        return StoredFamily(variable.name, revision, fmt, holds)

    def _unlisted(self, lineage: Lineage, record: StoreRecord) -> list[StoredFamily]:
        """Families that the last deployment may have made, read in case it did."""
        names = [name for name in record.families if name not in self.variables]
        revisions = {
            name: _revision(lineage, name)
            for name in names
            if name not in self._settings.accept_edited
        }
        return [
            StoredFamily(name, revision, lineage.format_of(revision))
            for name, revision in revisions.items()
            if revision in lineage
        ]

    def _check_forgotten(self, store: str, record: StoreRecord) -> None:
        """Code without statemigrate ran in between: what it wrote and left cannot be told."""
        missing = [
            name
            for name in record.families
            if name not in self.variables and name not in self._settings.accept_edited
        ]
        if not missing or record.batch == self._batch:
            return
        # A deployment that never committed a batch leaves its own new family in the record alone.
        then = self._checkpoint.variables(max(record.batch + 1, self._checkpoint.first_batch()))
        forgotten = [name for name in missing if name in then]
        if forgotten:
            raise _forgotten(store, forgotten, record, self.variables)


def _revision(lineage: Lineage, name: str) -> str:
    return name.partition("@")[2] or lineage.oldest


def applied_scripts(
    lineage: Lineage, families: Sequence[StoredFamily], record: StoreRecord
) -> dict[str, str]:
    """The checksums of the scripts that led to the newest family."""
    newest = max(
        (lineage.position(each.revision) for each in families if each.revision in lineage),
        default=-1,
    )
    return {
        each.revision: record.applied.get(each.revision, each.checksum)
        for each in lineage.migrations
        if lineage.position(each.revision) <= newest
    }


def _check_expiry(declared: Declared, variable: Variable) -> None:
    if variable.expires != (declared.ttl is not None):
        states = {True: "values expire", False: "values do not expire"}
        raise StartupError(
            f"store {declared.store}: the code and the state differ in time to live",
            expected=f"{states[variable.expires]}, as in family {variable.name}",
            found=states[declared.ttl is not None],
            next_action="declare the variable with ttlDurationMs exactly if it had one; Spark "
            "cannot change that for a variable that exists",
            store=declared.store,
        )


def _forgotten(
    store: str, names: list[str], record: StoreRecord, variables: Mapping[str, Variable]
) -> StartupError:
    return StartupError(
        f"store {store}: code that does not know the family {', '.join(names)} ran on this "
        "checkpoint",
        expected=f"the families {', '.join(record.families)}, as the last deployment left them",
        found=f"{', '.join(sorted(variables))}: Spark forgets a variable that no code declares",
        next_action="restore the checkpoint from a copy taken before that, and go back to an older "
        "format with targets= of migrated; or, to give up the forgotten values, run the code once "
        f"with handle.deleteIfExists({names[0]!r}) and pass accept_edited=({names[0]!r},)",
        store=store,
    )
