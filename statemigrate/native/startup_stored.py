"""What a checkpoint of Spark's own state holds of each store, as the start-up check needs it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from statemigrate.deployment import (
    Occupancy,
    StoredFamily,
    StoreFacts,
    applied_scripts,
    complement_of,
    family_name,
    is_family_of,
    revision_of,
    store_of,
)
from statemigrate.errors import StartupError
from statemigrate.formats import Format, Struct
from statemigrate.formats.struct import shape_of
from statemigrate.migration import Lineage
from statemigrate.native.checkpoint import SparkCheckpoint
from statemigrate.native.deployment_check import StoreRecord
from statemigrate.native.listing import read_listing
from statemigrate.native.operators import Variable
from statemigrate.quoting import argument


@dataclass(frozen=True)
class CommittedStores:
    """The stores as of the last committed batch, and the names of Spark's variables.

    A family may be in ``stores`` and not among the variables: Spark lists those a batch was planned
    with, and a batch that was killed and run again by newer code has variables it does not list.
    What such a family holds is unknown.
    """

    stores: Mapping[str, StoreFacts]
    variables: frozenset[str]


@dataclass(frozen=True)
class ForgottenFamily:
    """A family of a ``store`` that holds values, or may, and that later code did not declare.

    ``batch`` is the last one before the first that is known of such code. It is not ``known``
    where Spark has removed its own word of the family: then there may be earlier ones.
    """

    store: str
    name: str
    batch: int
    is_known: bool = True


def read_stores(
    checkpoint: SparkCheckpoint,
    stores: Iterable[str],
    lineages: Mapping[str, Lineage],
    record: Mapping[str, StoreRecord],
    accepted: Collection[str] = (),
) -> CommittedStores:
    """Read what is stored in ``stores``; nothing before the first batch, when there is none.

    ``record`` is what deployments left there about themselves; ``accepted`` names families whose
    values may be given up. Nothing is compared with any code. Raises `StartupError` where code
    without statemigrate ran in between: what it left is unknown.
    """
    batch = checkpoint.last_batch()
    if batch is None:
        return CommittedStores({}, frozenset())
    reading = _StoredFamilies(checkpoint, batch, accepted)
    found = {
        store: reading.facts(store, lineages.get(store), record.get(store, StoreRecord()))
        for store in stores
    }
    return CommittedStores(found, frozenset(reading.variables))


def forgotten_families(
    checkpoint: SparkCheckpoint,
    lineages: Mapping[str, Lineage],
    record: Mapping[str, StoreRecord],
    accepted: Collection[str] = (),
) -> tuple[ForgottenFamily, ...]:
    """What code without statemigrate made Spark forget, of all stores; nothing is refused for it.

    Parameters as for `read_stores`. Raises `CheckpointError` before the first batch.
    """
    reading = _StoredFamilies(checkpoint, checkpoint.committed_batch(), accepted)
    stores = dict.fromkeys([*record, *map(store_of, reading.variables), *lineages])
    return tuple(
        family
        for store in stores
        for family in reading.forgotten(store, lineages.get(store), record.get(store))
    )


class _StoredFamilies:
    def __init__(self, checkpoint: SparkCheckpoint, batch: int, accepted: Collection[str]) -> None:
        self._checkpoint = checkpoint
        self._batch = batch
        self._accepted = accepted
        self.variables = checkpoint.variables()
        self._listing = read_listing(checkpoint.files, batch)

    def facts(self, store: str, scripted: Lineage | None, record: StoreRecord) -> StoreFacts:
        listed = [each for name, each in self.variables.items() if is_family_of(store, name)]
        lineage = scripted or self._unmigrated(store, listed[0])
        self._check_forgotten(lineage, store, record)
        families = [self._family(lineage, each) for each in listed]
        unlisted = self._unlisted(lineage, record)
        complement = complement_of(store)
        return StoreFacts(
            listed[0].kind if listed else None,
            self._checkpoint.types(listed[0]).user_key if listed else None,
            {each.name: each.expires for each in listed},
            (*families, *unlisted),
            # What may have been made tells of scripts only where nothing is known to have been.
            applied_scripts(lineage, families or unlisted, record.applied),
            complement if complement.name in self.variables else None,
        )

    def _unmigrated(self, store: str, variable: Variable) -> Lineage:
        return Lineage.unmigrated(store, Struct(self._checkpoint.types(variable).value))

    def _family(self, lineage: Lineage, variable: Variable) -> StoredFamily:
        revision = revision_of(lineage, variable.name)
        schema = self._checkpoint.types(variable).value
        fmt: Format = Struct(schema)
        if revision in lineage:
            scripted = lineage.format_of(revision)
            # Spark stores a struct whatever the script's format is; what counts is what it holds.
            fmt = scripted if shape_of(scripted.struct_type()) == shape_of(schema) else fmt
        occupancy: Occupancy = (
            "nothing" if self._checkpoint.is_empty(variable.name) else "something"
        )
        return StoredFamily(variable.name, revision, fmt, occupancy)

    def _unlisted(self, lineage: Lineage, record: StoreRecord) -> list[StoredFamily]:
        """Families that the last deployment, or a batch's rerun, may have made; read if so."""
        rerun = [name for name in _families(lineage) if self._listing.may_have(name)]
        names = dict.fromkeys([*record.families, *rerun])
        revisions = {
            name: revision_of(lineage, name)
            for name in names
            if name not in self.variables and name not in self._accepted
        }
        return [
            StoredFamily(name, revision, lineage.format_of(revision))
            for name, revision in revisions.items()
            if revision in lineage
        ]

    def forgotten(
        self, store: str, scripted: Lineage | None, record: StoreRecord | None
    ) -> list[ForgottenFamily]:
        """What code without statemigrate, which ran in between, did not declare of a store."""
        listed = [each for name, each in self.variables.items() if is_family_of(store, name)]
        if scripted is None and not listed:
            return []
        lineage = scripted or self._unmigrated(store, listed[0])
        return self._forgotten(lineage, store, record or StoreRecord())

    def _check_forgotten(self, lineage: Lineage, store: str, record: StoreRecord) -> None:
        """Code without statemigrate ran in between: what it wrote and left is unknown."""
        forgotten = self._forgotten(lineage, store, record)
        if forgotten:
            raise _refused(store, forgotten, self.variables, self._checkpoint.path)

    def _forgotten(
        self, lineage: Lineage, store: str, record: StoreRecord
    ) -> list[ForgottenFamily]:
        # What a run before the last deployment had, that one has dealt with.
        dropped = self._listing.dropped_since(record.batch, _families(lineage))
        missing = self._listing.missing_since(record.batch, record.families, record.begun)
        ran = self._listing.passed_over(range(record.batch + 1, self._batch + 1), record.begun)
        unmentioned = self._unmentioned(lineage, record)
        gone = {
            name: end
            for name, end in {**missing, **dropped, **unmentioned}.items()
            if name not in self.variables
        }
        # What was empty before the batch that such code ran, it cannot have missed.
        again = {
            name: first - 1 for name, first in ran.items() if not self._is_retired(name, record)
        }
        return [
            ForgottenFamily(
                store, name, batch, is_known=name not in gone or name not in unmentioned
            )
            for name, batch in {**again, **gone}.items()
            if is_family_of(store, name)
            and name not in self._accepted
            and not self._checkpoint.at(batch).is_surely_empty(name)
        ]

    def _unmentioned(self, lineage: Lineage, record: StoreRecord) -> dict[str, int]:
        """Families in the database that Spark's metadata lack, and once had.

        Spark removes the metadata of a run some hundred batches after it has ended, and the column
        families of a variable never. What the last deployment found empty it does without.
        """
        if self._listing.tells_of(max(record.batch, 0)) or self._listing.began_before(record.begun):
            return {}
        there = self._checkpoint.column_families()
        names = record.families or _families(lineage)
        return {
            name: self._listing.began - 1
            for name in names
            if name not in self.variables
            and not self._listing.may_have(name)
            and (name in there if there is not None else name in record.families)
        }

    def _is_retired(self, name: str, record: StoreRecord) -> bool:
        """Whether the last deployment found the family empty, and does without it."""
        return (
            bool(record.families)
            and name not in record.families
            and self._listing.had(record.batch, name)
        )


def _families(lineage: Lineage) -> list[str]:
    return [family_name(lineage, revision) for revision in lineage.revisions]


def _refused(
    store: str,
    forgotten: Collection[ForgottenFamily],
    variables: Mapping[str, Variable],
    path: str,
) -> StartupError:
    """The error for code that runs where other code has made Spark forget values."""
    names = sorted(each.name for each in forgotten)
    batch = min(each.batch for each in forgotten) + 1
    listed = ", ".join(sorted(variables))
    why = "Spark forgets a variable that no code declares"
    if variables.keys() >= set(names):
        why = "Spark lists what the code declared that had begun the batch, not what ran it again"
    or_before = not all(each.is_known for each in forgotten)
    return StartupError(
        "SM-START-024",
        f"store {store}: code that does not know the family {', '.join(names)} ran on this "
        f"checkpoint, in batch {batch}{' or before' if or_before else ''}",
        expected=f"{', '.join(names)} among the state variables, as an earlier run had them",
        found=f"{listed}: {why}",
        next_action=f"stop the query; `statemigrate doctor {argument(path)} --repair` says what "
        "can be "
        "brought back of it, and with --apply makes a new checkpoint that has it; or, to give up "
        f"the forgotten values, run the code once with handle.deleteIfExists({names[0]!r}) and "
        f"pass accept_edited=({names[0]!r},)",
        store=store,
        families=names,
        batch=batch,
    )
