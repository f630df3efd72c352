"""How far a migration is: what is left where, how fast it goes, and what to do next."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.commands.deployed_revisions import Behind, behind, scripted_revision
from statemigrate.deployment import (
    Declared,
    Kind,
    StoredFamily,
    StoredStore,
    StorePlan,
    declared_by,
    gets_source,
)
from statemigrate.files import Files, PathOrFiles, Remembered
from statemigrate.migration import Lineage
from statemigrate.native import (
    ChunkFiles,
    PlanRecord,
    call_of,
    is_last_source_unknown,
    lacks_control_source,
    looks_again,
    unrecorded_advice,
)
from statemigrate.quoting import argument
from statemigrate.state import Document, Part, Project, Scripts, State

if TYPE_CHECKING:
    from statemigrate.native import PlannedBackfill
    from statemigrate.rewrite import RewriteReport


# How far the migration of one store is, as data.


Progress = Literal["migrated", "migrating", "behind", "ahead", "unknown"]
"""What a store is to its scripts: see `StoreStatus.state`."""


@dataclass(frozen=True)
class FamilyStatus:
    """A family: its values, by partition too, and the number that a backfill could not migrate.

    ``quarantined`` is None if the engine does not record it.
    """

    name: str
    revision: str
    values: int
    partitions: Mapping[int, int]
    quarantined: int | None


@dataclass(frozen=True)
class ComplementStatus:
    """What scripts have left out of a store's values, and stays: of how many, and its bytes."""

    values: int
    size: int


@dataclass(frozen=True)
class StoreStatus:
    """A store: the deployed target, the lineage's head, and the families.

    ``families`` has those with values that are still to migrate, newest first; ``in_target`` counts
    the values in the target's family, None on the embedded engine. ``head`` is None for a store
    without scripts, or with broken ones; ``is_broken`` marks the latter. ``rate`` is in values a
    second, over the last batches or since an earlier status, ``seconds`` the time left at that
    rate. Both are None while unknown, and ``seconds`` also if nothing moves. ``rewrites`` means
    that only a rewrite can migrate it, and no query. ``goes_back`` means that values of a newer
    revision than the target are left. ``behind`` is None unless there are newer scripts than the
    deployed one. ``wanted`` is the head, or the requested revision, if another one is deployed.
    ``is_unscripted`` means that there are scripts, but not the target's. ``complement`` is the size
    of what scripts have left out of the values, None unless it stays with them.
    """

    store: str
    kind: Kind
    target: str
    head: str | None
    in_target: int | None
    families: tuple[FamilyStatus, ...]
    next_action: str
    rate: float | None = None
    seconds: float | None = None
    is_broken: bool = False
    rewrites: bool = False
    goes_back: bool = False
    behind: Behind | None = None
    wanted: str | None = None
    is_unscripted: bool = False
    complement: ComplementStatus | None = None

    @property
    def state(self) -> Progress:
        """The state of the store compared with its scripts.

        "behind" while there are newer scripts than the deployed one, whatever is left; "ahead" if
        the requested revision is older than the deployed one; "unknown" with broken scripts, or if
        they do not have the deployed revision. Otherwise "migrating" while values are left, and
        "migrated" when none is.
        """
        if self.is_broken or self.is_unscripted:
            return "unknown"
        if self.behind is not None:
            return "behind"
        if self.wanted is not None:
            return "ahead"
        return "migrating" if self.left else "migrated"

    @property
    def is_current(self) -> bool:
        """Whether the deployed revision is the head, or the requested one, if there are scripts.

        False if it is not known.
        """
        return self.state in ("migrated", "migrating")

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to deploy, nor to migrate. Broken scripts have no say in it."""
        return not self.left and self.behind is None

    @property
    def head_in_words(self) -> str:
        """The target compared with the scripts, in words."""
        if self.is_broken:
            return "its scripts are broken"
        if self.head is None:
            return "no scripts"
        if self.is_unscripted:
            return "which no script here has"
        return "the head" if self.head == self.target else f"the head is {self.head}"

    @property
    def left(self) -> int:
        """The values that are not in the target's format yet."""
        return sum(each.values for each in self.families)

    @property
    def quarantined(self) -> int:
        """The values that a backfill could not migrate."""
        return sum(each.quarantined or 0 for each in self.families)

    @property
    def is_dual(self) -> bool:
        """Whether reads search other families than the target's."""
        return bool(self.families)

    def paced(self, gone: int | None, elapsed: float) -> StoreStatus:
        """The same with the rate at which ``gone`` values left in ``elapsed`` seconds.

        Without a rate if it is not known, or if there are more values than before.
        """
        if gone is None or gone < 0 or elapsed <= 0:
            return replace(self, rate=None, seconds=None)
        rate = gone / elapsed
        return replace(self, rate=rate, seconds=self.left / rate if rate else None)


# What to do next about a store, true in the state that its checkpoint is in.


_ENDS = " (one run with availableNow takes all chunks)"


def running(checkpoint: PathOrFiles, *, pages: bool) -> str:
    """What a planned backfill needs: without such code, its chunks are not taken."""
    return f"run the query{_ENDS}, with {declared_by(call_of(checkpoint), pages=pages)}"


@dataclass(frozen=True)
class Looked:
    """What was looked at: a checkpoint, and the operator's name where it is on pages.

    The name is empty where it has none. ``files`` are the checkpoint's as they were when they were
    first read.
    """

    checkpoint: str
    operator: str | None = None
    files: Files | None = None

    def __str__(self) -> str:
        return self.checkpoint

    @property
    def words(self) -> str:
        """How commands name both."""
        option = f" --operator {argument(self.operator)}" if self.operator else ""
        return f"{argument(self.checkpoint)}{option}"


def next_step(  # noqa: PLR0911 - a sentence for each state
    store: StoreStatus, engine: str, at: str | Looked
) -> str:
    """What to do next, in one sentence."""
    checkpoint = Looked(at) if isinstance(at, str) else at
    dry_run = f"statemigrate dry-run {argument(store.store)} --checkpoint {checkpoint.words}"
    if store.is_broken:
        return f"statemigrate history {argument(store.store)} shows what is wrong with its scripts"
    if store.is_unscripted:
        return (
            f"bring back the script of {store.target}, or name the folder that has it with "
            f"--migrations; statemigrate history {argument(store.store)} lists those that are here"
        )
    if store.quarantined:
        return f"{dry_run} shows why {store.quarantined:,} fail"
    if store.goes_back:
        # The way back is planned for another target than the scripts' head.
        target = f"{store.store}={store.target}"
        command = f"statemigrate rollback {checkpoint.words} --to {argument(target)}"
        step = f"{command} says how the values go back"
        forgets = "; until then code without stateful (or migrated) would forget them"
        return step + forgets if engine == "native" else step
    if store.left and engine == "embedded":
        return (
            "run the query: its backfill goes on (to the end of it in one run with availableNow "
            f"and BackfillOptions(drain=True)); or run statemigrate backfill {checkpoint.words} "
            "while it is stopped"
        )
    if store.left:
        return _native_backfill(checkpoint, store, is_paged=engine == "paged")
    if store.wanted is not None and store.rewrites:
        return f"{dry_run}, then stop the query and statemigrate rewrite {argument(checkpoint)} NEW"
    if store.wanted is not None:
        code = f"the code for {store.wanted}"
        if engine == "embedded":
            return f"{dry_run}, then deploy {code}, with migrated on its processor"
        call = call_of(checkpoint.checkpoint)
        return f"{dry_run}, then deploy {code}, with {declared_by(call, pages=engine == 'paged')}"
    if store.families:
        return "restart the query: what is empty leaves the read path and is dropped"
    return "nothing: every value has the target's format"


def _native_backfill(checkpoint: Looked, store: StoreStatus, *, is_paged: bool) -> str:
    files = ChunkFiles(checkpoint.checkpoint, checkpoint.operator, reading=True)
    look = ChunkFiles(checkpoint.files or Remembered(files.files), checkpoint.operator)
    offsets = look.offsets()
    if offsets is not None and is_last_source_unknown(look, offsets):
        return unrecorded_advice(checkpoint.checkpoint)
    if lacks_control_source(look):
        return gets_source(checkpoint.checkpoint, call_of(look.files))
    plan, log = files.plan(), files.log()
    waiting = len(files.written() - log.taken.keys())
    if plan is None or not (waiting or files.uncut()):
        if plan is not None and _has_failed(files, plan, store):
            return (
                f"statemigrate status {checkpoint.words} --failed {argument(store.store)} shows "
                f"why {store.left:,} fail; correct the scripts, deploy with accept_edited, and "
                "plan again"
            )
        return f"statemigrate backfill {checkpoint.words}"
    run = running(look.files, pages=is_paged)
    if not waiting:
        return f"{run.replace(_ENDS, '')}; statemigrate status {checkpoint.words} --watch follows"
    chunks = f"{waiting:,} {'chunk' if waiting == 1 else 'chunks'}"
    return (
        f"{run}: {chunks} of its backfill {'waits' if waiting == 1 else 'wait'} to be taken; "
        f"statemigrate status {checkpoint.words} --watch follows"
    )


def _has_failed(files: ChunkFiles, plan: PlanRecord, store: StoreStatus) -> bool:
    """Whether the query has processed a plan that has all that is left of the store."""
    from statemigrate.native import planned_backfill

    planned = planned_backfill(files)
    is_covered = all(plan.covers(each.name) for each in store.families if each.values)
    return planned is not None and planned.is_processed and is_covered


@dataclass(frozen=True)
class Status:
    """A checkpoint as of its last committed batch, ``batch``; times are in Unix seconds.

    ``committed_at`` is when Spark recorded that batch as done, by the clock of the checkpoint's
    file system, and ``taken_at`` is the time of the look. ``over`` is the number of seconds between
    the two looks for the rates, None after one look. ``rewritten`` is the report of the rewrite
    that made the checkpoint, if there was one. ``backfill`` is the newest plan of `backfill` on
    Spark's own state, None without one.
    """

    engine: str
    checkpoint: str
    batch: int
    taken_at: float
    stores: tuple[StoreStatus, ...]
    rewritten: RewriteReport | None = None
    committed_at: float | None = None
    over: float | None = None
    backfill: PlannedBackfill | None = None

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
        """The stores whose deployed script is not the newest."""
        return tuple(each.store for each in self.stores if each.behind is not None)

    @property
    def waiting(self) -> int | None:
        """The values that migrate only once newer scripts are deployed; None if not known."""
        return summed(each.behind.values for each in self.stores if each.behind is not None)

    @property
    def is_current(self) -> bool:
        """Whether every store is known to be deployed at its head, or at the requested revision.

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
        """The same with rates, computed from an earlier status of the same checkpoint.

        A store without progress has the rate 0, and one with more values left than before has none.
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
        """The same as the first of several looks, without rates."""
        stores = tuple(each.paced(None, 0.0) for each in self.stores)
        return replace(self, stores=stores, over=None)


def summed(numbers: Iterable[int | None]) -> int | None:
    """The sum of numbers, None where one of them is not known."""
    total = 0
    for each in numbers:
        if each is None:
            return None
        total += each
    return total


@looks_again
def status(checkpoint: str | Path, project: Project) -> Status:
    """Count what is left in each store of a checkpoint, as `statemigrate.status` says."""
    # It loads Arrow, which a checkpoint that nobody has rewritten does not need.
    from statemigrate.rewrite import find_report

    scripts = Scripts.of(project)
    for store, target in scripts.targets.items():
        scripts.lineages[store].resolve(target)
    with scripts.opened(checkpoint) as state:
        counted = tuple(
            _store(state, name, stored, scripts)
            for name, stored in scripts.reported_stores(state).items()
        )
        return Status(
            state.engine,
            state.checkpoint,
            state.batch,
            time.time(),
            counted,
            find_report(state.files),
            CheckpointDirectory(state.files).committed_at(state.batch),
            backfill=_planned(state),
        )


def _planned(state: State) -> PlannedBackfill | None:
    if state.engine == "embedded":
        return None
    from statemigrate.native import planned_backfill

    return planned_backfill(ChunkFiles(state.checkpoint, state.operator, reading=True))


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


def _complement(state: State, store: str, stored: StoredStore) -> ComplementStatus | None:
    family = stored.complement
    if family is None:
        return None
    user_key = None
    if stored.user_key is not None:
        from pyspark.sql.types import StructType

        user_key = StructType.fromJson(stored.user_key)
    declared = Declared(store, "value", family.format, user_key)
    plan = StorePlan(declared, Lineage.unmigrated(store, family.format), family, (), ())
    found = [document for _, document in state.values(plan, (family,)).map(_measured)]
    return ComplementStatus(
        sum(each["values"] for each in found), sum(each["size"] for each in found)
    )


def _measured(part: Part) -> Document:
    sizes = [len(value["complement"]) for _, _, value in part.values]
    return {"values": len(sizes), "size": sum(sizes)}


def _is_newer(lineage: Lineage | None, family: FamilyStatus, target: StoredFamily) -> bool:
    if lineage is None:
        return False
    found, deployed = (scripted_revision(lineage, each.revision) for each in (family, target))
    if found is None or deployed is None:
        return False
    return lineage.position(found) > lineage.position(deployed)


def _store(state: State, store: str, stored: StoredStore, scripts: Scripts) -> StoreStatus:
    target, lineage = stored.target, scripts.lineages.get(store)
    counts = state.counts(store, but="" if state.counts_target else target.name)
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
        complement=_complement(state, store, stored),
    )
    if lineage is not None:
        values = {target.name: in_target, **{each.name: each.values for each in families}}
        found = _against(lineage, scripts.targets.get(store, "head"), stored, values, found)
    before = state.earlier([each.name for each in families]) if found.left else None
    if before is not None and before[1] > found.left:
        found = found.paced(before[1] - found.left, before[0])
    at = Looked(state.checkpoint, state.operator, state.files)
    return replace(found, next_action=next_step(found, state.engine, at))
