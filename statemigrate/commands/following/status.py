"""How far a migration is: what is left where, how fast it goes, and what to do next."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.directory import CheckpointDirectory
from statemigrate.commands.following.deployed import behind, scripted_revision
from statemigrate.commands.following.next_steps import Looked, next_step
from statemigrate.commands.following.store_status import FamilyStatus, StoreStatus
from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.files.opening import open_files
from statemigrate.migration import Lineage
from statemigrate.native.spark_state.retrying import looks_again
from statemigrate.rewrite.run.report import RewriteReport, find_report
from statemigrate.state.protocol import State
from statemigrate.state.scripted import Scripts

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark


@dataclass(frozen=True)
class Status:
    """A checkpoint as of its last committed batch, ``batch``; times are in Unix seconds.

    ``committed_at`` is when Spark noted that batch as done, by the clock of the checkpoint's file
    system, and ``taken_at`` when it was looked at. ``over`` are the seconds between the two looks
    that the rates are from, None after one look. ``rewritten`` is what was done when it was made
    from another one, if it was.
    """

    engine: str
    checkpoint: str
    batch: int
    taken_at: float
    stores: tuple[StoreStatus, ...]
    rewritten: RewriteReport | None = None
    committed_at: float | None = None
    over: float | None = None

    @property
    def age(self) -> float | None:
        """The seconds since the last commit. Clocks may differ: never less than 0."""
        return None if self.committed_at is None else max(0.0, self.taken_at - self.committed_at)

    @property
    def rate(self) -> float | None:
        """The values that leave older families in a second, of all stores; None while unknown."""
        rates = [each.rate for each in self.stores if each.rate is not None]
        return sum(rates) if rates else None

    @property
    def left(self) -> int:
        """The values that are not in their target's format yet, of all stores."""
        return sum(each.left for each in self.stores)

    @property
    def behind(self) -> tuple[str, ...]:
        """The stores for which newer scripts exist than what is deployed."""
        return tuple(each.store for each in self.stores if each.behind is not None)

    @property
    def is_current(self) -> bool:
        """Whether what is deployed is known to be the head, or what was asked for, of all stores.

        A store without scripts has no other revision.
        """
        return all(each.is_current for each in self.stores)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to deploy, nor to migrate."""
        return all(each.is_done for each in self.stores)

    def to_json(self) -> dict[str, Any]:
        """The status as JSON holds it, with its sums."""
        document = asdict(self)
        document["rewritten"] = None if self.rewritten is None else self.rewritten.to_json()
        for each, store in zip(document["stores"], self.stores, strict=True):
            each |= {
                "left": store.left,
                "quarantined": store.quarantined,
                "dual": store.is_dual,
                "state": store.state,
            }
        summed = {"left": self.left, "behind": list(self.behind), "is_current": self.is_current}
        return {**document, **summed}

    def since(self, before: Status) -> Status:
        """The same with rates, reckoned from an earlier status of the same checkpoint.

        A store of which nothing moved has the rate 0, and one with more left than before none.
        """
        over = self.taken_at - before.taken_at
        earlier = {each.store: each.left for each in before.stores}
        stores = tuple(
            each.paced(None if was is None else was - each.left, over)
            for each in self.stores
            for was in (earlier.get(each.store),)
        )
        return replace(self, stores=stores, over=over)

    @property
    def first(self) -> Status:
        """The same as the first of several looks: nothing is said of how fast anything goes."""
        stores = tuple(each.paced(None, 0.0) for each in self.stores)
        return replace(self, stores=stores, over=None)


@looks_again
def status(
    checkpoint: str | Path,
    *,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Status:
    """Count what is left in each store of a checkpoint, as of its last committed batch.

    The query may be running. ``migrations`` is the folder of its scripts, None if it has none, and
    the default one may be missing; ``targets`` tells whose state envelopes are, where scripts of
    several stores fit. Spark's own state is read with ``spark``, the active session unless given,
    or a function that makes one. ``operator`` is the number or name of the operator that is
    meant, where several could be; ``stores`` has the names that operators' stores get. Beside state
    variables and envelopes, other operators' state is counted where it has scripts. A store is
    behind where the head of its scripts, or the revision that ``targets`` asks for, is newer than
    what is deployed.

    Raises `CheckpointError` for what cannot be read, and `ScriptError` for what is no folder of
    scripts; a store with broken scripts is counted too, and says so.
    """
    scripts = Scripts.of(migrations, targets)
    for store, target in scripts.targets.items():
        scripts.lineages[store].resolve(target)
    with scripts.opened(checkpoint, operator=operator, stores=stores, spark=spark) as state:
        counted = tuple(
            _store(state, name, stored, scripts) for name, stored in scripts.told(state).items()
        )
        files = open_files(state.checkpoint)
        return Status(
            state.engine,
            state.checkpoint,
            state.batch,
            time.time(),
            counted,
            find_report(files),
            CheckpointDirectory(files).committed_at(state.batch),
        )


def _against(
    lineage: Lineage,
    target: str,
    stored: StoredStore,
    values: Mapping[str, int | None],
    found: StoreStatus,
) -> StoreStatus:
    """The same with what it is to the revision that its scripts lead to, or that was asked for."""
    wanted = lineage.resolve(target)
    deployed = scripted_revision(lineage, stored.target.revision)
    return replace(
        found,
        behind=behind(lineage, wanted, stored, values),
        wanted=None if deployed == wanted else wanted,
        is_unscripted=deployed is None,
    )


def _only_by_rewriting(lineage: Lineage | None, revision: str | None) -> bool:
    if lineage is None or revision is None:
        return False
    return lineage.path(revision, lineage.head).only_by_rewriting is not None


def _is_newer(lineage: Lineage | None, family: FamilyStatus, target: StoredFamily) -> bool:
    if lineage is None:
        return False
    found, deployed = (scripted_revision(lineage, each.revision) for each in (family, target))
    if found is None or deployed is None:
        return False
    return lineage.position(found) > lineage.position(deployed)


def _store(state: State, store: str, stored: StoredStore, scripts: Scripts) -> StoreStatus:
    target, lineage = stored.target, scripts.lineages.get(store)
    # What an embedded target holds is noted nowhere, and of no use to know.
    counts = state.counts(store, but=target.name if state.engine == "embedded" else "")
    marked = state.quarantined(store)
    families = tuple(
        FamilyStatus(
            each.name,
            each.revision,
            sum(counts.get(each.name, {}).values()),
            counts.get(each.name, {}),
            None if marked is None else marked.get(each.name, 0),
        )
        for each in stored.others
    )
    in_target = sum(counts[target.name].values()) if target.name in counts else None
    deployed = None if lineage is None else scripted_revision(lineage, target.revision)
    found = StoreStatus(
        store,
        stored.kind,
        deployed or target.revision,
        None if lineage is None else lineage.head,
        in_target,
        families,
        "",
        is_broken=scripts.is_broken(store),
        rewrites=store in state.operator_stores or _only_by_rewriting(lineage, deployed),
        goes_back=any(each.values and _is_newer(lineage, each, target) for each in families),
    )
    if lineage is not None:
        values = {target.name: in_target, **{each.name: each.values for each in families}}
        found = _against(lineage, scripts.targets.get(store, "head"), stored, values, found)
    before = state.earlier([each.name for each in families]) if found.left else None
    if before is not None and before[1] > found.left:
        found = found.paced(before[1] - found.left, before[0])
    at = Looked(state.checkpoint, state.operator)
    return replace(found, next_action=next_step(found, state.engine, at))
