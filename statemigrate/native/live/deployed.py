"""What travels to the workers with a processor: scripts, settings, and what the state holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from statemigrate.deployment import (
    Declared,
    Settings,
    StoredFamily,
    StoredStore,
    StorePlan,
    family_name,
    plan_store,
)
from statemigrate.errors import StatemigrateError
from statemigrate.logbook.noting import Note
from statemigrate.migration import Lineage
from statemigrate.native.live.counts import MigrationCounts
from statemigrate.native.seen.comparing import begin_run, is_planning
from statemigrate.native.seen.record import StoreRecord
from statemigrate.native.seen.seen import Seen

DEPLOYED = "__statemigrate_deployed__"
COUNTED = "__statemigrate_counts__"


@dataclass(frozen=True)
class Deployed:
    """A processor's deployment on Spark's own state.

    ``stored`` says what the checkpoint holds, by store; None where no checkpoint was given, or
    nothing was committed in it, so that every revision may have values. ``drained`` are the
    families, by store, that were found empty: they are not read any more, and dropped if the
    settings say so. ``seen`` is where all this was read, and ``records`` what is noted there by
    store when the query starts, ``note`` what the log is told then.
    """

    settings: Settings
    lineages: Mapping[str, Lineage]
    stored: Mapping[str, StoredStore] | None = None
    drained: Mapping[str, tuple[StoredFamily, ...]] = field(default_factory=dict)
    counts: MigrationCounts | None = None
    seen: Seen | None = None
    records: Mapping[str, StoreRecord] = field(default_factory=dict)
    note: Note | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, tuple(getattr(self, each.name) for each in fields(self))

    @property
    def retires(self) -> bool:
        """Whether the next batch drops a family that was seen to be empty."""
        return self.settings.retire_drained and any(self.drained.values())

    def plan(self, declared: Declared) -> StorePlan | None:
        """How a declared variable is accessed; None for a store without scripts."""
        lineage = self.lineages.get(declared.store)
        if lineage is None:
            return None
        if self.stored is None:
            stored: StoredStore | None = self._anything(declared, lineage)
        else:
            stored = self.stored.get(declared.store)
        return plan_store(declared, lineage, stored, self.settings)

    def family_names(self, store: str) -> tuple[str, ...]:
        """The variables of a store, whether they exist or not."""
        lineage = self.lineages.get(store)
        if lineage is None:
            return (store,)
        return tuple(family_name(lineage, revision) for revision in lineage.revisions)

    def _anything(self, declared: Declared, lineage: Lineage) -> StoredStore:
        families = tuple(
            StoredFamily(family_name(lineage, revision), revision, lineage.format_of(revision))
            for revision in lineage.revisions
        )
        user_key = None if declared.user_key is None else declared.user_key.jsonValue()
        return StoredStore(declared.kind, families, {}, user_key)


def _arrived(*values: Any) -> Deployed:
    deployed = Deployed(*values)
    if deployed.seen is not None and is_planning():
        begin_run(deployed.seen, deployed.records, deployed.family_names, deployed.note)
    return deployed


@dataclass(frozen=True)
class Undeployable:
    """In place of a deployment whose scripts cannot be read; the error waits for its use.

    Instances are made in unit tests and for the embedded engine too, where nobody needs one.
    """

    error: StatemigrateError

    def __reduce__(self) -> tuple[Any, ...]:
        return _undeployable, (self.error,)


def _undeployable(error: StatemigrateError) -> Undeployable:
    if is_planning():
        raise error
    return Undeployable(error)


def migration_counts(processor: Any) -> MigrationCounts | None:
    """What a marked processor's workers have migrated so far, or those of a paged query.

    None where there was no Spark session when the processor was marked, or made.
    """
    counted = vars(processor).get(COUNTED)
    if isinstance(counted, MigrationCounts):
        return counted
    found = vars(processor).get(DEPLOYED)
    return found.counts if isinstance(found, Deployed) else None
