"""The keys of ``applyInPandasWithState`` whose envelopes a backfill has to migrate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from statemigrate.deployment import family_name, live_path
from statemigrate.errors import StartupError
from statemigrate.migration import Lineage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    fitting = {
        store: each for store, each in lineages.items() if all(name in each for name in found)
    }
    named = {store: each for store, each in fitting.items() if store in wanted}
    chosen = fitting if len(fitting) == 1 else named
    if len(chosen) == 1:
        return next(iter(chosen.values()))
    raise StartupError(
        "SM-START-011",
        f"it is not clear which store the state in {path} is",
        expected=f"one whose scripts have the revisions {', '.join(found) or 'that are stored'}",
        found=", ".join(fitting) or f"none of {', '.join(lineages) or 'no store'}",
        next_action="name it by its target: --target STORE=head, or targets={STORE: 'head'}; if "
        "none fits, name the folder of this query's scripts with --migrations",
    )
