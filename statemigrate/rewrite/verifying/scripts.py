"""The scripts that a rewrite ran, found again, and whether they are what they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from statemigrate.checkpoint.operators.shapes import CheckpointShape
from statemigrate.migration import Lineage
from statemigrate.native.seen.record import StoreRecord
from statemigrate.rewrite.plan.lineages import scripted_stores
from statemigrate.rewrite.plan.scripts import Scripted
from statemigrate.rewrite.run.report import ScriptsRun


@dataclass(frozen=True)
class ScriptsAgain:
    """By Spark's kind and number of a store: its scripts, why there are none, and what was edited.

    ``edited`` has the revisions whose checksum is not the one that the rewrite noted.
    """

    scripts: Mapping[str, Scripted] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    edited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def scripts_again(
    noted: Mapping[str, ScriptsRun],
    shape: CheckpointShape,
    lineages: Mapping[str, Lineage] | None,
    record: Mapping[str, StoreRecord],
) -> ScriptsAgain:
    """Find what the rewrite of the checkpoint of this ``shape`` noted to have run.

    ``lineages`` is None without a folder of scripts; ``record`` is what deployments noted in the
    old checkpoint. Raises `StartupError` for state that is of no revision of theirs.
    """
    missing = {known: why for known, run in noted.items() if (why := _missing(run, lineages))}
    there = {known: run for known, run in noted.items() if known not in missing}
    scripts = scripted_stores(
        shape,
        {run.store: (lineages or {})[run.store] for run in there.values()},
        record,
        {run.store: run.target for run in there.values()},
        {run.store: known for known, run in there.items()},
    )
    edited = {known: _edited(scripts[known], run) for known, run in there.items()}
    return ScriptsAgain(scripts, missing, edited)


def _missing(run: ScriptsRun, lineages: Mapping[str, Lineage] | None) -> str:
    if lineages is None:
        return "there is no folder of scripts here; name it with --migrations"
    lineage = lineages.get(run.store)
    if lineage is None:
        return f"the folder of scripts has none of {run.store}"
    absent = [each for each in run.applied if each not in lineage]
    return f"the folder has no script of revision {absent[0]}" if absent else ""


def _edited(scripts: Scripted, run: ScriptsRun) -> tuple[str, ...]:
    now = dict(scripts.applied)
    return tuple(each for each, checksum in run.applied.items() if now.get(each) != checksum)
