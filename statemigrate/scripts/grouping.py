"""What is wrong between the scripts of a folder, whatever stores they are for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from statemigrate.errors import LineageError
from statemigrate.scripts.loading import Script
from statemigrate.shell import argument


def faults_across_stores(scripts: Iterable[Script]) -> Iterator[LineageError]:
    """What is wrong between scripts whose places are checked, and cannot be seen within one store.

    A revision that two scripts have, and a script that follows one of another store.
    """
    known: dict[str, Script] = {}
    for script in scripts:
        first = known.setdefault(script.get("revision"), script)
        if first is not script:
            yield _same_revision(first, script)
    for script in known.values():
        parent = known.get(script.get("down_revision"))
        if parent is not None and parent.get("store") != script.get("store"):
            yield _another_store(parent, script)


def _same_revision(first: Script, script: Script) -> LineageError:
    return LineageError(
        "SM-LINEAGE-012",
        f"Two scripts have the revision {script.get('revision')}.",
        expected="a revision of its own for every script",
        found=f"{first.path} and {script.path}",
        next_action="remove the copy, or give one of them another `revision`",
        store=script.get("store"),
        revision=script.get("revision"),
        path=str(script.path),
    )


def _another_store(parent: Script, script: Script) -> LineageError:
    above, here = parent.get("store"), script.get("store")
    return LineageError(
        "SM-LINEAGE-008",
        f"{script.path} is for another store than the script it follows.",
        expected=f"store = {above!r}, as in {parent.path}",
        found=f"store = {here!r}",
        next_action="correct `store`, or write a first script for the other store: "
        f"`statemigrate new {argument(here)} -m MESSAGE`",
        store=here,
        revision=script.get("revision"),
        path=str(script.path),
    )
