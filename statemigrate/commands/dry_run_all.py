"""Dry runs of every store of all of a project's checkpoints, as CI has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.commands.dry_run import dry_run
from statemigrate.commands.following.named import found_or_error
from statemigrate.configuration import NamedCheckpoint
from statemigrate.errors import StatemigrateError
from statemigrate.inspect.report.dry_run import DryRunReport
from statemigrate.inspect.trial.estimate import Pace
from statemigrate.native.spark_state.retrying import retried
from statemigrate.state.scripted import Scripts

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark


@dataclass(frozen=True)
class Trial:
    """What the dry run of a store gave; without ``store``, why a whole checkpoint has none."""

    checkpoint: NamedCheckpoint
    store: str | None
    found: DryRunReport | StatemigrateError

    @property
    def name(self) -> str:
        """The checkpoint's name and the store's."""
        return ".".join(filter(None, (self.checkpoint.name, self.store)))

    @property
    def in_order(self) -> bool:
        """Whether every value migrates, and no field is lost that should be kept."""
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
        """Whether every checkpoint could be read and all that is in them migrates."""
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
    """Try every store of every checkpoint that has scripts, each as `dry_run` does.

    What cannot be read or tried is told in its place, and the others are tried. ``targets`` hold
    for all checkpoints, unless one has its own.
    """
    shared: dict[str, Any] = {"migrations": migrations, "stores": stores, "spark": spark}

    def trials(named: NamedCheckpoint) -> Iterator[Trial]:
        found = found_or_error(named, lambda: _scripted(named, targets, **shared))
        if isinstance(found, StatemigrateError):
            yield Trial(named, None, found)
            return
        for store in found:
            yield Trial(named, store, found_or_error(named, partial(tried, named, store)))

    def tried(named: NamedCheckpoint, store: str) -> DryRunReport:
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
            return tuple(name for name in scripts.told(state) if name in scripts.stores)

    return retried(scripted, named.path)
