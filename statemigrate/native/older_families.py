"""The families of a checkpoint that a backfill has to empty, found from scripts and metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from statemigrate.deployment import (
    family_name,
    is_family_of,
    live_path,
    migrates_in_background,
    revision_in,
)
from statemigrate.errors import StartupError
from statemigrate.migration import Lineage, lineage_with
from statemigrate.native.checkpoint import SparkCheckpoint
from statemigrate.native.listing import check_listed
from statemigrate.native.operators import Variable
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from statemigrate.scripts import Survey


# The keys of ``applyInPandasWithState`` whose envelopes a backfill has to migrate.


def older_envelopes(
    path: str, envelopes: DataFrame, lineages: Mapping[str, Lineage], wanted: Mapping[str, str]
) -> dict[str, DataFrame]:
    """By family the entries of every revision but the target's, as `older_families` gives them.

    An envelope does not name its store: it is the one whose scripts have all revisions that are
    found, and where several have, the only one that ``wanted``, the targets by store, names.
    Raises `StartupError` where that is not one store, and `LineageError` for a revision that no way
    leads from.
    """
    kept = envelopes.where("value.revision IS NOT NULL")
    found = revisions_in(kept)
    lineage = lineage_of(path, found, lineages, wanted)
    target = wanted.get(lineage.store, lineage.head)
    older = [revision for revision in found if revision != target]
    for revision in older:
        live_path(lineage, revision, target)  # raises, and says what is missing
    return {
        family_name(lineage, revision): kept.where(kept.value.revision == revision).select(
            "key", "partition_id"
        )
        for revision in older
    }


def revisions_in(envelopes: DataFrame) -> list[str]:
    """The revisions that any key's envelope has."""
    rows = envelopes.select("value.revision").distinct().collect()
    return sorted(row.revision for row in rows)


def lineage_of(
    path: str, found: Sequence[str], lineages: Mapping[str, Lineage], wanted: Mapping[str, str]
) -> Lineage:
    """The lineage whose state the envelopes hold, as `older_envelopes` tells it."""
    chosen = lineage_with(found, lineages, wanted)
    if chosen is not None:
        return chosen
    fitting = [store for store, each in lineages.items() if each.has_all(found)]
    raise StartupError(
        "SM-START-011",
        f"it is not clear which store the state in {path} is",
        expected=f"one whose scripts have the revisions {', '.join(found) or 'that are stored'}",
        found=", ".join(fitting) or f"none of {', '.join(lineages) or 'no store'}",
        next_action="name it by its target: --target STORE=head, or targets={STORE: 'head'}; if "
        "none fits, name the folder of this query's scripts with --migrations",
    )


def older_families(
    checkpoint: SparkCheckpoint, scripts: Survey, targets: Mapping[str, str]
) -> dict[str, DataFrame]:
    """By name the families of every store with scripts but those of the stores' targets.

    A frame has the columns ``key`` and ``partition_id``, a row or more for each key; or one row for
    each, and how many ``entries`` are under it. Raises
    `StartupError` for a checkpoint none of whose stores has a script, and for a family of an
    unknown revision; `LineageError` for an unknown target, and for a family with values that no
    way leads from.
    """
    lineages = scripts.every()
    scripts.sound(*targets)
    wanted = {store: lineages[store].resolve(target) for store, target in targets.items()}
    envelopes = checkpoint.envelopes()
    if envelopes is not None:
        return older_envelopes(checkpoint.path, envelopes, lineages, wanted)
    names = _older_variables(checkpoint, lineages, wanted)
    return {name: checkpoint.frame(name).select("key", "partition_id") for name in names}


def _older_variables(
    checkpoint: SparkCheckpoint, lineages: Mapping[str, Lineage], wanted: Mapping[str, str]
) -> tuple[str, ...]:
    variables = checkpoint.variables()
    stores = [store for store in lineages if any(is_family_of(store, name) for name in variables)]
    if not stores:
        raise unscripted(checkpoint.path, variables, lineages)
    return tuple(
        name
        for store in stores
        for name in _of_store(
            checkpoint, lineages[store], wanted.get(store, lineages[store].head), variables
        )
    )


def _of_store(
    checkpoint: SparkCheckpoint, lineage: Lineage, target: str, variables: Mapping[str, Variable]
) -> Iterator[str]:
    revisions = {family_name(lineage, revision): revision for revision in lineage.revisions}
    own = [name for name in variables if is_family_of(lineage.store, name)]
    for name in own:
        if name not in revisions:
            raise unknown_family(lineage, name)
    batch = checkpoint.last_batch()
    for name in revisions.keys() - variables.keys():
        if batch is not None and revisions[name] != target:
            check_listed(checkpoint.files, batch, name)
    sources = [name for name in own if revisions[name] != target]
    kept = [name for name in sources if _has_a_way(checkpoint, lineage, name, revisions, target)]
    paths = [live_path(lineage, revisions[name], target) for name in kept]
    if migrates_in_background(paths, expires=any(variables[name].expires for name in kept)):
        yield from kept


def _has_a_way(
    checkpoint: SparkCheckpoint,
    lineage: Lineage,
    name: str,
    revisions: Mapping[str, str],
    target: str,
) -> bool:
    if lineage.missing_downgrade(revisions[name], target) is None:
        return True
    if not checkpoint.is_empty(name):
        lineage.path(revisions[name], target)  # raises, and says what is missing
    return False


def unscripted(path: str, stored: Collection[str], lineages: Mapping[str, Lineage]) -> StartupError:
    """The error for a checkpoint none of whose ``stored`` names has a script."""
    return StartupError(
        "SM-START-012",
        f"no store in {path} has migration scripts",
        expected=f"one of {', '.join(lineages)}" if lineages else "at least one script",
        found=", ".join(sorted(stored)) or "no state variable",
        next_action="name the folder of this query's scripts (--migrations), or write one: "
        "`statemigrate new STORE -m MESSAGE`",
    )


def unknown_family(lineage: Lineage, name: str) -> StartupError:
    """The error for a family of a revision that no script has."""
    return StartupError(
        "SM-START-006",
        f"store {lineage.store}: the checkpoint has the family {name} of an unknown revision",
        expected=f"one of {', '.join(lineage.revisions)}",
        found=revision_in(name),
        next_action="check out the scripts this checkpoint was last run with; "
        f"`statemigrate history {argument(lineage.store)}` lists those that are here",
        store=lineage.store,
    )
