"""The scripts that a rewrite ran, found again, and whether they are what they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from statemigrate.checkpoint.operators.shapes import CheckpointShape
from statemigrate.migration import Lineage
from statemigrate.native.seen.record import StoreRecord
from statemigrate.rewrite.plan.lineages import StoreScripts
from statemigrate.rewrite.plan.scripts import Scripts
from statemigrate.rewrite.run.report import RewriteReport, ScriptsRun


@dataclass(frozen=True)
class ScriptsAgain:
    """The scripts; and by the kind and number of a store why there are none, and what was edited.

    ``edited`` has the revisions whose checksum is not the one that the rewrite noted.
    """

    scripts: Scripts = field(default_factory=Scripts)
    missing: Mapping[str, str] = field(default_factory=dict)
    edited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def scripts_again(
    report: RewriteReport,
    shape: CheckpointShape,
    lineages: Mapping[str, Lineage] | None,
    record: Mapping[str, StoreRecord],
) -> ScriptsAgain:
    """Find what the rewrite of the checkpoint of this ``shape`` noted to have run.

    ``lineages`` is None without a folder of scripts; ``record`` is what deployments noted in the
    old checkpoint. Raises `StartupError` for state that is of no revision of theirs.
    """
    noted = {**report.scripts, **report.scripts_of_new}
    missing = {known: why for known, run in noted.items() if (why := _missing(run, lineages))}
    old = {known: run for known, run in report.scripts.items() if known not in missing}
    new = {known: run for known, run in report.scripts_of_new.items() if known not in missing}
    scripts = Scripts(
        _found(old, shape, lineages, record).of_old(),
        _found(new, shape, lineages, record).of_new(report.states),
    )
    edited = {
        known: _edited((lineages or {})[run.store], run) for known, run in {**old, **new}.items()
    }
    return ScriptsAgain(scripts, missing, edited)


def _found(
    runs: Mapping[str, ScriptsRun],
    shape: CheckpointShape,
    lineages: Mapping[str, Lineage] | None,
    record: Mapping[str, StoreRecord],
) -> StoreScripts:
    return StoreScripts(
        shape,
        {run.store: (lineages or {})[run.store] for run in runs.values()},
        record,
        {run.store: run.target for run in runs.values()},
        {run.store: known for known, run in runs.items()},
    )


def _missing(run: ScriptsRun, lineages: Mapping[str, Lineage] | None) -> str:
    if lineages is None:
        return "there is no folder of scripts here; name it with --migrations"
    lineage = lineages.get(run.store)
    if lineage is None:
        return f"the folder of scripts has none of {run.store}"
    absent = [each for each in run.applied if each not in lineage]
    return f"the folder has no script of revision {absent[0]}" if absent else ""


def _edited(lineage: Lineage, run: ScriptsRun) -> tuple[str, ...]:
    return tuple(
        each.revision
        for each in lineage.migrations
        if not each.was_applied_as(run.applied.get(each.revision, each.checksum))
    )
