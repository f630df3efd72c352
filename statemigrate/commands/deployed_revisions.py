"""What is deployed, compared with what the scripts have: how far behind its scripts a store is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from statemigrate.deployment import StoredStore
from statemigrate.migration import BASE, Lineage


@dataclass(frozen=True)
class Behind:
    """There are newer scripts than the deployed one.

    ``head`` is the wanted revision, the lineage's newest unless another was requested, and
    ``deployed`` that of the deployed code. ``scripts`` are the revisions between them, oldest
    first, including ``head``. ``values`` counts the values that are not in the format of ``head``;
    None if the committed state does not show it.
    """

    head: str
    deployed: str
    scripts: tuple[str, ...]
    values: int | None

    def __str__(self) -> str:
        number = len(self.scripts)
        values = "an unknown number of" if self.values is None else f"{self.values:,}"
        return (
            f"head is {self.head}, deployed target is {self.deployed}, "
            f"{number:,} {'script' if number == 1 else 'scripts'} not deployed, "
            f"{values} {'value' if self.values == 1 else 'values'} in old formats"
        )


def scripted_revision(lineage: Lineage, revision: str) -> str | None:
    """A stored revision as the scripts name it; None for one that they do not have.

    State from before the first script is at that script's revision, if it is a baseline.
    """
    if revision == BASE:
        return lineage.oldest
    return revision if revision in lineage else None


def behind(
    lineage: Lineage, wanted: str, stored: StoredStore, values: Mapping[str, int | None]
) -> Behind | None:
    """How far a store is behind ``wanted``; None if it is not.

    ``values`` has the number of values of each family, None where that is not known.
    """
    deployed = scripted_revision(lineage, stored.target.revision)
    if deployed is None or lineage.position(deployed) >= lineage.position(wanted):
        return None
    between = slice(lineage.position(deployed) + 1, lineage.position(wanted) + 1)
    old = [
        values.get(each.name)
        for each in stored.families
        if scripted_revision(lineage, each.revision) != wanted
    ]
    known = [each for each in old if each is not None]
    return Behind(
        wanted,
        deployed,
        lineage.revisions[between],
        sum(known) if len(known) == len(old) else None,
    )
