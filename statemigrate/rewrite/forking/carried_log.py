"""The log in a new checkpoint: what was noted up to its batch, and how it was made.

It is written before the file that makes the new place a checkpoint, so that it is there with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from statemigrate.errors import CheckpointError
from statemigrate.files import Files
from statemigrate.logbook.code import Stamp
from statemigrate.logbook.events import Event, Verb
from statemigrate.logbook.folder import document_after, is_document, read_event
from statemigrate.logbook.standing import Standing
from statemigrate.rewrite.plan.scripts import Scripted


def of_later(old: Files, names: Iterable[str], batch: int) -> set[str]:
    """The documents of the log among ``names`` whose events are of a later batch.

    Those that cannot be read stay with the others: nobody can say that they do not belong there.
    """
    return {name for name in names if is_document(name) and _is_later(old, name, batch)}


def _is_later(old: Files, name: str, batch: int) -> bool:
    try:
        return read_event(old, name).batch > batch
    except CheckpointError:
        return False


def making(
    verb: Verb,
    batch: int,
    origin: str,
    carried: Iterable[str] = (),
    scripts: Iterable[Scripted] = (),
    unique: str | None = None,
    details: Mapping[str, str] | None = None,
) -> Mapping[str, bytes]:
    """The document that says how a checkpoint was made, by its name, after those ``carried``.

    ``details`` are what else there is to say.
    """
    changes = tuple(
        Standing(each.path.target, (each.family,)).after(each.store, each.path.source)
        for each in scripts
        if each.is_open
    )
    event = Event.now(
        verb, batch, changes, Stamp.of(Path.cwd()), {**(details or {}), "from": origin}
    )
    documents = sorted(name for name in carried if is_document(name))
    name, data = document_after(documents[-1] if documents else None, event, unique)
    return {name: data}
