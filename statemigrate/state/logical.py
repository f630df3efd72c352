"""The logical view of families that are read one after the other.

At every commit a key is in one family only, so their entries need no merging.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from statemigrate.deployment import StoredFamily, StorePlan
from statemigrate.errors import TransformError
from statemigrate.migration import Path
from statemigrate.state.protocol import Entry


def in_target(plan: StorePlan, family: StoredFamily, entries: Iterator[Entry]) -> Iterator[Entry]:
    """The entries of a family in the target's format.

    Raises `TransformError` for a value that does not migrate, and `StartupError` for one in a
    family that no way leads from.
    """
    if family is plan.target:
        return entries
    path = plan.paths[plan.sources.index(family)]
    return _refused(plan, family, entries) if path is None else _migrated(plan, path, entries)


def arranged(plan: StorePlan, entries: Iterator[Entry]) -> Iterator[Entry]:
    """The entries as a user knows them: of list state, the elements under a key as one list."""
    return lists(entries) if plan.declared.kind == "list" else entries


def lists(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Entries of list state, an element each, as one entry a key."""
    # Keys as text: a NaN equals nothing, and the two times of a repeated hour equal each other.
    for _, elements in groupby(entries, key=lambda entry: repr(entry[0])):
        held = list(elements)
        yield held[0][0], [value for _, value in held]


def _refused(plan: StorePlan, family: StoredFamily, entries: Iterator[Entry]) -> Iterator[Entry]:
    for _ in entries:
        plan.refuse(family)
    return iter(())


def _migrated(plan: StorePlan, path: Path, entries: Iterator[Entry]) -> Iterator[Entry]:
    conform = plan.target.format.conform
    for key, value in entries:
        try:
            migrated = path.apply(value)
        except TransformError as error:
            raise error.at(key) from error.__cause__
        yield key, conform(migrated)
