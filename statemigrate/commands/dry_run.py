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
from statemigrate.inspect import DryRunReport, Pace, check_sample, dry_run_file, tried
from statemigrate.native import looks_again, retried
from statemigrate.state import Project, Scripts, open_committed, planned, require_store

if TYPE_CHECKING:
    from statemigrate.native import Spark


__all__ = ["dry_run", "dry_run_file"]


@looks_again
def dry_run(
    store: str,
    checkpoint: str | Path,
    project: Project,
    *,
    sample: int | None = None,
    pace: Pace | None = None,
    progress: Progress = unseen,
) -> DryRunReport:
    """Take the values of ``store`` through its scripts, as `statemigrate.dry_run` says."""
    check_sample(sample)
    lineages = project.folder.sound_lineages(store)
    lineages[store].resolve(project.targets.get(store, "head"))
    require_store(str(checkpoint), store)
    with closing(open_committed(checkpoint, lineages, project)) as state:
        plan = planned(state, store, lineages, project, rewrites=state.can_be_rewritten)
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
    project = Project(migrations, targets or {}, stores or {}, spark, None, tuple(accept_edited))
    return try_each(checkpoints, project, sample, pace)


def try_each(
    checkpoints: Iterable[NamedCheckpoint], project: Project, sample: int | None, pace: Pace | None
) -> Trials:
    """The dry run of every store of every checkpoint, as `dry_run_all` says."""

    def trials(named: NamedCheckpoint) -> Iterator[Trial]:
        found = found_or_error(named, lambda: _scripted(named, project.at(named)))
        if isinstance(found, StatemigrateError):
            yield Trial(named, None, found)
            return
        for store in found:
            yield Trial(named, store, found_or_error(named, partial(tried_on, named, store)))

    def tried_on(named: NamedCheckpoint, store: str) -> DryRunReport:
        return dry_run(store, named.path, project.at(named), sample=sample, pace=pace)

    return Trials(tuple(trial for named in checkpoints for trial in trials(named)))


def _scripted(named: NamedCheckpoint, project: Project) -> tuple[str, ...]:
    """The stores of a checkpoint that have scripts, sound or broken; no value is read for it."""
    scripts = Scripts.of(project)
    if scripts.survey is None:
        return ()

    def scripted() -> tuple[str, ...]:
        with scripts.opened(named.path) as state:
            return tuple(name for name in scripts.reported_stores(state) if name in scripts.stores)

    return retried(scripted, named.path)
