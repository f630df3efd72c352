"""Migrating and tidying the state of a query that is stopped; embedded engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.budget import OnError
from statemigrate.deployment import StorePlan
from statemigrate.embedded.engine.offline import StoppedBackfill, stopped
from statemigrate.embedded.storage.layout import Layout
from statemigrate.errors import CheckpointError
from statemigrate.scripts import ScriptFolder
from statemigrate.state.embedded import EmbeddedState
from statemigrate.state.opening import engine_of, open_state
from statemigrate.state.protocol import planned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tick = Callable[[int, int], None]


def backfill_stopped(
    checkpoint: str | Path,
    *,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    on_error: OnError = "raise",
    accept_edited: Sequence[str] = (),
    tick: Tick = lambda _done, _all: None,
) -> StoppedBackfill:
    """Migrate all stores of a stopped query to their targets, to the end.

    The next start finds one family a store, and no dual access. It may be interrupted at any time:
    what is done is done, and another run goes on from there. ``on_error="quarantine"`` leaves a
    value that does not migrate where it is, and counts it; by default it is a `TransformError`.
    ``accept_edited`` names applied scripts that were corrected since. ``tick`` is told how many
    values were migrated, and of how many.

    Raises `CheckpointInUseError` while the query runs, `UnsupportedError` for Spark's own state,
    and what the query's own start would.
    """
    layout = _embedded(checkpoint)
    with stopped(layout) as query:
        plans = _plans(layout, migrations, targets or {}, accept_edited)
        return query.backfill(plans, on_error=on_error, tick=tick)


@dataclass(frozen=True)
class Retirement:
    """Families that were dropped, and by name the values in those that are not empty.

    ``later`` are empty families of Spark's own state, which the query's next start drops: only a
    query of Spark's can.
    """

    dropped: tuple[str, ...]
    later: tuple[str, ...]
    kept: Mapping[str, int]


def retire(
    checkpoint: str | Path,
    *,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    operator: int | None = None,
    spark: SparkSession | None = None,
) -> Retirement:
    """Drop the drained families of a stopped query, re-checked on its committed state.

    A family that still holds a value is kept and counted. Raises as `backfill_stopped`.
    """
    if engine_of(str(checkpoint)) == "native":
        return _later(checkpoint, migrations, targets or {}, operator, spark)
    layout = Layout.of(checkpoint)
    with stopped(layout) as query:
        plans = _plans(layout, migrations, targets or {})
        dropped = query.retire(plans)
        kept = _values(layout, plans, but=dropped)
    return Retirement(dropped, (), kept)


def _later(
    checkpoint: str | Path,
    migrations: str | Path,
    targets: Mapping[str, str],
    operator: int | None,
    spark: SparkSession | None,
) -> Retirement:
    lineages = ScriptFolder(migrations).lineages()
    opened = open_state(str(checkpoint), lineages, targets=targets, operator=operator, spark=spark)
    with closing(opened) as state:
        plans = [planned(state, store, lineages, targets) for store in state.stores]
        values = {
            family.name: sum(state.counts(plan.declared.store).get(family.name, {}).values())
            for plan in plans
            for family in plan.sources
        }
    empty = tuple(sorted(name for name, count in values.items() if not count))
    return Retirement((), empty, {name: count for name, count in values.items() if count})


def _plans(
    layout: Layout,
    migrations: str | Path,
    targets: Mapping[str, str],
    accept_edited: Sequence[str] = (),
) -> dict[str, StorePlan]:
    lineages = ScriptFolder(migrations).lineages()
    with closing(EmbeddedState(str(layout.checkpoint))) as state:
        return {
            store: planned(state, store, lineages, targets, accept_edited) for store in state.stores
        }


def _values(
    layout: Layout, plans: Mapping[str, StorePlan], *, but: tuple[str, ...]
) -> dict[str, int]:
    """By family other than the targets', the exact number of values."""
    with closing(EmbeddedState(str(layout.checkpoint))) as state:
        counts = {store: state.counts(store, but=plan.target.name) for store, plan in plans.items()}
        return {
            family.name: sum(counts[store].get(family.name, {}).values())
            for store, plan in plans.items()
            for family in plan.sources
            if family.name not in but
        }


def _embedded(checkpoint: str | Path) -> Layout:
    if engine_of(str(checkpoint)) == "embedded":
        return Layout.of(checkpoint)
    raise CheckpointError(
        f"the state in {checkpoint} is Spark's own, which only its query can write",
        expected="a checkpoint of the embedded engine",
        found="Spark's state store",
        next_action=f"`statemigrate backfill {checkpoint}` plans the backfill; the query takes a "
        "chunk a batch, all of them in one run with trigger(availableNow=True)",
        path=str(checkpoint),
    )
