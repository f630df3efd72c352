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
    check_scripted,
    family_name,
    is_family_of,
    revision_in,
)
from statemigrate.errors import StartupError
from statemigrate.formats import Format, Struct
from statemigrate.formats.struct.shape import shape_of
from statemigrate.migration import Lineage
from statemigrate.native.seen.record import StoreRecord
from statemigrate.native.spark_state.listing import read_listing
from statemigrate.native.spark_state.operators import Variable
from statemigrate.native.spark_state.reader import SparkCheckpoint


@dataclass(frozen=True)
class CommittedState:
    """The stores as of the last committed batch, and the names of Spark's variables.

    A family may be in ``stores`` and not among the variables: Spark lists those a batch was planned
    with, and a batch that was killed and run again by newer code has variables it does not list.
    What such a family holds is unknown.
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
    """Read it; without stores before the first batch, when there is none to read.

    Raises `StartupError` where code without statemigrate ran in between, where the scripts of a
    store are gone, or where the code and the state differ in time to live.
    """
    batch = checkpoint.last_batch()
    if batch is None:
        return CommittedState(-1, {}, frozenset())
    reading = _Reading(checkpoint, batch, settings)
    for each in declared:
        if each.store not in lineages:
            reading.check_scripted(each.store, record.get(each.store, StoreRecord()))
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
        self._listing = read_listing(checkpoint.path, batch)

    def store(
        self, declared: Declared, lineage: Lineage, record: StoreRecord
    ) -> StoredStore | None:
        store = declared.store
        listed = [each for name, each in self.variables.items() if is_family_of(store, name)]
        self._check_forgotten(lineage, store, record)
        for each in listed:
            _check_expiry(declared, each)
        families = tuple(self._family(lineage, each) for each in listed)
        unlisted = self._unlisted(lineage, record)
        if not listed:
            return _unseen(declared, unlisted, applied_scripts(lineage, unlisted, record))
        return StoredStore(
            listed[0].kind,
            (*families, *unlisted),
            applied_scripts(lineage, families, record),
            self._checkpoint.user_key(listed[0], declared.user_key),
        )

    def check_scripted(self, store: str, record: StoreRecord) -> None:
        """Raise `StartupError` for a store without scripts that has families of revisions."""
        known = {*self.variables, *record.families}
        accepted = self._settings.accept_edited
        check_scripted(store, [name for name in sorted(known) if name not in accepted])

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
        """Families that the last deployment, or a batch's rerun, may have made; read if so."""
        rerun = [name for name in _families(lineage) if self._listing.may_have(name)]
        names = dict.fromkeys([*record.families, *rerun])
        revisions = {
            name: _revision(lineage, name)
            for name in names
            if name not in self.variables and name not in self._settings.accept_edited
        }
        return [
            StoredFamily(name, revision, lineage.format_of(revision))
            for name, revision in revisions.items()
            if revision in lineage
        ]

    def _check_forgotten(self, lineage: Lineage, store: str, record: StoreRecord) -> None:
        """Code without statemigrate ran in between: what it wrote and left cannot be told."""
        # What a run before the last deployment had, that one has dealt with.
        dropped = self._listing.dropped_since(record.batch, _families(lineage))
        ran = self._listing.passed_over(range(record.batch + 1, self._batch + 1), record.begun)
        gone = [(name, end) for name, end in dropped.items() if name not in self.variables]
        # What was empty before the batch that such code ran, it cannot have missed.
        again = [
            (name, first - 1) for name, first in ran.items() if not self._is_retired(name, record)
        ]
        forgotten = {
            name
            for name, batch in [*gone, *again]
            if is_family_of(store, name)
            and name not in self._settings.accept_edited
            and not self._checkpoint.at(batch).is_surely_empty(name)
        }
        if forgotten:
            raise _forgotten(store, sorted(forgotten), self.variables)

    def _is_retired(self, name: str, record: StoreRecord) -> bool:
        """Whether the last deployment found the family empty, and does without it."""
        return (
            bool(record.families)
            and name not in record.families
            and self._listing.had(record.batch, name)
        )


def _unseen(
    declared: Declared, unlisted: Sequence[StoredFamily], applied: Mapping[str, str]
) -> StoredStore | None:
    if not unlisted:
        return None
    user_key = None if declared.user_key is None else declared.user_key.jsonValue()
    return StoredStore(declared.kind, tuple(unlisted), applied, user_key)


def _families(lineage: Lineage) -> list[str]:
    return [family_name(lineage, revision) for revision in lineage.revisions]


def _revision(lineage: Lineage, name: str) -> str:
    return revision_in(name) or lineage.oldest


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


def _forgotten(store: str, names: list[str], variables: Mapping[str, Variable]) -> StartupError:
    listed = ", ".join(sorted(variables))
    why = "Spark forgets a variable that no code declares"
    if variables.keys() >= set(names):
        why = "Spark lists what the code declared that had begun the batch, not what ran it again"
    return StartupError(
        f"store {store}: code that does not know the family {', '.join(names)} ran on this "
        "checkpoint",
        expected=f"{', '.join(names)} among the state variables, as an earlier run had them",
        found=f"{listed}: {why}",
        next_action="restore the checkpoint from a copy taken before that, and go back to an older "
        "format with targets= of migrated; or, to give up the forgotten values, run the code once "
        f"with handle.deleteIfExists({names[0]!r}) and pass accept_edited=({names[0]!r},)",
        store=store,
    )
