"""`retire`: drops the empty older families of a stopped query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.deployment import StorePlan
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.offline import stopped
from statemigrate.errors import UnsupportedError
from statemigrate.event_log.events import Stamp
from statemigrate.event_log.log import Note, planned_revisions, require_writable
from statemigrate.native.retrying import looks_again
from statemigrate.state.embedded import EmbeddedState
from statemigrate.state.open import engine_of, open_committed, require_scripted
from statemigrate.state.project import Project
from statemigrate.state.protocol import planned

if TYPE_CHECKING:
    from statemigrate.native.session import Spark


# What a stopped query of the embedded engine would do with each of its stores.


def offline_plans(layout: Layout, project: Project) -> dict[str, StorePlan]:
    """By store, how code written for the targets would access it.

    Raises `LineageError` for a target of a store without scripts.
    """
    lineages = project.folder.lineages()
    require_scripted(project.targets, lineages)
    with closing(EmbeddedState(layout.files.location)) as state:
        return {store: planned(state, store, lineages, project) for store in state.stores}


@dataclass(frozen=True)
class Retirement:
    """The dropped families, and by name the values in those that are not empty.

    ``later`` are empty families of Spark's own state, which the query's next start drops; only a
    Spark query can. ``complements`` are the dropped families of what scripts had left out of
    values.
    """

    dropped: tuple[str, ...]
    later: tuple[str, ...]
    kept: Mapping[str, int]
    complements: tuple[str, ...] = ()


def retire(
    checkpoint: str | Path,
    *,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    complement: bool = False,
    spark: Spark = None,
) -> Retirement:
    """Drop the empty older families of a stopped query, after reading its committed state again.

    A query does the same at its next start. On Spark's own state only the query can drop families,
    and this lists those that it will drop. A family that still has a value is kept and counted.
    With ``complement`` it also gives up what scripts have left out of values, which a later
    rollback then does not bring back; `UnsupportedError` for Spark's own state, where code with
    ``migrated(complement=False)`` does that. Other parameters and errors are those of `backfill`.
    """
    project = Project(migrations, targets or {}, {}, spark, operator, tuple(accept_edited))
    return retire_families(checkpoint, project, complement=complement)


def retire_families(
    checkpoint: str | Path, project: Project, *, complement: bool = False
) -> Retirement:
    """Drop the drained families of a stopped query, as `retire` says."""
    if engine_of(checkpoint) != "embedded":
        if complement:
            raise _only_by_code(checkpoint)
        return _later(checkpoint, project)
    layout = Layout.of(checkpoint)
    with stopped(layout) as query:
        plans = offline_plans(layout, project)
        if complement:
            plans = {
                store: replace(plan, complement=None, dropped=plan.complement)
                for store, plan in plans.items()
            }
        given_up = sorted(plan.dropped.name for plan in plans.values() if plan.dropped)
        require_writable(layout.files)
        dropped = query.retire(plans)
        if dropped or given_up:
            left = {store: plan.without(frozenset(dropped)) for store, plan in plans.items()}
            note = Note(Stamp.of(project.directory), planned_revisions(left))
            note.done(
                layout.files, "retire", query.version, {"dropped": ", ".join([*dropped, *given_up])}
            )
        kept = _values(layout, plans, but=dropped)
    return Retirement(dropped, (), kept, tuple(given_up))


def _only_by_code(checkpoint: str | Path) -> UnsupportedError:
    return UnsupportedError(
        "SM-BACKFILL-016",
        "only a query can drop complements of Spark's own state",
        expected="a checkpoint of the embedded engine",
        found=str(checkpoint),
        next_action="deploy the code with migrated(..., complement=False): its first batch drops "
        "them; on pages each page does when it is touched",
    )


@looks_again
def _later(checkpoint: str | Path, project: Project) -> Retirement:
    lineages = project.folder.lineages()
    with closing(open_committed(checkpoint, lineages, project)) as state:
        # The state of Spark's own operators has one family each, which no query leaves behind.
        stores = [store for store in state.stores if store not in state.operator_stores]
        plans = [planned(state, store, lineages, project) for store in stores]
        values = {
            family.name: sum(state.counts(plan.declared.store).get(family.name, {}).values())
            for plan in plans
            for family in plan.sources
        }
    empty = tuple(sorted(name for name, count in values.items() if not count))
    return Retirement((), empty, {name: count for name, count in values.items() if count})


def _values(
    layout: Layout, plans: Mapping[str, StorePlan], *, but: tuple[str, ...]
) -> dict[str, int]:
    """By family other than the targets', the exact number of values."""
    with closing(EmbeddedState(layout.files.location)) as state:
        counts = {store: state.counts(store, but=plan.target.name) for store, plan in plans.items()}
        return {
            family.name: sum(counts[store].get(family.name, {}).values())
            for store, plan in plans.items()
            for family in plan.sources
            if family.name not in but
        }
