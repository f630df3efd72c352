"""`dry-run`: a migration tried on the state a query has, or on values in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.commands.fleet import Progress, found_or_error, unseen
from statemigrate.configuration import NamedCheckpoint
from statemigrate.errors import StatemigrateError
from statemigrate.inspect.dry_run import check_sample, read_lineages, tried
from statemigrate.inspect.dry_run_file import dry_run_file
from statemigrate.inspect.estimate import Pace
from statemigrate.inspect.report import DryRunReport
from statemigrate.native.retrying import looks_again, retried
from statemigrate.native.session import session_of
from statemigrate.state.open import Scripts, is_embedded, open_state, require_store
from statemigrate.state.protocol import planned

if TYPE_CHECKING:
    from statemigrate.native.session import Spark


__all__ = ["dry_run", "dry_run_file"]


@looks_again
def dry_run(  # noqa: PLR0913 - all but two by name
    store: str,
    checkpoint: str | Path,
    *,
    sample: int | None = None,
    pace: Pace | None = None,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
    progress: Progress = unseen,
) -> DryRunReport:
    """Take the values of ``store`` through its scripts, as its query would, and report on it.

    The query may be running: its last committed batch is read, and nothing is written. ``sample``
    tries about so many values, spread evenly over families and partitions, instead of all of them.
    ``targets`` names, by store, the revision to migrate to, the head unless said otherwise.
    ``accept_edited`` names applied scripts that were corrected since. ``pace`` is what the backfill
    may take a batch. ``operator`` is the number or name of the operator that is meant, where
    several could be; ``stores`` has the names that operators' stores get. Spark's own state is read
    on ``spark``, the active session unless given, or a function that makes one; that of the
    embedded engine by processes of this machine, without Spark. ``progress`` gets
    from time to time how many values were read, and of how many.

    Raises `CheckpointError` for what cannot be read, `ScriptError` or `LineageError` for scripts
    that cannot be used, and `StartupError` where the query would refuse to start.
    """
    path = str(checkpoint)
    check_sample(sample)
    lineages = read_lineages(migrations, store)
    lineages[store].resolve((targets or {}).get(store, "head"))
    require_store(path, store)
    session = None if is_embedded(path) else session_of(spark, path)
    with closing(
        open_state(path, lineages, targets=targets, operator=operator, stores=stores, spark=session)
    ) as state:
        # The embedded engine's checkpoint is not rewritten: there a query runs all scripts.
        rewrites = state.engine != "embedded"
        plan = planned(state, store, lineages, targets or {}, accept_edited, rewrites=rewrites)
        return tried(state, plan, sample, pace or Pace(), progress)


# Dry runs of every store of all of a project's checkpoints, as CI has them.


@dataclass(frozen=True)
class Trial:
    """The dry run of a store; without ``store``, the reason why a whole checkpoint has none."""

    checkpoint: NamedCheckpoint
    store: str | None
    found: DryRunReport | StatemigrateError

    @property
    def name(self) -> str:
        """The checkpoint's name and the store's."""
        return ".".join(filter(None, (self.checkpoint.name, self.store)))

    @property
    def in_order(self) -> bool:
        """Whether every value migrates, and no field is lost by mistake."""
        return isinstance(self.found, DryRunReport) and self.found.in_order

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        is_report = isinstance(self.found, DryRunReport)
        return {
            "name": self.checkpoint.name,
            "store": self.store,
            "report": self.found.to_json() if is_report else None,
            "error": None if is_report else self.found.to_json(),
        }


@dataclass(frozen=True)
class Trials:
    """The dry runs of all stores that have scripts, by checkpoint."""

    trials: tuple[Trial, ...]

    @property
    def in_order(self) -> bool:
        """Whether every checkpoint could be read and all of its values migrate."""
        return all(each.in_order for each in self.trials)

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {"trials": [each.to_json() for each in self.trials], "in_order": self.in_order}


def dry_run_all(
    checkpoints: Iterable[NamedCheckpoint],
    *,
    sample: int | None = None,
    pace: Pace | None = None,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Trials:
    """Try every store with scripts of every checkpoint, as `dry_run` does.

    For a checkpoint that cannot be read or tried, the result has its error. ``targets`` apply to
    all checkpoints that do not have their own.
    """
    shared: dict[str, Any] = {"migrations": migrations, "stores": stores, "spark": spark}

    def trials(named: NamedCheckpoint) -> Iterator[Trial]:
        found = found_or_error(named, lambda: _scripted(named, targets, **shared))
        if isinstance(found, StatemigrateError):
            yield Trial(named, None, found)
            return
        for store in found:
            yield Trial(named, store, found_or_error(named, partial(tried_on, named, store)))

    def tried_on(named: NamedCheckpoint, store: str) -> DryRunReport:
        return dry_run(
            store,
            named.path,
            sample=sample,
            pace=pace,
            targets=named.targets_over(targets),
            accept_edited=accept_edited,
            operator=named.operator,
            **shared,
        )

    return Trials(tuple(trial for named in checkpoints for trial in trials(named)))


def _scripted(
    named: NamedCheckpoint,
    targets: Mapping[str, str] | None,
    *,
    migrations: str | Path,
    stores: Mapping[str, str] | None,
    spark: Spark,
) -> tuple[str, ...]:
    """The stores of a checkpoint that have scripts, sound or broken; no value is read for it."""
    scripts = Scripts.of(migrations, named.targets_over(targets))
    if scripts.survey is None:
        return ()
    place: dict[str, Any] = {"operator": named.operator, "stores": stores, "spark": spark}

    def scripted() -> tuple[str, ...]:
        with scripts.opened(named.path, **place) as state:
            return tuple(name for name in scripts.reported_stores(state) if name in scripts.stores)

    return retried(scripted, named.path)
