"""Sorts the scripts of a folder by store."""

from __future__ import annotations

from collections.abc import Iterable

from statemigrate.errors import LineageError
from statemigrate.scripts.loading import Script
from statemigrate.scripts.reading import store_of


def by_store(scripts: Iterable[Script]) -> dict[str, list[Script]]:
    """Return the scripts of each store, stores by name, scripts in the order given.

    Raises LineageError for a revision that two scripts have, and for a script that follows one of
    another store: neither could be seen within one store.
    """
    known: dict[str, Script] = {}
    stores: dict[str, list[Script]] = {}
    for script in scripts:
        stores.setdefault(store_of(script), []).append(script)
        _check_unique(known.setdefault(script.get("revision"), script), script)
    for script in known.values():
        parent = known.get(script.get("down_revision"))
        if parent is not None:
            _check_same_store(parent, script)
    return dict(sorted(stores.items()))


def _check_unique(first: Script, script: Script) -> None:
    if first is not script:
        raise LineageError(
            f"Two scripts have the revision {script.get('revision')}.",
            expected="a revision of its own for every script",
            found=f"{first.path} and {script.path}",
            next_action="remove the copy, or give one of them another `revision`",
            revision=script.get("revision"),
        )


def _check_same_store(parent: Script, script: Script) -> None:
    above, here = parent.get("store"), script.get("store")
    if above != here:
        raise LineageError(
            f"{script.path} is for another store than the script it follows.",
            expected=f"store = {above!r}, as in {parent.path}",
            found=f"store = {here!r}",
            next_action="correct `store`, or write a first script for the other store: "
            f"`statemigrate new {here} -m MESSAGE`",
            store=here,
            revision=script.get("revision"),
        )
